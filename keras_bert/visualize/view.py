"""Shows attention weights in a notebook, or writes them to a file."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING

from keras_bert import atomic
from keras_bert.extras import needed
from keras_bert.visualize.attention_weights import Weights, clearest_head, weights_of
from keras_bert.visualize.page import page
from keras_bert.visualize.picture import picture

if TYPE_CHECKING:
    from keras_bert.encoder import BertEncoder
    from keras_bert.text import BertPreprocessor

PAGE, PICTURE = ".html", ".png"


def attention(
    encoder: BertEncoder, preprocessor: BertPreprocessor, text: str, second: str | None = None
) -> AttentionView:
    """Shows how much the tokens of a text attend to each other, in every layer and head of an encoder.

    Args:
        encoder: any encoder.
        preprocessor: the encoder's. Only its tokenizer is used: nothing is padded or truncated.
        text: a text that fits into the model's positions.
        second: the second text of a pair.

    Returns:
        A view that can be saved. A notebook shows it as a page of four parts: lines between tokens, a heat map, an
        overview of all heads, and the computation of a weight.

    Raises:
        TypeError: a text is not a str.
        ValueError: the text is too long for the model, or not valid Unicode.

    Example:
        >>> from keras_bert import BertEncoder, BertPreprocessor
        >>> encoder = BertEncoder.from_preset("all-MiniLM-L6-v2")
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2")
        >>> attention(encoder, preprocessor, "the cat sat on the mat")
        <AttentionView: 6 layers of 12 heads, 8 tokens>
    """
    return AttentionView(weights_of(encoder, preprocessor, *([text] if second is None else [text, second])))


class AttentionView:
    """The attention weights of one text or one pair, shown or saved; `attention` makes it.

    Args:
        weights: the tokens, the weights between them, and the queries and keys behind the weights.

    Attributes:
        weights: as above.

    Example:
        >>> import numpy as np
        >>> scores, (queries, keys) = np.full((2, 4, 3, 3), 1 / 3), np.zeros((2, 2, 4, 3, 8))
        >>> view = AttentionView(Weights(("a",), ["[CLS]", "a", "[SEP]"], None, scores, queries, keys))
        >>> view
        <AttentionView: 2 layers of 4 heads, 3 tokens>
        >>> view._repr_html_().split()[0]
        '<iframe'
    """

    def __init__(self, weights: Weights) -> None:
        self.weights = weights

    def save(
        self, path: str | Path, layer: int | None = None, head: int | None = None, overwrite: bool = False
    ) -> None:
        """Writes a page or a picture.

        Args:
            path: `.html` for a self-contained page, or `.png` for a picture, which needs matplotlib.
            layer, head: indices, from 0, as in `BertEncoder.attention_scores`. A page starts with them, by default with
                the head with the largest weights between different words. A picture shows only them, by default a grid
                of all heads of all layers.
            overwrite: whether to replace the file.

        Raises:
            FileExistsError: the file exists and `overwrite` is False.
            ImportError: matplotlib is not installed.
            ValueError: the path has another suffix, or there is no such layer or head.
        """
        path = Path(path)
        content = self.rendered(path, layer, head)
        atomic.refuse_to_overwrite(path.parent, [path.name], overwrite)
        with atomic.written_whole(path) as unfinished:
            unfinished.write_bytes(content)

    def rendered(self, path: str | Path, layer: int | None = None, head: int | None = None) -> bytes:
        """The bytes that `save` would write to `path`. Arguments and errors are those of `save`."""
        suffix = check_path(path)
        for name, number, count in zip(("layer", "head"), (layer, head), self.weights.scores.shape, strict=False):
            if number is not None and not 0 <= number < count:
                raise ValueError(f"{name} is {number}, but this model has the {name}s 0 to {count - 1}")
        if suffix == PICTURE:
            return picture(self.weights, layer, head)
        return page(self.weights, *clearest_head(self.weights, layer, head)).encode()

    def _repr_html_(self) -> str:
        """The page in a sandboxed frame, which cannot touch the notebook around it."""
        source = html.escape(page(self.weights, *clearest_head(self.weights)))
        return (
            f'<iframe srcdoc="{source}" sandbox="allow-scripts" title="Attention" '
            'style="width: 100%; height: 640px; border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        layers, heads, tokens = self.weights.scores.shape[:3]
        return f"<AttentionView: {layers} layers of {heads} heads, {tokens} tokens>"


def check_path(path: str | Path) -> str:
    """The suffix of a path that `save` can write.

    Raises:
        ImportError: it is a picture's, and matplotlib is not installed.
        ValueError: it is neither a page's nor a picture's.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (PAGE, PICTURE):
        raise ValueError(f"{path} ends neither in {PAGE}, a page, nor in {PICTURE}, a picture")
    if suffix == PICTURE:
        needed("matplotlib.figure", "matplotlib")
    return suffix

"""Shows attention weights in a notebook, or writes them to a file: a page, or a picture of a head or of all heads."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_bert import files
from keras_bert.counted import counted
from keras_bert.extras import import_extra
from keras_bert.visualize.attention_weights import AttentionWeights, clearest_head, compute_weights
from keras_bert.visualize.page import page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

    from keras_bert.encoder import BertEncoder
    from keras_bert.text import BertPreprocessor


_DOTS_PER_INCH = 200
_HEAD_SIZE = 0.8  # inches, in a grid
_TOKEN_SIZE = 0.17  # inches, in a picture of one head
_BAR = 2.5  # inches, the colour bar
_LETTERS = 8  # points


def picture(weights: AttentionWeights, layer: int | None = None, head: int | None = None) -> bytes:
    """Draws a PNG: a heat map of one head with its tokens, or a grid, a row per layer and a column per head."""
    layers = range(len(weights.weights)) if layer is None else [layer]
    heads = range(weights.weights.shape[1]) if head is None else [head]
    if len(layers) == len(heads) == 1:
        height = max(4.0, _TOKEN_SIZE * len(weights.tokens) + 1.2)
        figure, axes = new_figure(1.15 * height, height)
        image = _draw_head(axes, weights, layers[0], heads[0])
    else:
        height = max(2.0, _HEAD_SIZE * len(layers) + 0.7)
        figure, axes = new_figure(max(3.0, _HEAD_SIZE * len(heads) + 1.2), height)
        image = _draw_grid(axes, weights, layers, heads)
    ticks = [0, 0.01, 0.05, 0.2, 0.5, 1]
    bar = figure.colorbar(image, ticks=ticks, format="%g", shrink=min(1.0, _BAR / height), aspect=20)
    bar.ax.tick_params(labelsize=_LETTERS)
    bar.set_label("attention weight", fontsize=_LETTERS)
    return png(figure)


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """Makes an empty matplotlib figure of this size in inches, and its axes."""
    # Not pyplot, which keeps figures in memory and may need a display.
    figure = import_extra("matplotlib.figure", "matplotlib").Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def png(figure: Figure) -> bytes:
    """Renders a figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DOTS_PER_INCH)
    return buffer.getvalue()


def _draw_head(axes: Axes, weights: AttentionWeights, layer: int, head: int) -> AxesImage:
    image = _draw_heat_map(axes, weights.weights[layer, head])
    ticks = range(len(weights.tokens))
    axes.set_title(f"layer {layer}, head {head}", fontsize=_LETTERS + 2)
    axes.set(xlabel="attends to (key)", ylabel="attends from (query)", xticks=ticks, yticks=ticks)
    literal_text = {"parse_math": False, "fontsize": _LETTERS}  # a $ is a token, not a formula
    axes.set_xticklabels(weights.tokens, rotation=90, **literal_text)
    axes.set_yticklabels(weights.tokens, **literal_text)
    if weights.second is not None:
        for line in (axes.axhline, axes.axvline):
            line(weights.second - 0.5, color="black", linewidth=0.5, linestyle=":")
    return image


def _draw_grid(axes: Axes, weights: AttentionWeights, layers: Sequence[int], heads: Sequence[int]) -> AxesImage:
    """Draws all heads in one image: hundreds of axes, one per head, would take a minute."""
    size = len(weights.tokens)
    gap = max(1, size // 10)
    step = size + gap
    canvas = np.full((len(layers) * step - gap, len(heads) * step - gap), np.nan, np.float32)
    for row, layer in enumerate(layers):
        for column, head in enumerate(heads):
            top, left = row * step, column * step
            canvas[top : top + size, left : left + size] = weights.weights[layer, head]
    image = _draw_heat_map(axes, canvas)
    axes.set_title("in each heat map, a row attends to its columns", fontsize=_LETTERS + 2)
    axes.set(xlabel="head", ylabel="layer")
    axes.set_xticks([column * step + (size - 1) / 2 for column in range(len(heads))], [str(head) for head in heads])
    axes.set_yticks([row * step + (size - 1) / 2 for row in range(len(layers))], [str(layer) for layer in layers])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
    return image


def _draw_heat_map(axes: Axes, weights: np.ndarray) -> AxesImage:
    """Draws a heat map, shaded by the square root of the weight, so that small weights stay visible."""
    norm = import_extra("matplotlib.colors", "matplotlib").PowerNorm(0.5, vmin=0, vmax=1)
    return axes.imshow(weights, cmap="Blues", norm=norm, interpolation="nearest")


PAGE, PICTURE = ".html", ".png"


def attention(
    encoder: BertEncoder, preprocessor: BertPreprocessor, text: str, second: str | None = None
) -> AttentionView:
    """Shows how much the tokens of a text attend to each other, in every layer and head of an encoder.

    Args:
        encoder: any encoder.
        preprocessor: the encoder's preprocessor. Only its tokenizer is used: nothing is padded or truncated.
        text, second: a text, or a pair, which must fit into the positions of the model.

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
    return AttentionView(compute_weights(encoder, preprocessor, *([text] if second is None else [text, second])))


class AttentionView:
    """The attention `weights` of one text or one pair, shown or saved; `attention` makes it.

    Example:
        >>> import numpy as np
        >>> weights, (queries, keys) = np.full((2, 4, 3, 3), 1 / 3), np.zeros((2, 2, 4, 3, 8))
        >>> view = AttentionView(AttentionWeights(("a",), ["[CLS]", "a", "[SEP]"], None, weights, queries, keys))
        >>> view
        <AttentionView: 2 layers of 4 heads, 3 tokens>
        >>> view._repr_html_().split()[0]
        '<iframe'
    """

    def __init__(self, weights: AttentionWeights) -> None:
        self.weights = weights

    def save(
        self, path: str | Path, layer: int | None = None, head: int | None = None, overwrite: bool = False
    ) -> None:
        """Writes a page or a picture.

        Args:
            path: `.html` for a self-contained page, or `.png` for a picture, which needs matplotlib.
            layer, head: indices, from 0, as in `BertEncoder.attention_scores`. A page shows this head first, by default
                the head with the largest weights between words that are not neighbours. A picture shows only this layer
                or head, by default a grid of all heads of all layers.
            overwrite: whether to replace the file.

        Raises:
            FileExistsError: the file exists and `overwrite` is False.
            ImportError: matplotlib is not installed.
            ValueError: the path has another suffix, or there is no such layer or head.
        """
        path = Path(path)
        content = self.rendered(path, layer, head)
        files.refuse_to_overwrite(path.parent, [path.name], overwrite)
        with files.written_whole(path) as unfinished:
            unfinished.write_bytes(content)

    def rendered(self, path: str | Path, layer: int | None = None, head: int | None = None) -> bytes:
        """Makes the bytes that `save` would write to `path`, with the arguments and errors of `save`."""
        suffix = check_path(path)
        for name, number, count in zip(("layer", "head"), (layer, head), self.weights.weights.shape, strict=False):
            if number is not None and not 0 <= number < count:
                raise ValueError(f"{name} is {number}, but this model has the {name}s 0 to {count - 1}")
        if suffix == PICTURE:
            return picture(self.weights, layer, head)
        return page(self.weights, *clearest_head(self.weights, layer, head)).encode()

    def _repr_html_(self) -> str:
        """Embeds the page in a sandboxed frame, which cannot touch the notebook around it."""
        source = html.escape(page(self.weights, *clearest_head(self.weights)))
        return (
            f'<iframe srcdoc="{source}" sandbox="allow-scripts" title="Attention" '
            'style="width: 100%; height: 640px; border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        layers, heads, tokens = self.weights.weights.shape[:3]
        return f"<AttentionView: {counted(layers, 'layer')} of {counted(heads, 'head')}, {counted(tokens, 'token')}>"


def check_path(path: str | Path) -> str:
    """Checks that `save` can write a path, and returns its suffix in lower case."""
    suffix = Path(path).suffix.lower()
    if suffix not in (PAGE, PICTURE):
        raise ValueError(f"{path} ends neither in {PAGE} (a page) nor in {PICTURE} (a picture)")
    if suffix == PICTURE:
        import_extra("matplotlib.figure", "matplotlib")
    return suffix

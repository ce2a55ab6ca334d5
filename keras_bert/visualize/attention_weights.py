"""A text and an encoder -> the tokens, the attention weights of every head, and its queries and keys."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from keras import ops

from keras_bert.text import BertPreprocessor

if TYPE_CHECKING:
    from keras_bert.encoder import BertEncoder


class Weights(NamedTuple):
    """The attention within one row of the encoder's input.

    Attributes:
        texts: one text, or the two of a pair.
        tokens: the row's tokens as in the vocabulary, special tokens included.
        second: the index of the second text's first token; None if there is only one text.
        scores: float32 `[num_layers, num_heads, tokens, tokens]`: how much each token (third axis) attends to each
            other one (fourth axis).
        queries, keys: float32 `[num_layers, num_heads, tokens, head_size]`: the scores are
            `softmax(queries keys^T / sqrt(head_size))`. (Of disentangled attention, the queries divided by `sqrt(3)`.)
        added: float32, of the shape of the scores: what is added for distances before the softmax; None: nothing.
        reaches: for each layer, the distance of the farthest token that a token attends to; None: there is no limit.
    """

    texts: tuple[str, ...]
    tokens: list[str]
    second: int | None
    scores: np.ndarray
    queries: np.ndarray
    keys: np.ndarray
    added: np.ndarray | None = None
    reaches: tuple[int | None, ...] | None = None


def weights_of(encoder: BertEncoder, preprocessor: BertPreprocessor, *texts: str) -> Weights:
    """Runs the encoder on one text or a pair, without truncation.

    Args:
        encoder: any encoder.
        preprocessor: the encoder's; only its tokenizer is used.
        *texts: one text or two.

    Raises:
        TypeError: a text is not a str.
        ValueError: the texts have more tokens than the model has positions, or are not valid Unicode.

    Example:
        >>> from keras_bert import BertEncoder, BertPreprocessor
        >>> encoder = BertEncoder.from_preset("all-MiniLM-L6-v2")
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2")
        >>> weights = weights_of(encoder, preprocessor, "the cat", "it sat")
        >>> weights.tokens, weights.second
        (['[CLS]', 'the', 'cat', '[SEP]', 'it', 'sat', '[SEP]'], 4)
        >>> weights.scores.shape
        (6, 12, 7, 7)
        >>> weights.queries.shape, weights.keys.shape
        ((6, 12, 7, 32), (6, 12, 7, 32))
    """
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"got a {type(text).__name__} as text; expected a str")
    tokenizer = preprocessor.tokenizer
    segments = tuple(tokenizer.tokenize([text]) for text in texts)
    lengths = [int(segment.row_lengths()[0]) for segment in segments]
    special, positions = tokenizer.pair_format.special_tokens(len(texts)), encoder.config.max_positions
    length = sum(lengths) + special
    if length > positions:
        raise ValueError(
            f"the text is {length} tokens long, {special} special tokens included, but this model has {positions} "
            "positions; nothing is cut here: give a shorter text"
        )
    whole = BertPreprocessor(tokenizer, sequence_length=None, max_sequence_length=positions)
    inputs = {name: values[:, :length] for name, values in whole.pack(segments).items()}  # without any padding
    scores = _of_the_row(encoder.attention_scores(inputs))
    queries, keys = map(_of_the_row, zip(*encoder.queries_and_keys(inputs), strict=True))
    tokens = [tokenizer.vocabulary[i] for i in inputs["input_word_ids"].numpy()[0]]
    second = length - 1 - lengths[1] if len(texts) == 2 else None
    config, added = encoder.config, encoder.scores_of_distances(inputs)
    if config.disentangled_buckets is not None:
        queries = queries / np.float32(math.sqrt(3))
    reaches = [config.local_window // 2 if config.is_local(layer) else None for layer in range(config.num_layers)]
    added = None if added is None else _of_the_row(added)
    return Weights(texts, tokens, second, scores, queries, keys, added, tuple(reaches))


def clearest_head(weights: Weights, layer: int | None = None, head: int | None = None) -> tuple[int, int]:
    """The layer and the head with the most to see: large weights between different words.

    Many heads put nearly all of their weight on `[CLS]` and `[SEP]`, or spread it over all tokens. The clearest head is
    the one with the largest sum of squared weights, without those from or to special tokens, or to the token itself.

    Args:
        weights: of one text, or of a pair.
        layer, head: if given, only the heads of this layer, or only this head of each layer, are compared.

    Returns:
        Their numbers, from 0; of several that are equal, the first.

    Example:
        >>> scores, (queries, keys) = np.full((2, 2, 4, 4), 0.25), np.zeros((2, 2, 2, 4, 8))
        >>> scores[1, 0, 1] = [0.1, 0.0, 0.9, 0.0]  # "the" attends to "cat"
        >>> weights = Weights(("the cat",), ["[CLS]", "the", "cat", "[SEP]"], None, scores, queries, keys)
        >>> clearest_head(weights), clearest_head(weights, layer=0)
        ((1, 0), (0, 0))
    """
    special = {weights.tokens[0], weights.tokens[-1]}
    words = [place for place, token in enumerate(weights.tokens) if token not in special]
    between = weights.scores[:, :, words][:, :, :, words] * (1 - np.eye(len(words)))
    clearness = np.square(between).sum(axis=(2, 3))  # [num_layers, num_heads]
    layers = range(len(clearness)) if layer is None else [layer]
    heads = range(clearness.shape[1]) if head is None else [head]
    return max(((i, j) for i in layers for j in heads), key=lambda place: clearness[place])


def _of_the_row(layers: Iterable[Any]) -> np.ndarray:
    """The layers' tensors for a batch of one row, stacked."""
    return np.stack([ops.convert_to_numpy(ops.cast(layer[0], "float32")) for layer in layers])

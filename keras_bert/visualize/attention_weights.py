"""Computes the tokens of a text, and every head's attention weights, queries and keys."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from keras import ops

from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor

if TYPE_CHECKING:
    from keras_bert.encoder import BertEncoder


class AttentionWeights(NamedTuple):
    """The attention within one row of the encoder's input.

    Attributes:
        texts: one text, or the two texts of a pair.
        tokens: the row's tokens as in the vocabulary, special tokens included.
        second: the index of the second text's first token; None if there is only one text.
        weights: float32 `[num_layers, num_heads, tokens, tokens]`: how much each query (third axis) attends to each key
            (fourth axis).
        queries, keys: float32 `[num_layers, num_heads, tokens, head_size]`: the weights are
            `softmax(queries keys^T / sqrt(head_size) + added)`. Queries of disentangled attention hold the factor
            `1 / sqrt(3)`.
        added: float32, of the shape of the weights: the distance terms. None: 0.
        half_windows: for each layer, the largest distance at which a token attends to another. None: no limit.
    """

    texts: tuple[str, ...]
    tokens: list[str]
    second: int | None
    weights: np.ndarray
    queries: np.ndarray
    keys: np.ndarray
    added: np.ndarray | None = None
    half_windows: tuple[int | None, ...] | None = None


def compute_weights(encoder: BertEncoder, preprocessor: BertPreprocessor, *texts: str) -> AttentionWeights:
    """Computes the attention within one text or a pair, without truncation.

    Args:
        encoder: any encoder.
        preprocessor: the encoder's preprocessor, of which only the tokenizer is used.
        *texts: one text or two.

    Raises:
        TypeError: a text is not a str.
        ValueError: the texts have more tokens than the model has positions, or are not valid Unicode.

    Example:
        >>> from keras_bert import BertEncoder, BertPreprocessor
        >>> encoder = BertEncoder.from_preset("all-MiniLM-L6-v2")
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2")
        >>> found = compute_weights(encoder, preprocessor, "the cat", "it sat")
        >>> found.tokens, found.second
        (['[CLS]', 'the', 'cat', '[SEP]', 'it', 'sat', '[SEP]'], 4)
        >>> found.weights.shape
        (6, 12, 7, 7)
        >>> found.queries.shape, found.keys.shape
        ((6, 12, 7, 32), (6, 12, 7, 32))
    """
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"text is a {type(text).__name__}; expected a str")
    tokenizer = preprocessor.tokenizer
    segments = tuple(tokenizer.tokenize([text]) for text in texts)
    lengths = [int(segment.row_lengths()[0]) for segment in segments]
    num_special, positions = tokenizer.pair_format.special_tokens(len(texts)), encoder.config.max_positions
    length = sum(lengths) + num_special
    if length > positions:
        raise ValueError(
            f"the text is {length} tokens long, {num_special} special tokens included, but this model has {positions} "
            "positions; pass a shorter text"
        )
    untruncated = BertPreprocessor(tokenizer, sequence_length=None, max_sequence_length=positions)
    inputs = {name: values[:, :length] for name, values in untruncated.pack(segments).items()}  # without any padding
    weights = _stack_layers(encoder.attention_scores(inputs))
    queries, keys = map(_stack_layers, zip(*encoder.queries_and_keys(inputs), strict=True))
    tokens = [tokenizer.vocabulary[i] for i in inputs["input_word_ids"].numpy()[0]]
    second = length - 1 - lengths[1] if len(texts) == 2 else None
    config, added = encoder.config, encoder.scores_of_distances(inputs)
    if config.disentangled_buckets is not None:
        queries = queries / np.float32(math.sqrt(3))
    half_windows = [config.local_window // 2 if config.is_local(layer) else None for layer in range(config.num_layers)]
    added = None if added is None else _stack_layers(added)
    return AttentionWeights(texts, tokens, second, weights, queries, keys, added, tuple(half_windows))


def clearest_head(weights: AttentionWeights, layer: int | None = None, head: int | None = None) -> tuple[int, int]:
    """Finds the layer and the head with the largest weights between words that are not neighbours.

    Use it to choose the head to show first. Many heads put nearly all of their weight on `[CLS]` and `[SEP]`, on the
    token before or after, or spread it over all tokens (Clark et al. 2019, What Does BERT Look At?, section 3). The
    clearest head has the largest sum of squared weights, where weights from or to special tokens, and from a token to
    itself or to a neighbour, are left out. In a text of fewer than three words, all are neighbours, so they count.

    Args:
        weights: the weights of one text, or of a pair.
        layer: compares only the heads of this layer. None: of all layers.
        head: compares only this head of each layer. None: all heads.

    Returns:
        The indices of the layer and the head; on a tie, the first.

    Example:
        >>> weights, (queries, keys) = np.full((2, 2, 4, 4), 0.25), np.zeros((2, 2, 2, 4, 8))
        >>> weights[1, 0, 1] = [0.1, 0.0, 0.9, 0.0]  # "the" attends to "cat"
        >>> found = AttentionWeights(("the cat",), ["[CLS]", "the", "cat", "[SEP]"], None, weights, queries, keys)
        >>> clearest_head(found), clearest_head(found, layer=0)
        ((1, 0), (0, 0))
    """
    special = {weights.tokens[0], weights.tokens[-1]}
    words = [index for index, token in enumerate(weights.tokens) if token not in special]
    distances = np.abs(np.subtract.outer(words, words))
    are_distant = distances > min(1, distances.max(initial=0) - 1)
    word_weights = weights.weights[:, :, words][:, :, :, words] * are_distant
    clearness = np.square(word_weights).sum(axis=(2, 3))  # [num_layers, num_heads]
    layers = range(len(clearness)) if layer is None else [layer]
    heads = range(clearness.shape[1]) if head is None else [head]
    return max(((i, j) for i in layers for j in heads), key=lambda index: clearness[index])


def _stack_layers(layers: Iterable[Tensor]) -> np.ndarray:
    """Stacks the layers' tensors, each of a batch of one row, without the batch's axis."""
    return np.stack([ops.convert_to_numpy(ops.cast(layer[0], "float32")) for layer in layers])

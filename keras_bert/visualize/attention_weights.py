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
    """The attention within one row: the weights are `softmax(queries keys^T / sqrt(head_size) + added)`."""

    texts: tuple[str, ...]  # one, or the two of a pair
    tokens: list[str]  # special tokens included
    second: int | None  # the index of the second text's first token
    weights: np.ndarray  # float32 [num_layers, num_heads, tokens (queries), tokens (keys)]
    queries: np.ndarray  # float32 [num_layers, num_heads, tokens, head_size]; of DeBERTa, with the factor 1 / sqrt(3)
    keys: np.ndarray  # of the queries' shape
    added: np.ndarray | None = None  # the distance terms, of the weights' shape; None: 0
    half_windows: tuple[int | None, ...] | None = None  # of each layer, the largest distance of attention; None: any


def compute_weights(encoder: BertEncoder, preprocessor: BertPreprocessor, *texts: str) -> AttentionWeights:
    """Computes the attention within one text or a pair, without truncation."""
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
    """Finds the head with the largest squared weights between words that are not neighbours; on a tie, the first."""
    # Many heads put nearly all of their weight on [CLS] and [SEP], on the token before or after, or spread it over all
    # tokens (Clark et al. 2019, section 3). In a text of fewer than three words, all are neighbours, so they count.
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

"""Multi-head self-attention (Vaswani et al. 2017, section 3.2)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.disentangled import Distances
from keras_bert.encoder.layers import Dropout, LayerMaker
from keras_bert.encoder.positions import RelativeBias, rotate
from keras_bert.encoder.unpadding import LOWEST, AttentionMask, Unpadding, shapes_may_vary
from keras_bert.shapes import block_layers
from keras_bert.tensors import Tensor

# Q, K and a mask to add, or None -> the scores before the softmax, `[batch, heads, queries, keys]`.
Scores = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def attend(
    query: Tensor,  # float [batch, heads, queries, size], as the result; in local attention, chunks are the batch
    key: Tensor,  # float [batch, heads, keys, size], as the value
    value: Tensor,
    scores: Scores,
    mask: Tensor | None,  # see `AttentionMask.additive`
    dropout: Callable[[Tensor], Tensor] | None = None,  # of the attention weights, in training
) -> Tensor:
    """Computes `softmax(scores(Q, K) + mask) V` in each head."""
    weights = ops.cast(ops.softmax(scores(query, key, mask), axis=-1), value.dtype)
    return ops.matmul(weights if dropout is None else dropout(weights), value)


# -- Long texts.

LONG = 1024  # tokens; the scores of a longer text do not fit into a processor's caches
_SCORES_IN_CHUNK = 2**22  # for all texts of the batch: 16 MB, which stay in the cache until the softmax


def attend_in_chunks_if_long(query: Tensor, key: Tensor, value: Tensor, scores: Scores, mask: Tensor | None) -> Tensor:
    """Computes `attend`, in chunks if longer than `LONG`; masks must be the same for all heads and queries."""
    whole = functools.partial(attend, query, key, value, scores, mask)
    in_chunks = functools.partial(_attend_in_chunks, query, key, value, scores, mask)
    length = ops.shape(query)[2]
    if isinstance(length, int):
        return in_chunks() if length > LONG else whole()
    if not shapes_may_vary():  # XLA would compile both branches
        return whole()
    return ops.cond(length > LONG, in_chunks, whole)


def _attend_in_chunks(query: Tensor, key: Tensor, value: Tensor, scores: Scores, mask: Tensor | None) -> Tensor:
    batch, _, length, size = ops.shape(query)
    chunk = _SCORES_IN_CHUNK // (batch * length) + 1  # queries
    chunks = (length + chunk - 1) // chunk
    is_masked, lowest = (None, None) if mask is None else (mask < 0, ops.min(mask))

    def scores_of_chunk(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        # TensorFlow 2.21 may fuse the product with a mask from outside of a loop, and then gives an empty result.
        if mask is not None:
            mask = ops.where(is_masked, lowest, ops.zeros((), mask.dtype))
        return scores(query, key, mask)

    def attend_head(head: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Attends within one head: takes Q, K and V, and returns the context, each `[batch, length, size]`."""
        query, key, value = head
        padding = ops.zeros((batch, chunks * chunk - length, size), query.dtype)
        query = ops.reshape(ops.concatenate([query, padding], axis=1), (batch, chunks, chunk, size))
        key, value = ops.expand_dims(key, 1), ops.expand_dims(value, 1)
        context = _map_one_by_one(
            lambda queries: attend(ops.expand_dims(queries, 1), key, value, scores_of_chunk, mask)[:, 0],
            ops.transpose(query, (1, 0, 2, 3)),
        )  # [chunks, batch, chunk, size]
        return ops.reshape(ops.transpose(context, (1, 0, 2, 3)), (batch, chunks * chunk, size))[:, :length]

    heads = tuple(ops.transpose(each, (1, 0, 2, 3)) for each in (query, key, value))
    return ops.transpose(_map_one_by_one(attend_head, heads), (1, 0, 2, 3))


def _map_one_by_one(function: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """Maps one element at a time. `ops.map` on TensorFlow maps ten at a time, and takes the memory of ten."""
    if keras.backend.backend() != "tensorflow":
        return ops.map(function, values)
    import tensorflow as tf

    dtype = values[0].dtype
    return tf.map_fn(function, values, fn_output_signature=dtype, parallel_iterations=1)


# -- Heads.


class AttentionHeads:
    """The heads of one layer's attention, without weights: they split tokens into Q, K and V, and attend."""

    def __init__(self, config: BertConfig, layer: int) -> None:
        self.is_local = config.is_local(layer)
        self._theta, self._rope_factor = config.theta(layer), config.rope_factor
        self._num_heads, self._key_value_heads = config.num_heads, config.key_value_heads
        self._head_size = config.head_size
        self._max_positions = config.max_positions

    def attend(
        self,
        qkv: Tensor,
        unpadding: Unpadding,
        scores: Scores,
        mask: Tensor | None,
        dropout: Callable[[Tensor], Tensor] | None = None,
        may_split: bool = True,
    ) -> Tensor:
        """Computes means of values, `[tokens, num_heads * head_size]`, from `qkv`, as wide as `config.qkv_sizes`."""
        qkv = self._split_and_rotate(qkv, unpadding)
        if self.is_local:
            query, key, value = self._split_qkv(qkv)
            query = ops.transpose(unpadding.band.split(query), (0, 2, 1, 3))  # [chunks, num_heads, chunk, head_size]
            key, value = (ops.transpose(unpadding.band.neighbours(each), (0, 2, 1, 3)) for each in (key, value))
            context = attend(query, key, value, scores, mask, dropout)
            context = unpadding.band.join(ops.transpose(context, (0, 2, 1, 3)))
        else:
            query, key, value = self._to_sequences(qkv, unpadding)
            is_same_for_queries = mask is None or mask.shape[2] == 1
            if may_split and is_same_for_queries and dropout is None and self._max_positions > LONG:
                context = attend_in_chunks_if_long(query, key, value, scores, mask)
            else:
                context = attend(query, key, value, scores, mask, dropout)
            context = unpadding.tokens(ops.transpose(context, (0, 2, 1, 3)))
        return ops.reshape(context, (-1, self._num_heads * self._head_size))

    def split_sequences(self, qkv: Tensor, unpadding: Unpadding) -> tuple[Tensor, Tensor, Tensor]:
        """Splits `[tokens, qkv]` into Q, K and V, each `[batch, num_heads, seq_length, head_size]`; rotates Q and K."""
        return self._to_sequences(self._split_and_rotate(qkv, unpadding), unpadding)

    def split_vectors(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Splits `[vectors, qkv]` into Q, K and V, each `[num_heads, vectors, head_size]`, without positions."""
        query, key, value = (ops.transpose(each, (1, 0, 2)) for each in self._split_qkv(self._split_heads(qkv)))
        return query, key, value

    def _split_heads(self, qkv: Tensor) -> Tensor:
        return ops.reshape(qkv, (-1, self._num_heads + 2 * self._key_value_heads, self._head_size))

    def _split_and_rotate(self, qkv: Tensor, unpadding: Unpadding) -> Tensor:
        """Splits into heads, `[tokens, num_heads + 2 * key_value_heads, head_size]`, and rotates Q and K."""
        qkv = self._split_heads(qkv)
        if self._theta is None:
            return qkv
        query_key, value = ops.split(qkv, [self._num_heads + self._key_value_heads], axis=1)
        rotated = rotate(query_key, unpadding.positions, self._theta, self._rope_factor)
        return ops.concatenate([rotated, value], axis=1)

    def _to_sequences(self, qkv: Tensor, unpadding: Unpadding) -> tuple[Tensor, Tensor, Tensor]:
        qkv = unpadding.sequences(qkv, zeros=False)  # [batch, seq_length, num_heads + 2 * key_value_heads, head_size]
        if self._key_value_heads < self._num_heads:
            return self._split_qkv(ops.transpose(qkv, (0, 2, 1, 3)))
        # One transpose for Q, K and V; no copy follows.
        qkv = ops.reshape(qkv, (*unpadding.shape, 3, self._num_heads, self._head_size))
        return tuple(ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), 3))

    def _split_qkv(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Splits heads (second axis) into Q, K and V, and repeats K and V for the query heads that share them."""
        query, key, value = ops.split(qkv, [self._num_heads, self._num_heads + self._key_value_heads], axis=1)
        if self._key_value_heads < self._num_heads:
            key, value = (ops.repeat(each, self._num_heads // self._key_value_heads, axis=1) for each in (key, value))
        return query, key, value


class SelfAttention(keras.layers.Layer):
    """`softmax(Q K^T / sqrt(d)) V` in each head, then one dense layer over the concatenated heads.

    In disentangled attention, the queries and keys of distances add two terms to `Q K^T`, and the sum is divided by
    `sqrt(3 d)` (see `Distances`). Layers of some families differ by their index, from 0.
    """

    def __init__(self, config: BertConfig, layer: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.heads = AttentionHeads(config, layer)
        self.half_window = config.local_window // 2
        summands = 1 if config.disentangled_buckets is None else 3
        self.scale = 1 / math.sqrt(summands * config.head_size)
        self.make = make = LayerMaker(block_layers(config, layer), config, self.dtype_policy)
        self.qkv = make("attention/qkv")
        self.output_dense = make("attention/output")
        self.dropout = Dropout(config.attention_dropout, dtype=self.dtype_policy, name="dropout")
        if config.disentangled_buckets is not None:
            self.distance_dropout = Dropout(config.hidden_dropout, dtype=self.dtype_policy, name="distance_dropout")

    def build(self, input_shape: Any = None) -> None:
        self.make.build()

    def call(
        self,
        hidden: Tensor,  # [tokens, hidden], as the result
        unpadding: Unpadding,
        attention_mask: AttentionMask,
        relative: RelativeBias | Distances | None = None,
        training: bool | None = None,
    ) -> Tensor:
        has_dropout = bool(training) and self.dropout.rate > 0
        context = self.heads.attend(
            self.qkv(hidden),
            unpadding,
            functools.partial(self._scores, relative=relative, training=training),
            attention_mask.additive(self.heads.is_local),
            functools.partial(self.dropout, training=True) if has_dropout else None,
            may_split=relative is None,
        )
        return self.output_dense(context)

    def attention_scores(
        self,
        hidden: Tensor,
        unpadding: Unpadding,
        attention_mask: AttentionMask,
        relative: RelativeBias | Distances | None = None,
    ) -> Tensor:
        """Computes the attention weights, after the softmax: `[batch, num_heads, seq_length, seq_length]`."""
        query, key = self.queries_and_keys(hidden, unpadding)
        scores = self._scores(query, key, attention_mask.additive(is_local=False), relative)
        if self.heads.is_local:
            positions = ops.arange(unpadding.shape[1], dtype="int32")
            distances = ops.abs(ops.expand_dims(positions, 0) - ops.expand_dims(positions, 1))
            scores = ops.where(distances <= self.half_window, scores, LOWEST)
        return ops.cast(ops.softmax(scores, axis=-1), self.compute_dtype)

    def queries_and_keys(self, hidden: Tensor, unpadding: Unpadding) -> tuple[Tensor, Tensor]:
        """Computes Q and K, each `[batch, num_heads, seq_length, head_size]`."""
        return self.heads.split_sequences(self.qkv(hidden), unpadding)[:2]

    def distance_terms(self, hidden: Tensor, unpadding: Unpadding, relative: RelativeBias | Distances) -> Tensor:
        """Computes the terms of the scores that depend on distances: float32 `[batch, num_heads, length, length]`."""
        query, key = self.queries_and_keys(hidden, unpadding)
        terms = relative.scores(query, key, self.scale, self._project_distances)
        return terms + ops.zeros((*ops.shape(query)[:3], ops.shape(query)[2]), "float32")

    def _scores(
        self,
        query: Tensor,
        key: Tensor,
        mask: Tensor | None,
        relative: RelativeBias | Distances | None = None,
        training: bool | None = None,
    ) -> Tensor:
        """Computes the scaled and masked scores in float32: a float16 softmax would lose small weights."""
        scores = ops.cast(ops.matmul(query * self.scale, ops.transpose(key, (0, 1, 3, 2))), "float32")
        if relative is not None:
            project = functools.partial(self._project_distances, training=training)
            scores = scores + relative.scores(query, key, self.scale, project)
        return scores if mask is None else scores + mask

    def _project_distances(self, vectors: Tensor, training: bool | None = None) -> tuple[Tensor, Tensor]:
        """Computes the queries and keys of distances, with the matrices of tokens."""
        return self.heads.split_vectors(self.qkv(self.distance_dropout(vectors, training=training)))[:2]

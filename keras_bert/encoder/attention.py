"""Multi-head self-attention (Vaswani et al. 2017, section 3.2)."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.disentangled import Distances, distance_scores
from keras_bert.encoder.layers import build, dropout, make_layer
from keras_bert.encoder.layout import LOWEST, Band, Layout, shapes_may_vary
from keras_bert.encoder.positions import rotate
from keras_bert.shapes import block_layers
from keras_bert.tensors import Tensor

LONG = 1024  # tokens; the scores of a longer text do not fit into a processor's caches
_SCORES_IN_CHUNK = 2**22  # for all texts of the batch: 16 MB, which stay in the cache until the softmax


def attend_chunked_if_long(
    attend: Callable[[Tensor, Tensor, Tensor], Tensor], query: Tensor, key: Tensor, value: Tensor
) -> Tensor:
    """Computes `attend(query, key, value)`, in chunks of one head and some queries if the text is longer than `LONG`.

    Args:
        attend: takes queries, float `[batch, some heads, some queries, size]`, and the keys and values of these heads;
            returns float of the shape of the queries.
        query, key, value: float `[batch, heads, length, size]`.

    Returns:
        float `[batch, heads, length, size]`.
    """
    length = ops.shape(query)[2]
    if isinstance(length, int):
        return _attend_in_chunks(attend, query, key, value) if length > LONG else attend(query, key, value)
    if not shapes_may_vary():  # XLA would compile both branches
        return attend(query, key, value)
    return ops.cond(
        length > LONG, lambda: _attend_in_chunks(attend, query, key, value), lambda: attend(query, key, value)
    )


def _attend_in_chunks(
    attend: Callable[[Tensor, Tensor, Tensor], Tensor], query: Tensor, key: Tensor, value: Tensor
) -> Tensor:
    batch, _, length, size = ops.shape(query)
    chunk = _SCORES_IN_CHUNK // (batch * length) + 1  # queries
    chunks = (length + chunk - 1) // chunk

    def attend_head(head: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Attends within one head: takes Q, K and V, and returns the context, each `[batch, length, size]`."""
        query, key, value = head
        padding = ops.zeros((batch, chunks * chunk - length, size), query.dtype)
        query = ops.reshape(ops.concatenate([query, padding], axis=1), (batch, chunks, chunk, size))
        key, value = ops.expand_dims(key, 1), ops.expand_dims(value, 1)
        context = _map_one_by_one(
            lambda chunk_queries: attend(ops.expand_dims(chunk_queries, 1), key, value)[:, 0],
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


# -- Attention without its dense layers, for every precision: heads, rotary embeddings, and local attention.

# Takes queries `[batch, num_heads, queries, head_size]` and keys; returns each query's weights, which sum to 1 before
# dropout.
WeightFunction = Callable[[Tensor, Tensor], Tensor]


class AttentionHeads:
    """The heads of one layer's attention, which attend to the whole text or to nearby tokens.

    Low precision uses this class too: it has no weights. The caller computes Q, K and V.

    Args:
        config: the architecture.
        layer: the layer's index, from 0: layers of some families differ.

    Attributes:
        is_local: whether tokens attend to nearby tokens only.
    """

    def __init__(self, config: BertConfig, layer: int) -> None:
        self.config = config
        self.theta = config.theta(layer)
        self.is_local = config.is_local(layer)
        self._qkv_heads = config.num_heads + 2 * config.key_value_heads

    def attend(self, qkv: Tensor, layout: Layout, weights: WeightFunction, may_split: bool = True) -> Tensor:
        """Computes the weighted means of the values.

        Args:
            qkv: float `[rows, qkv]`: Q, K and V of each row, as wide as `config.qkv_sizes`.
            layout: maps rows to sequences.
            weights: computes weights from queries and keys; the first axis is texts, or blocks in local attention.
            may_split: whether attention over long texts may run in chunks, see `attend_chunked_if_long`.

        Returns:
            float `[rows, num_heads * head_size]`: the concatenated heads.
        """
        qkv = self._split_and_rotate(qkv, layout)
        if self.is_local:
            context = local_attention(*self._split_qkv(qkv), layout.band, weights)
        else:
            query, key, value = self._sequences_to_heads(qkv, layout)
            # `attend` cannot tell which head and queries a chunk has, so scores must not depend on them.
            is_position_free = layout.bias is None and layout.distances is None and layout.same_document is None

            def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
                return ops.matmul(weights(query, key), value)

            if may_split and is_position_free and self.config.max_positions > LONG:
                context = attend_chunked_if_long(attend, query, key, value)
            else:
                context = attend(query, key, value)
            context = layout.rows(ops.transpose(context, (0, 2, 1, 3)))
        return ops.reshape(context, (-1, self.config.qkv_sizes[0]))

    def split_sequences(self, qkv: Tensor, layout: Layout) -> tuple[Tensor, Tensor, Tensor]:
        """Splits `[rows, qkv]` into Q, K and V, each `[batch, num_heads, seq_length, head_size]`; rotates Q and K."""
        return self._sequences_to_heads(self._split_and_rotate(qkv, layout), layout)

    def split_rows(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Splits `[rows, qkv]` into Q, K and V, each `[rows, num_heads, head_size]`, without rotary embeddings."""
        return self._split_qkv(self._split_heads(qkv))

    def _split_heads(self, qkv: Tensor) -> Tensor:
        return ops.reshape(qkv, (-1, self._qkv_heads, self.config.head_size))

    def _split_and_rotate(self, qkv: Tensor, layout: Layout) -> Tensor:
        """Splits into heads, `[rows, num_heads + 2 * key_value_heads, head_size]`, and rotates Q and K."""
        qkv = self._split_heads(qkv)
        if self.theta is None:
            return qkv
        query_key, value = ops.split(qkv, [self._qkv_heads - self.config.key_value_heads], axis=1)
        return ops.concatenate(
            [rotate(query_key, layout.positions, self.theta, self.config.rope_factor), value], axis=1
        )

    def _sequences_to_heads(self, qkv: Tensor, layout: Layout) -> tuple[Tensor, Tensor, Tensor]:
        qkv = layout.sequences(qkv, zeros=False)  # [batch, seq_length, num_heads + 2 * key_value_heads, head_size]
        if self.config.key_value_heads < self.config.num_heads:
            return self._split_qkv(ops.transpose(qkv, (0, 2, 1, 3)))
        # One transpose for Q, K and V; no copy follows.
        qkv = ops.reshape(qkv, (*layout.shape, 3, self.config.num_heads, self.config.head_size))
        return tuple(ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), 3))

    def _split_qkv(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Splits heads (second axis) into Q, K and V, and repeats K and V for the query heads that share them."""
        heads, key_value_heads = self.config.num_heads, self.config.key_value_heads
        query, key, value = ops.split(qkv, [heads, heads + key_value_heads], axis=1)
        if key_value_heads < heads:
            key, value = (ops.repeat(each, heads // key_value_heads, axis=1) for each in (key, value))
        return query, key, value


def local_attention(query: Tensor, key: Tensor, value: Tensor, band: Band, weights: WeightFunction) -> Tensor:
    """Attends within a band, at a cost proportional to the window (Beltagy et al. 2020, Longformer, section 3.1).

    Args:
        query, key, value: float `[rows, num_heads, head_size]`.
        band: the window.
        weights: computes each query's weights from the blocks' queries and keys.

    Returns:
        float `[rows, num_heads, head_size]`.
    """
    query = ops.transpose(band.blocks(query), (0, 2, 1, 3))  # [blocks, num_heads, block, head_size]
    key, value = (ops.transpose(band.neighbours(each), (0, 2, 1, 3)) for each in (key, value))
    context = ops.matmul(weights(query, key), value)
    return band.rows(ops.transpose(context, (0, 2, 1, 3)))


class SelfAttention(keras.layers.Layer):
    """`softmax(Q K^T / sqrt(d)) V` in each head, then one dense layer over the concatenated heads.

    Inputs and outputs are rows, one per token. In disentangled attention, the queries and keys of distances add two
    terms to `Q K^T`, and the sum is divided by `sqrt(3 d)` (see `distance_scores`).

    Args:
        config: the architecture.
        layer: the layer's index, from 0: layers of some families differ.

    Call arguments:
        hidden: float `[rows, hidden]`.
        layout: maps rows to sequences.

    Returns:
        float `[rows, hidden]`.
    """

    def __init__(self, config: BertConfig, layer: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config, self.layer = config, layer
        self.heads = AttentionHeads(config, layer)
        summands = 1 if config.disentangled_buckets is None else 3
        self.scale = 1 / math.sqrt(summands * config.head_size)
        layers = block_layers(config, layer)
        self.qkv = make_layer(layers, "attention/qkv", config, self.dtype_policy)
        self.output_dense = make_layer(layers, "attention/output", config, self.dtype_policy)
        self.dropout = dropout(config.attention_dropout, self.dtype_policy)
        if config.disentangled_buckets is not None:
            self.distance_dropout = dropout(config.hidden_dropout, self.dtype_policy, "distance_dropout")

    def build(self, input_shape: Any = None) -> None:
        layers = {"attention/qkv": self.qkv, "attention/output": self.output_dense}
        build(block_layers(self.config, self.layer), layers)

    def call(self, hidden: Tensor, layout: Layout, training: bool | None = None) -> Tensor:
        def weights(query: Tensor, key: Tensor) -> Tensor:
            return self.dropout(self._weights(query, key, layout, training), training=training)

        has_dropout = bool(training) and self.dropout.rate > 0
        return self.output_dense(self.heads.attend(self.qkv(hidden), layout, weights, may_split=not has_dropout))

    def attention_scores(self, hidden: Tensor, layout: Layout) -> Tensor:
        """Computes the attention weights, after the softmax: `[batch, num_heads, seq_length, seq_length]`."""
        scores = layout.mask_scores(self._scores(*self.queries_and_keys(hidden, layout), layout))
        if self.heads.is_local:
            positions = ops.arange(layout.shape[1], dtype="int32")
            distances = ops.abs(ops.expand_dims(positions, 0) - ops.expand_dims(positions, 1))
            scores = ops.where(distances <= layout.half_window, scores, LOWEST)
        return _softmax(scores, self.compute_dtype)

    def queries_and_keys(self, hidden: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Computes Q and K, each `[batch, num_heads, seq_length, head_size]`."""
        return self.heads.split_sequences(self.qkv(hidden), layout)[:2]

    def distance_terms(self, hidden: Tensor, layout: Layout) -> Tensor:
        """Computes the terms of the scores that depend on distances.

        Returns:
            float32 `[batch, num_heads, seq_length, seq_length]`; 0 in plain attention.
        """
        query, key = self.queries_and_keys(hidden, layout)
        terms = ops.zeros((*ops.shape(query)[:3], ops.shape(query)[2]), "float32")
        if layout.bias is not None:
            terms = terms + layout.bias
        if layout.distances is not None:
            terms = terms + self._distance_scores(query, key, layout.distances, False)
        return terms

    def _weights(self, query: Tensor, key: Tensor, layout: Layout, training: bool | None) -> Tensor:
        """Computes attention weights from Q and K of sequences or, in local attention, of a band's blocks."""
        scores = self._scores(query, key, layout, training)
        scores = ops.where(layout.band.mask, scores, LOWEST) if self.heads.is_local else layout.mask_scores(scores)
        return _softmax(scores, query.dtype)

    def _scores(self, query: Tensor, key: Tensor, layout: Layout, training: bool | None = None) -> Tensor:
        """Computes the scaled scores, before the softmax, in float32: a float16 softmax would lose small weights."""
        scores = ops.cast(ops.matmul(query * self.scale, ops.transpose(key, (0, 1, 3, 2))), "float32")
        if layout.distances is not None:
            scores = scores + self._distance_scores(query, key, layout.distances, training)
        return scores

    def _distance_scores(self, query: Tensor, key: Tensor, distances: Distances, training: bool | None) -> Tensor:
        """Computes the terms of disentangled attention, scaled, in float32; see `distance_scores`."""
        rows = self.heads.split_rows(self.qkv(self.distance_dropout(distances.rows, training=training)))
        distance_query, distance_key, _ = (
            ops.transpose(each, (1, 0, 2)) for each in rows
        )  # [num_heads, rows, head_size]
        scores = distance_scores(
            query * self.scale, key * self.scale, distance_query, distance_key, distances.row_indices
        )
        return ops.cast(scores, "float32")


def _softmax(scores: Tensor, dtype: Any) -> Tensor:
    return ops.cast(ops.softmax(scores, axis=-1), dtype)

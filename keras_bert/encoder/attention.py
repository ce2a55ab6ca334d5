"""Multi-head self-attention (Vaswani et al. 2017, section 3.2)."""

import math
from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.attention_heads import AttentionHeads
from keras_bert.encoder.disentangled import Distances, distance_scores
from keras_bert.encoder.layers import dense, dropout
from keras_bert.encoder.layout import Layout

# float32's most negative number is added to the scores of padding. -inf would give NaN for rows of only padding.
_LOWEST = -3.4028235e38


class SelfAttention(keras.layers.Layer):
    """`softmax(Q K^T / sqrt(d)) V` in each head, then one dense layer over the concatenated heads.

    Inputs and outputs are rows, one per token; the `layout` maps rows to sequences. In disentangled attention, the
    queries and keys of distances add two terms to `Q K^T`, and the sum is divided by `sqrt(3 d)`.

    Args:
        config: the architecture.
        layer: the layer's index, from 0: layers of some families differ.

    Call arguments:
        hidden: float `[rows, hidden]`.
        layout: the tokens of the rows.

    Returns:
        float `[rows, hidden]`.
    """

    def __init__(self, config: BertConfig, layer: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.heads = AttentionHeads(config, layer)
        summands = 1 if config.disentangled_buckets is None else 3
        self.scale = 1 / math.sqrt(summands * config.head_size)
        # One product for Q, K and V: the kernel is [hidden, qkv], where qkv is 3 * hidden without shared K and V.
        self.qkv = dense(config, sum(config.qkv_sizes), self.dtype_policy, "qkv", config.attention_bias)
        self.output_dense = dense(config, config.hidden_size, self.dtype_policy, "output", config.attention_bias)
        self.dropout = dropout(config.attention_dropout, self.dtype_policy)
        if config.disentangled_buckets is not None:
            self.distance_dropout = dropout(config.hidden_dropout, self.dtype_policy, "distance_dropout")

    def build(self, input_shape: Any = None) -> None:
        self.qkv.build((None, self.config.hidden_size))
        self.output_dense.build((None, self.config.hidden_size))

    def call(self, hidden: Any, layout: Layout, training: bool | None = None) -> Any:
        def weights(query: Any, key: Any) -> Any:
            return self.dropout(self._weights(query, key, layout, training), training=training)

        has_dropout = bool(training) and self.dropout.rate > 0
        return self.output_dense(self.heads.attend(self.qkv(hidden), layout, weights, may_be_cut=not has_dropout))

    def scores(self, hidden: Any, layout: Layout) -> Any:
        """float `[batch, num_heads, seq_length, seq_length]`: each position's attention weights, which sum to 1."""
        scores = masked(self._scores(*self.queries_and_keys(hidden, layout), layout), layout)
        if self.heads.reach is not None:
            places = ops.arange(layout.shape[1], dtype="int32")
            distances = ops.abs(ops.expand_dims(places, 0) - ops.expand_dims(places, 1))
            scores = ops.where(distances <= self.heads.reach, scores, _LOWEST)
        return _softmax(scores, self.compute_dtype)

    def queries_and_keys(self, hidden: Any, layout: Layout) -> tuple[Any, Any]:
        """Q and K, each `[batch, num_heads, seq_length, head_size]`."""
        return self.heads.of_sequences(self.qkv(hidden), layout)[:2]

    def added(self, hidden: Any, layout: Layout) -> Any:
        """float32 `[batch, num_heads, seq_length, seq_length]`: the distance terms of the scores."""
        query, key = self.queries_and_keys(hidden, layout)
        added = ops.zeros((*ops.shape(query)[:3], ops.shape(query)[2]), "float32")
        if layout.bias is not None:
            added = added + layout.bias
        if layout.distances is not None:
            added = added + self._distance_scores(query, key, layout.distances, False)
        return added

    def _weights(self, query: Any, key: Any, layout: Layout, training: bool | None) -> Any:
        """The attention weights of sequences, or of the blocks of a band."""
        scores, band = self._scores(query, key, layout, training), self.heads.band(layout)
        scores = masked(scores, layout) if band is None else ops.where(band.mask, scores, _LOWEST)
        return _softmax(scores, query.dtype)

    def _scores(self, query: Any, key: Any, layout: Layout, training: bool | None = None) -> Any:
        """The scaled products, in float32: a float16 softmax would lose small weights."""
        scores = ops.cast(ops.matmul(query * self.scale, ops.transpose(key, (0, 1, 3, 2))), "float32")
        if layout.distances is not None:
            scores = scores + self._distance_scores(query, key, layout.distances, training)
        return scores

    def _distance_scores(self, query: Any, key: Any, distances: Distances, training: bool | None) -> Any:
        """The scaled products of tokens and distances, in float32."""
        rows = self.heads.of_rows(self.qkv(self.distance_dropout(distances.rows, training=training)))
        far_query, far_key, _ = (ops.transpose(each, (1, 0, 2)) for each in rows)  # [num_heads, rows, head_size]
        scores = distance_scores(query * self.scale, key * self.scale, far_query, far_key, distances.row_of)
        return ops.cast(scores, "float32")


def _softmax(scores: Any, dtype: Any) -> Any:
    return ops.cast(ops.softmax(scores, axis=-1), dtype)


def masked(scores: Any, layout: Layout) -> Any:
    """Gives padding and other texts the lowest score, float32 `[batch, num_heads, seq_length, seq_length]`."""
    if layout.bias is not None:
        scores = scores + layout.bias
    if layout.padding_mask is not None:
        bias = (1.0 - ops.cast(layout.padding_mask, "float32")) * _LOWEST  # [batch, seq_length]
        scores = scores + ops.expand_dims(bias, (1, 2))
    if layout.same_document is not None:
        scores = ops.where(ops.expand_dims(layout.same_document, 1), scores, _LOWEST)
    return scores

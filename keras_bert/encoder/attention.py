"""Multi-head self-attention (Vaswani et al. 2017, section 3.2)."""

import math
from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.layers import dense, dropout
from keras_bert.encoder.layout import Layout
from keras_bert.encoder.local_attention import band_of, local_attention
from keras_bert.encoder.rotary import rotated

# float32's most negative number is added to the scores of padding. -inf would give NaN for rows of only padding.
_LOWEST = -3.4028235e38


class SelfAttention(keras.layers.Layer):
    """`softmax(Q K^T / sqrt(d)) V` in each head, then one dense layer over the concatenated heads.

    Inputs and outputs are rows, one per token; the `layout` knows the sequence of each row.

    Args:
        config: the architecture.
        layer: the number of the layer, from 0, for those whose layers differ.

    Call arguments:
        hidden: float `[rows, hidden]`.
        layout: the tokens of the rows.

    Returns:
        float `[rows, hidden]`.
    """

    def __init__(self, config: BertConfig, layer: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.theta = config.theta(layer)
        self.reach = config.local_window // 2 if config.is_local(layer) else None
        # Q, K and V in one product: concatenated matrices, [hidden, 3 * hidden].
        self.qkv = dense(config, 3 * config.hidden_size, self.dtype_policy, "qkv", config.attention_bias)
        self.output_dense = dense(config, config.hidden_size, self.dtype_policy, "output", config.attention_bias)
        self.dropout = dropout(config.attention_dropout, self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.qkv.build((None, self.config.hidden_size))
        self.output_dense.build((None, self.config.hidden_size))

    def call(self, hidden: Any, layout: Layout, training: bool | None = None) -> Any:
        attend = self._attend if self.reach is None else self._attend_nearby
        context = attend(self._projected(hidden, layout), layout, training)  # [rows, num_heads, head_size]
        return self.output_dense(ops.reshape(context, (-1, self.config.hidden_size)))

    def scores(self, hidden: Any, layout: Layout) -> Any:
        """float `[batch, num_heads, seq_length, seq_length]`: each position's attention weights, which sum to 1."""
        query, key, _ = self._heads(self._projected(hidden, layout), layout)
        return self._scores(query, key, layout)

    def queries_and_keys(self, hidden: Any, layout: Layout) -> tuple[Any, Any]:
        """Q and K, each `[batch, num_heads, seq_length, head_size]`."""
        return tuple(self._heads(self._projected(hidden, layout), layout)[:2])

    def _projected(self, hidden: Any, layout: Layout) -> Any:
        """Q, K and V of each row, with rotary positions: `[rows, 3 * hidden]`."""
        qkv = self.qkv(hidden)
        if self.theta is None:
            return qkv
        turned, value = ops.split(qkv, [2 * self.config.hidden_size], axis=-1)
        turned = ops.reshape(turned, (-1, 2 * self.config.num_heads, self.config.head_size))
        turned = rotated(turned, layout.positions, self.theta)
        return ops.concatenate([ops.reshape(turned, (-1, 2 * self.config.hidden_size)), value], axis=-1)

    def _attend(self, qkv: Any, layout: Layout, training: bool | None) -> Any:
        query, key, value = self._heads(qkv, layout)
        weights = self.dropout(self._scores(query, key, layout), training=training)
        context = ops.matmul(weights, value)  # [batch, num_heads, seq_length, head_size]
        return layout.rows(ops.transpose(context, (0, 2, 1, 3)))

    def _attend_nearby(self, qkv: Any, layout: Layout, training: bool | None) -> Any:
        qkv = ops.reshape(qkv, (-1, 3, self.config.num_heads, self.config.head_size))

        def weights(query: Any, key: Any, mask: Any) -> Any:
            shares = _softmax(ops.where(mask, _products(query, key), _LOWEST), query.dtype)
            return self.dropout(shares, training=training)

        return local_attention(*ops.unstack(qkv, 3, axis=1), band_of(layout, self.reach), weights)

    def _heads(self, qkv: Any, layout: Layout) -> tuple[Any, Any, Any]:
        """Q, K and V, each `[batch, num_heads, seq_length, head_size]`."""
        qkv = layout.sequences(qkv)  # [batch, seq_length, 3 * hidden]
        qkv = ops.reshape(qkv, (*layout.shape, 3, self.config.num_heads, self.config.head_size))
        return ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), 3)

    def _scores(self, query: Any, key: Any, layout: Layout) -> Any:
        scores = masked(_products(query, key), layout)  # [batch, num_heads, seq_length, seq_length]
        if self.reach is not None:
            places = ops.arange(layout.shape[1], dtype="int32")
            distances = ops.abs(ops.expand_dims(places, 0) - ops.expand_dims(places, 1))
            scores = ops.where(distances <= self.reach, scores, _LOWEST)
        return _softmax(scores, query.dtype)


def _products(query: Any, key: Any) -> Any:
    """`Q K^T / sqrt(d)`, float32: a softmax in float16 would lose the small weights."""
    query = query * (1 / math.sqrt(query.shape[-1]))
    return ops.cast(ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))), "float32")


def _softmax(scores: Any, dtype: Any) -> Any:
    return ops.cast(ops.softmax(scores, axis=-1), dtype)


def masked(scores: Any, layout: Layout) -> Any:
    """Scores, float32 `[batch, num_heads, seq_length, seq_length]`, the lowest for padding and other texts."""
    if layout.bias is not None:
        scores = scores + layout.bias
    if layout.padding_mask is not None:
        bias = (1.0 - ops.cast(layout.padding_mask, "float32")) * _LOWEST  # [batch, seq_length]
        scores = scores + ops.expand_dims(bias, (1, 2))
    if layout.same_document is not None:
        scores = ops.where(ops.expand_dims(layout.same_document, 1), scores, _LOWEST)
    return scores

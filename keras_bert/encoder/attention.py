"""Multi-head self-attention (Vaswani et al. 2017, section 3.2)."""

import math
from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.layers import dense, dropout
from keras_bert.encoder.layout import Layout

# float32's most negative number is added to the scores of padding. -inf would give NaN for rows of only padding.
_LOWEST = -3.4028235e38


class SelfAttention(keras.layers.Layer):
    """`softmax(Q K^T / sqrt(d)) V` in each head, then one dense layer over the concatenated heads.

    Inputs and outputs are rows, one per token; the `layout` knows the sequence of each row.

    Args:
        config: the architecture.

    Call arguments:
        hidden: float `[rows, hidden]`.
        layout: the tokens of the rows.

    Returns:
        float `[rows, hidden]`.
    """

    def __init__(self, config: BertConfig, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        # Q, K and V in one product: concatenated matrices, [hidden, 3 * hidden].
        self.qkv = dense(config, 3 * config.hidden_size, self.dtype_policy, "qkv")
        self.output_dense = dense(config, config.hidden_size, self.dtype_policy, "output")
        self.dropout = dropout(config.attention_dropout, self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.qkv.build((None, self.config.hidden_size))
        self.output_dense.build((None, self.config.hidden_size))

    def call(self, hidden: Any, layout: Layout, training: bool | None = None) -> Any:
        query, key, value = self._heads(hidden, layout)
        weights = self.dropout(self._scores(query, key, layout), training=training)
        context = ops.matmul(weights, value)  # [batch, num_heads, seq_length, head_size]
        context = layout.rows(ops.transpose(context, (0, 2, 1, 3)))  # [rows, num_heads, head_size]
        return self.output_dense(ops.reshape(context, (-1, self.config.hidden_size)))

    def scores(self, hidden: Any, layout: Layout) -> Any:
        """float `[batch, num_heads, seq_length, seq_length]`: each position's attention weights, which sum to 1."""
        query, key, _ = self._heads(hidden, layout)
        return self._scores(query, key, layout)

    def queries_and_keys(self, hidden: Any, layout: Layout) -> tuple[Any, Any]:
        """Q and K, each `[batch, num_heads, seq_length, head_size]`."""
        return tuple(self._heads(hidden, layout)[:2])

    def _heads(self, hidden: Any, layout: Layout) -> tuple[Any, Any, Any]:
        """Q, K and V, each `[batch, num_heads, seq_length, head_size]`."""
        heads = self.config.num_heads
        qkv = layout.sequences(self.qkv(hidden))  # [batch, seq_length, 3 * hidden]
        qkv = ops.reshape(qkv, (*layout.shape, 3, heads, self.config.hidden_size // heads))
        return ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), 3)

    def _scores(self, query: Any, key: Any, layout: Layout) -> Any:
        query = query * (1 / math.sqrt(query.shape[-1]))
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))  # [batch, num_heads, seq_length, seq_length]
        scores = ops.cast(scores, "float32")  # a softmax in float16 would lose the small weights
        return ops.cast(ops.softmax(masked(scores, layout), axis=-1), query.dtype)


def masked(scores: Any, layout: Layout) -> Any:
    """Scores, float32 `[batch, num_heads, seq_length, seq_length]`, the lowest for padding and other texts."""
    if layout.padding_mask is not None:
        bias = (1.0 - ops.cast(layout.padding_mask, "float32")) * _LOWEST  # [batch, seq_length]
        scores = scores + ops.expand_dims(bias, (1, 2))
    if layout.same_document is not None:
        scores = ops.where(ops.expand_dims(layout.same_document, 1), scores, _LOWEST)
    return scores

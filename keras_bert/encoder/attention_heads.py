"""Attention between its dense layers, in every precision: heads, rotary embeddings, and local attention."""

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.layout import Layout
from keras_bert.encoder.local_attention import Band, band_of, local_attention
from keras_bert.encoder.pieces import LONG, in_pieces
from keras_bert.encoder.rotary import rotated

# Queries `[batch, num_heads, queries, head_size]` and keys -> the weights of each query's keys, which sum to 1.
Weights = Callable[[Any, Any], Any]


class AttentionHeads:
    """Splits the projections of tokens into heads, which attend to the whole text or to nearby tokens.

    Args:
        config: the architecture.
        layer: the layer's index, from 0: layers of some families differ.

    Attributes:
        reach: the largest distance at which a token attends to another; None: no limit.
    """

    def __init__(self, config: BertConfig, layer: int) -> None:
        self.config = config
        self.theta = config.theta(layer)
        self.reach = config.local_window // 2 if config.is_local(layer) else None
        self._heads_of_all = config.num_heads + 2 * config.key_value_heads

    def band(self, layout: Layout) -> Band | None:
        """The window of local attention; None: tokens attend to the whole text."""
        return None if self.reach is None else band_of(layout, self.reach)

    def attend(self, qkv: Any, layout: Layout, weights: Weights, may_be_cut: bool = True) -> Any:
        """The weighted means of the values.

        Args:
            qkv: float `[rows, qkv]`: Q, K and V of each row, as wide as `config.qkv_sizes`.
            layout: the tokens of the rows.
            weights: queries and keys -> weights; in local attention, the first axis is blocks instead of texts.
            may_be_cut: whether attention may be computed for one head, or some of its queries, at a time.

        Returns:
            float `[rows, hidden]`: the heads, concatenated.
        """
        qkv = self._turned(qkv, layout)
        if self.reach is not None:
            context = local_attention(*self._split(qkv), self.band(layout), weights)
        else:
            query, key, value = self._of_sequences(qkv, layout)
            # In pieces, all heads and queries must be scored alike.
            is_alike = layout.bias is None and layout.distances is None and layout.same_document is None

            def attend(query: Any, key: Any, value: Any) -> Any:
                return ops.matmul(weights(query, key), value)

            if may_be_cut and is_alike and self.config.max_positions > LONG:
                context = in_pieces(attend, query, key, value)
            else:
                context = attend(query, key, value)
            context = layout.rows(ops.transpose(context, (0, 2, 1, 3)))
        return ops.reshape(context, (-1, self.config.hidden_size))

    def of_sequences(self, qkv: Any, layout: Layout) -> tuple[Any, Any, Any]:
        """Q, K and V, each `[batch, num_heads, seq_length, head_size]`, from `[rows, qkv]`."""
        return self._of_sequences(self._turned(qkv, layout), layout)

    def of_rows(self, qkv: Any) -> tuple[Any, Any, Any]:
        """Q, K and V, each `[rows, num_heads, head_size]`, without rotary embeddings."""
        return self._split(self._cut(qkv))

    def _cut(self, qkv: Any) -> Any:
        return ops.reshape(qkv, (-1, self._heads_of_all, self.config.head_size))

    def _turned(self, qkv: Any, layout: Layout) -> Any:
        """Q, K and V, `[rows, num_heads + 2 * key_value_heads, head_size]`; Q and K with rotary embeddings."""
        qkv = self._cut(qkv)
        if self.theta is None:
            return qkv
        turned, value = ops.split(qkv, [self._heads_of_all - self.config.key_value_heads], axis=1)
        return ops.concatenate([rotated(turned, layout.positions, self.theta, self.config.rope_factor), value], axis=1)

    def _of_sequences(self, qkv: Any, layout: Layout) -> tuple[Any, Any, Any]:
        qkv = layout.sequences(qkv, zeros=False)  # [batch, seq_length, num_heads + 2 * key_value_heads, head_size]
        if self.config.key_value_heads < self.config.num_heads:
            return self._split(ops.transpose(qkv, (0, 2, 1, 3)))
        # One transpose; nothing is copied after it.
        qkv = ops.reshape(qkv, (*layout.shape, 3, self.config.num_heads, self.config.head_size))
        return tuple(ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), 3))

    def _split(self, qkv: Any) -> tuple[Any, Any, Any]:
        """Splits heads (second axis) into Q, K and V, and repeats K and V for the query heads that share them."""
        heads, shared = self.config.num_heads, self.config.key_value_heads
        query, key, value = ops.split(qkv, [heads, heads + shared], axis=1)
        if shared < heads:
            key, value = (ops.repeat(each, heads // shared, axis=1) for each in (key, value))
        return query, key, value

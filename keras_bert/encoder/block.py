"""One layer of the Transformer encoder (Vaswani et al. 2017, figure 1, left)."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.attention import SelfAttention
from keras_bert.encoder.layers import build, dropout, feed_forward_activation, make_layer
from keras_bert.encoder.layout import Layout
from keras_bert.shapes import block_layers
from keras_bert.tensors import Tensor

Function = Callable[[Tensor], Tensor]


def residual(
    config: BertConfig,
    hidden: Tensor,
    attention: Function,
    attention_norm: Function | None,
    feed_forward: Function,
    output_norm: Function,
) -> Tensor:
    """Computes a block's two residual connections, with a norm before (`config.pre_norm`) or after each.

    `TransformerBlock` has the formulas. `InferenceBlock` computes them in low precision, by this function, too.
    """
    if config.pre_norm:
        hidden = hidden + attention(hidden if attention_norm is None else attention_norm(hidden))
        return hidden + feed_forward(output_norm(hidden))
    assert attention_norm is not None  # only a block with `pre_norm` may lack it
    hidden = attention_norm(hidden + attention(hidden))
    return output_norm(hidden + feed_forward(hidden))


class TransformerBlock(keras.layers.Layer):
    """`h = Norm(h + Attention(h))`, then `h = Norm(h + FeedForward(h))`.

    With `config.pre_norm`: `h = h + Attention(Norm(h))`, then `h = h + FeedForward(Norm(h))` (Xiong et al. 2020,
    figure 1). If the embeddings are normalized, the first layer has no norm before its attention.

    Args:
        config: the architecture.
        layer: the index, from 0, of the layer, or of the group of layers that share this block, as in ALBERT.

    Call arguments:
        hidden: float `[rows, hidden]`, a row per token.
        layout: maps rows to sequences.

    Returns:
        float `[rows, hidden]`.
    """

    def __init__(self, config: BertConfig, layer: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config, self.layer = config, layer
        self.attention = SelfAttention(config, layer, dtype=self.dtype_policy, name="attention")
        layers = block_layers(config, layer)
        self.attention_norm = make_layer(layers, "attention_norm", config, self.dtype_policy)
        self.intermediate = make_layer(layers, "intermediate", config, self.dtype_policy)
        self.activation = feed_forward_activation(config)
        self.output_dense = make_layer(layers, "output", config, self.dtype_policy)
        self.output_norm = make_layer(layers, "output_norm", config, self.dtype_policy)
        self.dropout = dropout(config.hidden_dropout, self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.attention.build()
        layers = {
            "attention_norm": self.attention_norm,
            "intermediate": self.intermediate,
            "output": self.output_dense,
            "output_norm": self.output_norm,
        }
        build(block_layers(self.config, self.layer), layers)

    def call(self, hidden: Tensor, layout: Layout, training: bool | None = None) -> Tensor:
        def attention(x: Tensor) -> Tensor:
            return self.dropout(self.attention(x, layout=layout, training=training), training=training)

        def feed_forward(x: Tensor) -> Tensor:
            return self.dropout(self.output_dense(self._activate(self.intermediate(x), training)), training=training)

        return residual(self.config, hidden, attention, self.attention_norm, feed_forward, self.output_norm)

    def _activate(self, x: Tensor, training: bool | None) -> Tensor:
        if not training:
            return self.activation(x)
        # On a CPU, TensorFlow takes five times as long for GELU and its gradient in bfloat16 as in float32.
        x = ops.cast(x, keras.backend.result_type(self.compute_dtype, "float32"))
        return ops.cast(self.activation(x), self.compute_dtype)

    def attention_input(self, hidden: Tensor) -> Tensor:
        """Computes the input of attention: normalizes the block's input if there is a norm before attention."""
        return self.attention_norm(hidden) if self.config.pre_norm and self.attention_norm is not None else hidden

"""One layer of the Transformer encoder (Vaswani et al. 2017, figure 1, left)."""

from typing import Any

import keras

from keras_bert.config import BertConfig
from keras_bert.encoder.attention import SelfAttention
from keras_bert.encoder.layers import dense, dropout, layer_norm
from keras_bert.encoder.layout import Layout

ACTIVATIONS = {
    "gelu": lambda x: keras.activations.gelu(x, approximate=False),
    "gelu_tanh": lambda x: keras.activations.gelu(x, approximate=True),
    "relu": keras.activations.relu,
    "silu": keras.activations.silu,
}


class TransformerBlock(keras.layers.Layer):
    """`h = LayerNorm(h + Attention(h))`, then `h = LayerNorm(h + FeedForward(h))`.

    Args:
        config: the architecture.

    Call arguments:
        hidden: float `[rows, hidden]`, a row per token.
        layout: the tokens of the rows.

    Returns:
        float `[rows, hidden]`.
    """

    def __init__(self, config: BertConfig, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.attention = SelfAttention(config, dtype=self.dtype_policy, name="attention")
        self.attention_norm = layer_norm(config, self.dtype_policy, "attention_norm")
        self.intermediate = dense(config, config.intermediate_size, self.dtype_policy, "intermediate")
        self.activation = ACTIVATIONS[config.activation]
        self.output_dense = dense(config, config.hidden_size, self.dtype_policy, "output")
        self.output_norm = layer_norm(config, self.dtype_policy, "output_norm")
        self.dropout = dropout(config.hidden_dropout, self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        hidden = (None, self.config.hidden_size)
        self.attention.build()
        self.attention_norm.build(hidden)
        self.intermediate.build(hidden)
        self.output_dense.build((None, self.config.intermediate_size))
        self.output_norm.build(hidden)

    def call(self, hidden: Any, layout: Layout, training: bool | None = None) -> Any:
        attended = self.attention(hidden, layout=layout, training=training)
        hidden = self.attention_norm(hidden + self.dropout(attended, training=training))
        fed_forward = self.output_dense(self.activation(self.intermediate(hidden)))
        return self.output_norm(hidden + self.dropout(fed_forward, training=training))

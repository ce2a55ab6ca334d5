"""One layer of the Transformer encoder (Vaswani et al. 2017, figure 1, left)."""

from __future__ import annotations

import functools
from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.attention import SelfAttention
from keras_bert.encoder.disentangled import Distances
from keras_bert.encoder.layers import Dropout, LayerMaker, feed_forward_activation
from keras_bert.encoder.positions import RelativeBias
from keras_bert.encoder.unpadding import AttentionMask, Unpadding
from keras_bert.shapes import block_layers
from keras_bert.tensors import Tensor


class TransformerBlock(keras.layers.Layer):
    """Attention and a feed-forward network, each with residual and norm; `layer`: its index, or that of its group."""

    def __init__(self, config: BertConfig, layer: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pre_norm = config.pre_norm
        self.attention = SelfAttention(config, layer, dtype=self.dtype_policy, name="attention")
        self.make = make = LayerMaker(block_layers(config, layer), config, self.dtype_policy)
        self.attention_norm = make("attention_norm")
        self.intermediate = make("intermediate")
        self.activation = feed_forward_activation(config)
        self.output_dense = make("output")
        self.output_norm = make("output_norm")
        self.dropout = Dropout(config.hidden_dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape: Any = None) -> None:
        self.attention.build()
        self.make.build()

    def call(
        self,
        hidden: Tensor,  # [tokens, hidden], as the result
        unpadding: Unpadding,
        attention_mask: AttentionMask,
        relative: RelativeBias | Distances | None = None,
        training: bool | None = None,
    ) -> Tensor:
        attention = functools.partial(
            self.attention, unpadding=unpadding, attention_mask=attention_mask, relative=relative, training=training
        )
        feed_forward = functools.partial(self._feed_forward, training=training)
        dropout = functools.partial(self.dropout, training=training)
        if self.pre_norm:  # Xiong et al. 2020, figure 1
            hidden = hidden + dropout(attention(self.attention_input(hidden)))
            return hidden + dropout(feed_forward(self.output_norm(hidden)))
        hidden = self.attention_norm(hidden + dropout(attention(hidden)))
        return self.output_norm(hidden + dropout(feed_forward(hidden)))

    def attention_input(self, hidden: Tensor) -> Tensor:
        """Normalizes before attention if the family does; the first layer has no norm if the embeddings have one."""
        return self.attention_norm(hidden) if self.pre_norm and self.attention_norm is not None else hidden

    def _feed_forward(self, x: Tensor, training: bool | None) -> Tensor:
        return self.output_dense(self._activate(self.intermediate(x), training))

    def _activate(self, x: Tensor, training: bool | None) -> Tensor:
        if not training:
            return self.activation(x)
        # On a CPU, TensorFlow takes five times as long for GELU and its gradient in bfloat16 as in float32.
        x = ops.cast(x, keras.backend.result_type(self.compute_dtype, "float32"))
        return ops.cast(self.activation(x), self.compute_dtype)

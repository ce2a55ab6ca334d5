"""Heads: small layers from hidden states to logits.

A classifier's head is "sequence" (classes of a text, or of a pair), "tokens" (a class for each token), "spans" (start
and end of an answer), "next_sentence" (or sentence order) or "replaced_tokens". In some architectures it has a dense
layer first, `transform`; that of texts then reads the first token's hidden state in place of `pooled_output`.

The masked language modeling head is `LayerNorm(gelu(h W + b)) E^T + c`, where E is the token embedding table, or with
`config.own_decoder` one dense layer, with `config.decoder_width` after two more.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.layers import ACTIVATIONS, Dropout, LayerMaker
from keras_bert.formats import check_storable
from keras_bert.shapes import CLASSIFIERS, head_layers
from keras_bert.tensors import Tensor

_ACTIVATIONS = {**ACTIVATIONS, "tanh": ops.tanh}


class ClassifierHead(keras.layers.Layer):
    """A linear classifier after dropout: `logits = h W + b`, float `[..., hidden]` -> `[..., units]`."""

    def __init__(
        self, config: BertConfig, head: str, units: int, dropout_rate: float | None = None, **kwargs: Any
    ) -> None:
        check_storable(config, [head])
        if head not in CLASSIFIERS:
            raise ValueError(f"{config.family} has no head {head!r}; it has {', '.join(CLASSIFIERS)}")
        config.check_pooler([head])
        super().__init__(**kwargs)
        self.config, self.head, self.units = config, head, units
        rate = config.hidden_dropout if dropout_rate is None else dropout_rate
        self.dropout = Dropout(rate, dtype=self.dtype_policy, name="dropout")
        self.make = make = LayerMaker(head_layers(config, head, units), config, self.dtype_policy)
        self.transform = make("transform")
        self.activation = _ACTIVATIONS[config.activation_of(head)]
        self.norm = make("norm")
        self.logits = make("logits")

    def build(self, input_shape: tuple[int | None, ...] | None = None) -> None:
        self.make.build()

    def call(self, hidden: Tensor, training: bool | None = None) -> Tensor:
        shape = ops.shape(hidden)
        if len(shape) > 3:
            # [batch, windows, seq_length, hidden] as rows of windows: with one window, in bfloat16 on processors with
            # AMX, TensorFlow 2.20 computes the product wrongly, and writes outside of its memory.
            logits = self.call(ops.reshape(hidden, (-1, *shape[2:])), training)
            return ops.reshape(logits, (*shape[:3], logits.shape[-1]))
        return self.logits(self.dropout(self.features(hidden, training), training=training))

    @property
    def is_new(self) -> bool:
        """Whether the head has not been trained: training leaves no bias at exactly 0."""
        return not np.any(ops.convert_to_numpy(self.logits.bias))

    def features(self, hidden: Tensor, training: bool | None = None) -> Tensor:
        """Computes what the last layer reads, before dropout: float `[..., hidden]`."""
        if self.transform is not None:
            hidden = self.activation(self.transform(self.dropout(hidden, training=training)))
        return hidden if self.norm is None else self.norm(hidden)


class MaskedLMHead(keras.layers.Layer):
    """The masked language modeling head, float `[..., hidden]` -> logits `[..., vocab_size]`."""

    def __init__(self, config: BertConfig, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        check_storable(config, ["masked_lm"])
        self.make = make = LayerMaker(head_layers(config, "masked_lm"), config, self.dtype_policy)
        self.transform, self.projection = make("transform"), make("projection")
        self.activation = _ACTIVATIONS[config.activation_of("masked_lm")]
        self.norm, self.decoder = make("norm"), make("decoder")

    def build(self, input_shape: tuple[int | None, ...] | None = None) -> None:
        self.make.build()
        if self.decoder is None:
            self.bias = self.add_weight(shape=(self.config.vocab_size,), initializer="zeros", name="bias")

    def call(self, hidden: Tensor, embeddings: Tensor) -> Tensor:
        for dense in (self.transform, self.projection):
            hidden = hidden if dense is None else self.activation(dense(hidden))
        if self.decoder is not None:
            return self.decoder(hidden)
        hidden = self.norm(hidden)
        return ops.matmul(hidden, ops.transpose(embeddings)) + self.bias

"""Heads: small layers from hidden states to logits."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.layers import ACTIVATIONS, build, dropout, make_layer
from keras_bert.formats import check_storable
from keras_bert.shapes import CLASSIFIERS, head_layers
from keras_bert.tensors import Tensor


def check_finite(answers: np.ndarray, name: str = "vector", item: str = "text") -> None:
    """Raises ValueError if the prediction for any text, float32 `[texts, ...]`, has NaN or infinity."""
    is_finite = np.isfinite(answers).all(axis=tuple(range(1, answers.ndim)))
    if not is_finite.all():
        bad = np.flatnonzero(~is_finite)
        raise ValueError(
            f"{len(bad):,} of {len(answers):,} {name}s {'is' if len(bad) == 1 else 'are'} not finite: the first is of "
            f"{item} {bad[0] + 1:,}; the model's weights are damaged, or its values too large for its precision"
        )


_ACTIVATIONS = {**ACTIVATIONS, "tanh": ops.tanh}


class ClassifierHead(keras.layers.Layer):
    """A linear classifier after dropout: `logits = h W + b`.

    Some architectures and tasks put a dense layer with an activation before it. With `config.head_norm`, this dense
    layer has no bias, and a normalization layer follows it.

    Args:
        config: the encoder's config.
        head: "sequence" (classes of a text, or of a pair), "tokens" (a class for each token), "spans" (start and end of
            an answer), "next_sentence" (or sentence order) or "replaced_tokens".
        units: the number of logits.
        dropout_rate: by default `config.hidden_dropout`.

    Call arguments:
        hidden: float `[..., hidden]`. For a sequence: `pooled_output`, or the first token's hidden state if this head
            has a dense layer. For each token: `sequence_output`.

    Returns:
        float `[..., units]`.

    Raises:
        ValueError: `head` is unknown, the family's files cannot store this head, or the head reads the pooler and
            `config` has none.

    Example:
        >>> from keras_bert import BertConfig
        >>> head = ClassifierHead(BertConfig.named("distilbert-base"), "sequence", units=2)
        >>> tuple(head(ops.zeros((5, 768))).shape)
        (5, 2)
    """

    def __init__(
        self, config: BertConfig, head: str, units: int, dropout_rate: float | None = None, **kwargs: Any
    ) -> None:
        check_storable(config, [head])
        if head not in CLASSIFIERS:
            raise ValueError(f"{config.family} has no head {head!r}; it has {', '.join(CLASSIFIERS)}")
        config.check_pooler([head])
        super().__init__(**kwargs)
        self.config, self.head, self.units = config, head, units
        self.dropout = dropout(config.hidden_dropout if dropout_rate is None else dropout_rate, self.dtype_policy)
        layers = head_layers(config, head, units)
        self.transform = make_layer(layers, "transform", config, self.dtype_policy)
        self.activation = _ACTIVATIONS[config.activation_of(head)]
        self.norm = make_layer(layers, "norm", config, self.dtype_policy)
        self.logits = make_layer(layers, "logits", config, self.dtype_policy)

    def build(self, input_shape: tuple[int | None, ...] | None = None) -> None:
        layers = {"transform": self.transform, "norm": self.norm, "logits": self.logits}
        build(head_layers(self.config, self.head, self.units), layers)

    def call(self, hidden: Tensor, training: bool | None = None) -> Tensor:
        shape = ops.shape(hidden)
        if len(shape) > 3:
            # [batch, windows, seq_length, hidden] as rows of windows: with one window, in bfloat16 on processors with
            # AMX, TensorFlow 2.20 computes the product wrongly, and writes outside of its memory.
            logits = self.call(ops.reshape(hidden, (-1, *shape[2:])), training)
            return ops.reshape(logits, (*shape[:3], logits.shape[-1]))
        return self.logits(self.dropout(self.features(hidden, training), training=training))

    def features(self, hidden: Tensor, training: bool | None = None) -> Tensor:
        """Computes what the last layer reads, before dropout: float `[..., hidden]`."""
        if self.transform is not None:
            hidden = self.activation(self.transform(self.dropout(hidden, training=training)))
        return hidden if self.norm is None else self.norm(hidden)


class MaskedLMHead(keras.layers.Layer):
    """The masked language modeling head: `logits = LayerNorm(gelu(h W + b)) E^T + c`.

    E is the token embedding table, shared with the encoder. With `config.own_decoder`, the head is one dense layer with
    its own weights instead.

    Args:
        config: the encoder's config.

    Call arguments:
        hidden: float `[..., hidden]`.
        embeddings: float `[vocab_size, embedding_width]`, the table E.

    Returns:
        float `[..., vocab_size]`: logits over the vocabulary.
    """

    def __init__(self, config: BertConfig, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        check_storable(config, ["masked_lm"])
        layers = head_layers(config, "masked_lm")
        self.decoder = make_layer(layers, "decoder", config, self.dtype_policy)
        self.transform = make_layer(layers, "transform", config, self.dtype_policy)
        self.activation = _ACTIVATIONS[config.activation_of("masked_lm")]
        self.norm = make_layer(layers, "norm", config, self.dtype_policy)

    def build(self, input_shape: tuple[int | None, ...] | None = None) -> None:
        layers = {"decoder": self.decoder, "transform": self.transform, "norm": self.norm}
        build(head_layers(self.config, "masked_lm"), layers)
        if self.decoder is None:
            self.bias = self.add_weight(shape=(self.config.vocab_size,), initializer="zeros", name="bias")

    def call(self, hidden: Tensor, embeddings: Tensor) -> Tensor:
        if self.decoder is not None:
            return self.decoder(hidden)
        hidden = self.norm(self.activation(self.transform(hidden)))
        return ops.matmul(hidden, ops.transpose(embeddings)) + self.bias

"""BERT's layers, initialized as in the paper's code."""

from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.dropout import Dropout
from keras_bert.encoder.rms_norm import RMSNorm


class EmbeddingTable(keras.layers.Embedding):
    """An embedding table whose gradient is a dense tensor of its shape.

    TensorFlow's own gradient has a row for each lookup. Keras's Adam would update its moments once for each lookup, and
    XLA cannot sum such gradients over several devices.
    """

    def call(self, ids: Any) -> Any:
        # The reshape makes the gradient dense. (A `custom_gradient` would too, but TensorFlow never frees a traced one,
        # nor the model that it refers to.)
        table = ops.reshape(self.embeddings, self.embeddings.shape)
        return ops.cast(ops.take(table, ids, axis=0), self.compute_dtype)


def _initializer(config: BertConfig) -> keras.Initializer:
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def embedding(config: BertConfig, rows: int, dtype: Any, name: str, width: int | None = None) -> EmbeddingTable:
    """An embedding table, `[rows, width]`; the default width is `config.embedding_width`."""
    width = config.embedding_width if width is None else width
    return EmbeddingTable(rows, width, embeddings_initializer=_initializer(config), dtype=dtype, name=name)


def dense(config: BertConfig, units: int, dtype: Any, name: str, bias: bool = True) -> keras.layers.Dense:
    """`x W + b`, with W `[inputs, units]`; b starts at zero. Without `bias`, there is no b."""
    return keras.layers.Dense(units, use_bias=bias, kernel_initializer=_initializer(config), dtype=dtype, name=name)


def norm(config: BertConfig, dtype: Any, name: str) -> keras.layers.Layer:
    """The architecture's normalization over the last axis, computed in float32 under any dtype policy."""
    if config.norm == "rms_norm":
        return RMSNorm(config.layer_norm_epsilon, dtype=dtype, name=name)
    return keras.layers.LayerNormalization(
        epsilon=config.layer_norm_epsilon, center=config.norm_bias, dtype=dtype, name=name
    )


def dropout(rate: float, dtype: Any, name: str = "dropout") -> Dropout:
    """A dropout layer of that rate."""
    return Dropout(rate, dtype=dtype, name=name)

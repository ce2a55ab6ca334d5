"""BERT's kinds of layers, each initialized as in the paper's code."""

from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig


class EmbeddingTable(keras.layers.Embedding):
    """An embedding table whose gradient is a dense tensor of its shape.

    TensorFlow's own gradient lists a row once per lookup. Then Keras's optimizers that keep moments, such as Adam,
    update a row's moments once per lookup, and XLA under several devices cannot sum the lists.
    """

    def call(self, ids: Any) -> Any:
        # The reshape changes only the gradient: TensorFlow makes it a dense tensor. (A `custom_gradient` would do so
        # too, but TensorFlow keeps each traced one in memory, and the whole model with it.)
        table = ops.reshape(self.embeddings, self.embeddings.shape)
        return ops.cast(ops.take(table, ids, axis=0), self.compute_dtype)


def _initializer(config: BertConfig) -> keras.Initializer:
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def embedding(config: BertConfig, rows: int, dtype: Any, name: str) -> EmbeddingTable:
    """A table of `rows` vectors: `[rows, embedding_width]`."""
    return EmbeddingTable(
        rows, config.embedding_width, embeddings_initializer=_initializer(config), dtype=dtype, name=name
    )


def dense(config: BertConfig, units: int, dtype: Any, name: str) -> keras.layers.Dense:
    """`x W + b`, with W of shape `[inputs, units]`; b is initially zero."""
    return keras.layers.Dense(units, kernel_initializer=_initializer(config), dtype=dtype, name=name)


def layer_norm(config: BertConfig, dtype: Any, name: str) -> keras.layers.LayerNormalization:
    """Layer normalization over the last axis, computed in float32 under any dtype policy."""
    return keras.layers.LayerNormalization(epsilon=config.layer_norm_epsilon, dtype=dtype, name=name)


def dropout(rate: float, dtype: Any, name: str = "dropout") -> keras.layers.Dropout:
    """Zeroes elements with probability `rate` and scales the rest up, while training."""
    return keras.layers.Dropout(rate, dtype=dtype, name=name)

"""The kinds of weights that BERT has, each started as in the paper's code."""

from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig


class Table(keras.layers.Embedding):
    """An embedding table whose gradient is a dense tensor of its shape.

    TensorFlow's own gradient lists a row once for each time it is looked up. Keras's optimizers that keep moments, Adam
    first of all, then update those of such a row once a time, and XLA under several devices cannot sum such lists.
    """

    def call(self, ids: Any) -> Any:
        if keras.backend.backend() != "tensorflow":
            return super().call(ids)  # dense there as it is

        @ops.custom_gradient
        def rows(table: Any) -> Any:
            def gradient(upstream: Any) -> Any:
                values = ops.reshape(upstream, (-1, table.shape[1]))
                return ops.segment_sum(values, ops.reshape(ids, (-1,)), num_segments=table.shape[0])

            return ops.take(table, ids, axis=0), gradient

        value = ops.reshape(self.embeddings, self.embeddings.shape)  # as a tensor, not as a variable
        return ops.cast(rows(value), self.compute_dtype)


def _initializer(config: BertConfig) -> keras.Initializer:
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def embedding(config: BertConfig, rows: int, dtype: Any, name: str) -> Table:
    """A table of `rows` vectors: `[rows, embedding_width]`."""
    return Table(rows, config.embedding_width, embeddings_initializer=_initializer(config), dtype=dtype, name=name)


def dense(config: BertConfig, units: int, dtype: Any, name: str) -> keras.layers.Dense:
    """`x W + b`, with W of shape `[inputs, units]`; b starts at zero."""
    return keras.layers.Dense(units, kernel_initializer=_initializer(config), dtype=dtype, name=name)


def layer_norm(config: BertConfig, dtype: Any, name: str) -> keras.layers.LayerNormalization:
    """Layer normalization over the last axis, computed in float32 under any dtype policy."""
    return keras.layers.LayerNormalization(epsilon=config.layer_norm_epsilon, dtype=dtype, name=name)


def dropout(rate: float, dtype: Any, name: str = "dropout") -> keras.layers.Dropout:
    """Zeroes elements with probability `rate` and scales the rest up, while training."""
    return keras.layers.Dropout(rate, dtype=dtype, name=name)

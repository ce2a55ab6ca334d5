"""The three kinds of weights that BERT has, each started as in the paper's code."""

from typing import Any

import keras

from keras_bert.config import BertConfig


def _initializer(config: BertConfig) -> keras.Initializer:
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def embedding(config: BertConfig, rows: int, dtype: Any, name: str) -> keras.layers.Embedding:
    """A table of `rows` vectors: `[rows, embedding_width]`."""
    return keras.layers.Embedding(
        rows, config.embedding_width, embeddings_initializer=_initializer(config), dtype=dtype, name=name
    )


def dense(config: BertConfig, units: int, dtype: Any, name: str) -> keras.layers.Dense:
    """`x W + b`, with W of shape `[inputs, units]`; b starts at zero."""
    return keras.layers.Dense(units, kernel_initializer=_initializer(config), dtype=dtype, name=name)


def layer_norm(config: BertConfig, dtype: Any, name: str) -> keras.layers.LayerNormalization:
    """Layer normalization over the last axis, computed in float32 under any dtype policy."""
    return keras.layers.LayerNormalization(epsilon=config.layer_norm_epsilon, dtype=dtype, name=name)


def dropout(rate: float, dtype: Any, name: str = "dropout") -> keras.layers.Dropout:
    """Zeroes elements with probability `rate` and scales the rest up, while training."""
    return keras.layers.Dropout(rate, dtype=dtype, name=name)

"""The activation functions of the feed-forward network, with and without a gate."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig

ACTIVATIONS = {
    "gelu": lambda x: keras.activations.gelu(x, approximate=False),
    "gelu_tanh": lambda x: keras.activations.gelu(x, approximate=True),
    "relu": keras.activations.relu,
    # Keras's is, on TensorFlow, a custom gradient: a graph that holds one is never freed, nor is the model in it.
    "silu": lambda x: x * ops.sigmoid(x),
}


def feed_forward_activation(config: BertConfig) -> Callable[[Any], Any]:
    """The function between the two feed-forward layers, float `[rows, units]` -> `[rows, intermediate]`.

    With `config.gated`, the activation of the first half is multiplied by the second half (Shazeer 2020, GLU Variants
    Improve Transformer, equation 5).
    """
    activation = ACTIVATIONS[config.activation]
    if not config.gated:
        return activation

    def gated(x: Any) -> Any:
        first, second = ops.split(x, 2, axis=-1)
        return activation(first) * second

    return gated

"""BERT's layers, initialized as in the paper's code: dense, norms, dropout, activations."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_bert import shapes
from keras_bert.config import BertConfig
from keras_bert.tensors import Tensor

_STEPS = 2**16  # the rate is a multiple of 1 / _STEPS


@keras.saving.register_keras_serializable(package="keras_bert")
class Dropout(keras.layers.Dropout):
    """A layer that, in training, zeroes elements with probability `rate`, and divides the others by `1 - rate`."""

    # On TensorFlow, one random number of 32 bits decides on two elements, so the rate is rounded to a multiple of
    # 2^-16. Keras draws a number for each element, which took a quarter of the processor's time with attention over
    # long texts.

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if training and self.rate == 1:
            return ops.zeros_like(inputs)  # Keras 3.12 does not accept a rate of 1
        if not training or self.rate == 0 or keras.backend.backend() != "tensorflow":
            return super().call(inputs, training=training)
        import tensorflow as tf

        seed = tf.cast(self.seed_generator.next(), tf.int32)
        size = tf.size(inputs, tf.int64)  # attention over long texts has more elements than int32 can count
        pairs = tf.random.stateless_uniform([(size + 1) // 2], seed, minval=None, maxval=None, dtype=tf.int32)
        numbers = tf.reshape(tf.bitcast(pairs, tf.int16), [-1])  # from -2^15 to 2^15 - 1
        dropped = min(round(self.rate * _STEPS), _STEPS - 1)  # of _STEPS numbers
        keep = tf.reshape((numbers >= tf.constant(dropped - _STEPS // 2, tf.int16))[:size], tf.shape(inputs))
        scale = tf.constant(_STEPS / (_STEPS - dropped), inputs.dtype)
        return tf.where(keep, inputs * scale, tf.zeros([], inputs.dtype))


# -- Root mean square layer normalization (Zhang and Sennrich 2019).


class RMSNorm(keras.layers.Layer):
    """`x / sqrt(mean(x^2) + epsilon) * gamma` over the last axis, computed in float32 under any dtype policy."""

    # `keras.layers.RMSNormalization` computes the same, but names its weight `scale`, and files hold `gamma`.

    def __init__(self, epsilon: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.gamma = self.add_weight(shape=input_shape[-1:], initializer="ones", name="gamma", autocast=False)

    def call(self, x: Tensor) -> Tensor:
        return ops.rms_normalization(x, self.gamma, axis=-1, epsilon=self.epsilon)


# -- The activation functions of the feed-forward network, with and without a gate.

ACTIVATIONS = {
    "gelu": lambda x: keras.activations.gelu(x, approximate=False),
    "gelu_tanh": lambda x: keras.activations.gelu(x, approximate=True),
    "relu": keras.activations.relu,
    # On TensorFlow, Keras's SiLU has a custom gradient, whose graph is never freed, nor is the model in the graph.
    "silu": lambda x: x * ops.sigmoid(x),
}


def feed_forward_activation(config: BertConfig) -> Callable[[Tensor], Tensor]:
    """Returns what is between feed-forward layers; gated: activation(first half) * second half (Shazeer 2020)."""
    activation = ACTIVATIONS[config.activation]
    if not config.gated:
        return activation

    def gated(x: Tensor) -> Tensor:
        first, second = ops.split(x, 2, axis=-1)
        return activation(first) * second

    return gated


class Embedding(keras.layers.Embedding):
    """An embedding whose gradient is dense."""

    # TensorFlow's own gradient is sparse, with a row for each lookup. Keras's Adam would update its moments once for
    # each lookup, and XLA cannot sum sparse gradients over several devices.

    def call(self, ids: Tensor) -> Tensor:
        # The reshape makes the gradient dense. So would a `custom_gradient`, but TensorFlow never frees a traced one,
        # nor the model that it refers to.
        embeddings = ops.reshape(self.embeddings, self.embeddings.shape)
        return ops.cast(ops.take(embeddings, ids, axis=0), self.compute_dtype)


# -- The layers of an architecture.


class LayerMaker:
    """Makes Keras layers by their paths in an architecture, such as "attention/qkv", and builds those it made."""

    def __init__(self, layers: shapes.Layers, config: BertConfig, dtype: Any) -> None:
        self._layers, self._config, self._dtype = layers, config, dtype
        self._made: dict[str, keras.Layer] = {}

    def __call__(self, path: str) -> Any:
        """Makes a layer, named by the last part of its path, initialized as in the paper's code; None if missing."""
        if path not in self._layers:
            return None
        layer, config = self._layers[path], self._config
        settings = {"dtype": self._dtype, "name": path.rpartition("/")[2]}
        if isinstance(layer, shapes.Norm):
            if config.norm == "rms_norm":
                made = RMSNorm(config.layer_norm_epsilon, **settings)
            else:
                settings["center"] = layer.bias
                made = keras.layers.LayerNormalization(epsilon=config.layer_norm_epsilon, **settings)
        else:
            initializer = keras.initializers.TruncatedNormal(stddev=config.initializer_range)
            if isinstance(layer, shapes.Embedding):
                made = Embedding(layer.rows, layer.width, embeddings_initializer=initializer, **settings)
            else:
                settings["use_bias"] = layer.bias
                made = keras.layers.Dense(layer.units, kernel_initializer=initializer, **settings)
        self._made[path] = made
        return made

    def build(self) -> None:
        """Builds the layers, in the order in which they were made."""
        for path, made in self._made.items():
            made.build((None, self._layers[path][0]))  # the input's width; embeddings ignore it

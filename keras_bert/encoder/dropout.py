"""Dropout (Srivastava et al. 2014), with half the random numbers."""

from typing import Any

import keras
from keras import ops

_STEPS = 2**16  # of the rate


@keras.saving.register_keras_serializable(package="keras_bert")
class Dropout(keras.layers.Dropout):
    """In training, zeroes elements with probability `rate`, and divides the others by `1 - rate`.

    On TensorFlow, one random number of 32 bits decides on two elements, so that the rate is a multiple of 2^-16. Keras
    draws a number for each element. With attention over long texts, that took a quarter of the processor's time.

    Args:
        rate: from 0 to 1.

    Call arguments:
        inputs: float, of any shape.
        training: whether elements are zeroed.

    Returns:
        float, of the shape of `inputs`.

    Example:
        >>> import numpy as np
        >>> from keras_bert.encoder.dropout import Dropout
        >>> dropped = np.array(Dropout(0.2)(np.ones((100, 100), "float32"), training=True))
        >>> np.unique(dropped).round(3).tolist(), bool(0.75 < (dropped > 0).mean() < 0.85)
        ([0.0, 1.25], True)
    """

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training and self.rate == 1:
            return ops.zeros_like(inputs)  # Keras 3.12 has no such rate
        if not training or self.rate == 0 or keras.backend.backend() != "tensorflow":
            return super().call(inputs, training=training)
        import tensorflow as tf

        seed = tf.cast(self.seed_generator.next(), tf.int32)
        size = tf.size(inputs, tf.int64)  # of long texts, attention has more elements than int32 can count
        pairs = tf.random.stateless_uniform([(size + 1) // 2], seed, minval=None, maxval=None, dtype=tf.int32)
        numbers = tf.reshape(tf.bitcast(pairs, tf.int16), [-1])  # from -2^15 to 2^15 - 1
        dropped = min(round(self.rate * _STEPS), _STEPS - 1)  # of _STEPS numbers
        keep = tf.reshape((numbers >= tf.constant(dropped - _STEPS // 2, tf.int16))[:size], tf.shape(inputs))
        scale = tf.constant(_STEPS / (_STEPS - dropped), inputs.dtype)
        return tf.where(keep, inputs * scale, tf.zeros([], inputs.dtype))

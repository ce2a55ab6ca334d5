"""What every loss of the package keeps to."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf


def assert_saved_compiled_and_learned_from(loss: keras.Loss, targets: Any, outputs: np.ndarray) -> None:
    """Checks that a loss that was saved has the same value under XLA, which falls along its gradient."""
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    before = float(loss(targets, outputs))

    @tf.function(jit_compile=True)
    def value_and_gradient(outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(outputs)
            value = again(targets, outputs)
        return value, tape.gradient(value, outputs)

    value, gradient = value_and_gradient(tf.constant(outputs))
    assert float(value) == pytest.approx(before, rel=1e-5)
    assert float(loss(targets, outputs - 1e-2 * gradient)) < before

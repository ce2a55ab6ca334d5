"""Dropout: how many elements it zeroes, what becomes of the others, and their gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.encoder.layers import Dropout


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(("rate", "dtype"), [(0.1, "float32"), (0.5, "bfloat16")])
def test_elements_are_zeroed_or_scaled_up(rate, dtype, jit_compile):
    layer = Dropout(rate, dtype=dtype, seed=1)
    x = tf.ones((101, 333), dtype)  # an odd number of elements
    dropped = tf.function(lambda x: layer(x, training=True), jit_compile=jit_compile)(x)
    values = tf.cast(dropped, tf.float32).numpy()
    kept = values > 0
    deviation = np.sqrt(rate * (1 - rate) / kept.size)  # of a binomial distribution's share
    assert abs(kept.mean() - (1 - rate)) < 5 * deviation
    for axis in (0, 1):  # neither rows nor columns are alike
        deviation = np.sqrt(rate * (1 - rate) / kept.shape[axis])
        assert np.abs(kept.mean(axis=axis) - (1 - rate)).max() < 5 * deviation
    np.testing.assert_allclose(values[kept], 1 / (1 - rate), rtol=1e-2 if dtype == "bfloat16" else 1e-4)


def test_two_elements_of_one_random_number_are_independent():
    kept = Dropout(0.5, seed=3)(np.ones((2**18,), "float32"), training=True).numpy().reshape(-1, 2) > 0
    both = kept.all(axis=1).mean()
    assert abs(both - 0.25) < 5 * np.sqrt(0.25 * 0.75 / len(kept))


def test_gradients_reach_what_is_kept():
    layer, x = Dropout(0.3, seed=2), tf.random.normal((50, 7), seed=0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        dropped = layer(x, training=True)
    expected = np.where(dropped.numpy() != 0, 1 / 0.7, 0)
    np.testing.assert_allclose(tape.gradient(dropped, x), expected, rtol=1e-4)


def test_each_call_draws_anew_and_a_seed_repeats():
    first, second = Dropout(0.5, seed=4), Dropout.from_config(Dropout(0.5, seed=4).get_config())
    x = np.ones((100,), "float32")
    one, other = first(x, training=True), first(x, training=True)
    assert (one.numpy() != other.numpy()).any()
    np.testing.assert_array_equal(one, second(x, training=True))


@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_nothing_is_dropped_outside_of_training(rate):
    x = np.ones((3, 4), "float32")
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(Dropout(rate)(x)), x)


def test_rate_1_leaves_nothing():
    layer, x = Dropout(1.0), np.ones((3, 4), "float32")
    assert not layer(x, training=True).numpy().any()
    np.testing.assert_array_equal(layer(x), x)

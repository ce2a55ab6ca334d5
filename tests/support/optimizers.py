"""A small problem for optimizers, and its solution by one of them."""

import keras
import numpy as np
import tensorflow as tf

STEPS = 20


def problem():
    """Weights (a matrix and a vector), and gradients of very different sizes."""
    generator = np.random.default_rng(0)
    weights = [generator.normal(size=(5, 4)), generator.normal(size=4)]
    scales = 10.0 ** generator.integers(-9, 1, (STEPS, 5, 4))
    gradients = [(generator.normal(size=(5, 4)) * scale, generator.normal(size=4)) for scale in scales]
    return weights, gradients


def trained(optimizer, weights, gradients):
    """The weights after the steps of `optimizer`."""
    variables = [keras.Variable(weight, dtype="float32") for weight in weights]
    apply = tf.function(lambda *each: optimizer.apply(list(each), variables))
    for each in gradients:
        apply(*(tf.constant(gradient, tf.float32) for gradient in each))
    return [variable.numpy() for variable in variables]

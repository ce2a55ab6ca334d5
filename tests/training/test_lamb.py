"""LAMB against the formula of its paper, in numpy."""

import numpy as np
from keras.optimizers import deserialize, serialize

from keras_bert.training import LAMB, WarmupThenDecay

from ..support.optimizers import STEPS, problem, trained


def by_hand(weights, gradients, rate, decay=0.01, beta_1=0.9, beta_2=0.999, epsilon=1e-6):
    """You et al. 2020, algorithm 2, in float64; a vector neither decays nor is its step scaled."""
    weights = [weight.copy() for weight in weights]
    moments = [(np.zeros_like(weight), np.zeros_like(weight)) for weight in weights]
    for step, each in enumerate(gradients, start=1):
        for weight, (first, second), gradient in zip(weights, moments, each, strict=True):
            first += (1 - beta_1) * (gradient - first)
            second += (1 - beta_2) * (gradient**2 - second)
            change = first / (1 - beta_1**step) / (np.sqrt(second / (1 - beta_2**step)) + epsilon)
            if weight.ndim > 1:
                change += decay * weight
                change *= np.linalg.norm(weight) / np.linalg.norm(change)
            weight -= rate(step - 1) * change
    return weights


def test_the_papers_formula():
    schedule = WarmupThenDecay(0.01, 5, STEPS)
    want = by_hand(*problem(), rate=lambda step: 0.01 * min(step / 5, (STEPS - step) / 15))
    for got, expected in zip(trained(LAMB(schedule), *problem()), want, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)


def test_zeros_move():
    """A matrix of zeros has no length to scale a step by; without a gradient, nothing moves."""
    ones = [(np.ones((2, 2)), np.ones(2))]
    matrix, vector = trained(LAMB(0.1), [np.zeros((2, 2)), np.zeros(2)], ones)
    np.testing.assert_allclose(matrix, -0.1, rtol=1e-4)
    np.testing.assert_allclose(vector, -0.1, rtol=1e-4)
    (still,) = trained(LAMB(0.1, weight_decay=0.0), [np.ones((2, 2))], [(np.zeros((2, 2)),)])
    np.testing.assert_array_equal(still, 1)


def test_from_config():
    optimizer = LAMB(WarmupThenDecay(1e-3, 2, 9), weight_decay=0.1, beta_2=0.98)
    again = deserialize(serialize(optimizer))
    assert type(again) is LAMB
    assert again.get_config() == optimizer.get_config()

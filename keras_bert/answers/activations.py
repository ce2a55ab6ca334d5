"""Activations of logits, in NumPy."""

import numpy as np


def softmax(logits: np.ndarray, axis: int = -1) -> np.ndarray:
    """Computes probabilities over an axis, of the shape of the logits."""
    powers = np.exp(logits - logits.max(axis=axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis=axis, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Computes the probability of each logit by itself, of the shape of the logits."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1, small) / (1 + small)


ACTIVATIONS = {"softmax": softmax, "sigmoid": sigmoid, "identity": lambda logits: logits}

"""The weights of classes in a loss: of chosen classes, or balanced by how often each class occurs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np

from keras_bert.answers.columns import label_index

# Weights by name or index of the class, where other classes have 1; or "balanced".
ClassWeight: TypeAlias = "Mapping[str | int, float] | Literal['balanced']"


def chosen_weights(weights: Mapping[str | int, float], labels: Sequence[str]) -> np.ndarray:
    """Lists the weights of all classes, float32 `[labels]`; a class that is not mentioned has 1."""
    by_index: dict[int, float] = {}
    for label, weight in weights.items():
        try:
            index = label_index(label, labels)
        except ValueError as error:
            raise ValueError(f"class_weight: {error}") from None
        if index in by_index:
            raise ValueError(f"class_weight has {labels[index]} by its name and also as {index}; keep one of them")
        by_index[index] = float(weight)
    return np.array([by_index.get(index, 1.0) for index in range(len(labels))], np.float32)


def balanced_weights(counts: np.ndarray) -> np.ndarray:
    """Weights each class by `n / (classes * count)`, as scikit-learn; one that does not occur has 1 and counts not."""
    total = counts.sum(axis=-1, keepdims=True)
    classes = np.count_nonzero(counts, axis=-1, keepdims=True)
    weights = total / np.maximum(classes * counts, 1)
    return np.where(counts > 0, weights, 1.0).astype(np.float32)

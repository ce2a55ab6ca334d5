"""Losses of single pairs and single triplets."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.tasks.sentence_losses.vector_columns import columns_of_vectors, distances, numbers


@keras.saving.register_keras_serializable(package="keras_bert")
class CosineSimilarityLoss(keras.losses.Loss):
    """The squared difference of the cosine of two vectors and the score of the pair: Reimers and Gurevych 2019,
    "Sentence-BERT", section 3.

    Call arguments:
        y_true: the scores `[batch]`, from -1 to 1.
        y_pred: vectors `[batch, 2, size]`.

    Returns:
        float32 `[batch]`; its mean when called.
    """

    def __init__(self, name: str = "cosine_similarity", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        first, second = columns_of_vectors(y_pred, 2)
        return ops.square(ops.sum(first * second, axis=-1) - numbers(y_true))


@keras.saving.register_keras_serializable(package="keras_bert")
class ContrastiveLoss(keras.losses.Loss):
    """Pulls similar pairs together, and pushes others `margin` apart, by the cosine distance `d = 1 - cos`.

    `y d^2 / 2 + (1 - y) max(0, margin - d)^2 / 2`: Hadsell et al. 2006, "Dimensionality Reduction by Learning an
    Invariant Mapping", section 2.1.

    Args:
        margin: the distance, 0 to 2, from which on other pairs cost nothing.

    Call arguments:
        y_true: `[batch]`, 1 (similar) or 0.
        y_pred: vectors `[batch, 2, size]`.

    Returns:
        float32 `[batch]`; its mean when called.
    """

    def __init__(self, margin: float = 0.5, name: str = "contrastive", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.margin = margin

    def call(self, y_true: Any, y_pred: Any) -> Any:
        first, second = columns_of_vectors(y_pred, 2)
        distances, alike = 1 - ops.sum(first * second, axis=-1), numbers(y_true)
        too_near = ops.square(ops.relu(self.margin - distances))
        return 0.5 * (alike * ops.square(distances) + (1 - alike) * too_near)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "margin": self.margin}


@keras.saving.register_keras_serializable(package="keras_bert")
class TripletLoss(keras.losses.Loss):
    """`max(0, |a - p| - |a - n| + margin)`: Reimers and Gurevych 2019, "Sentence-BERT", section 3; their margin is 1.

    The vectors are not normalized; vectors of length 1 are at most 2 apart.

    Args:
        margin: how much further from the anchor a negative must be than a positive.

    Call arguments:
        y_true: ignored.
        y_pred: vectors `[batch, 3, size]`: anchor, positive, negative.

    Returns:
        float32 `[batch]`; its mean when called.
    """

    def __init__(self, margin: float = 1.0, name: str = "triplet", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.margin = margin

    def call(self, y_true: Any, y_pred: Any) -> Any:
        anchor, positive, negative = columns_of_vectors(y_pred, 3, normalize=False)
        return ops.relu(distances(anchor, positive) - distances(anchor, negative) + self.margin)

    def has_contrast(self, y_true: np.ndarray) -> bool:
        """Whether a batch with these numbers of texts has a negative that is not the positive."""
        return bool(np.any(y_true[:, 1] != y_true[:, 2]))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "margin": self.margin}

"""Losses that put the similarities of pairs in the order of their scores."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.tasks.replicas import of_all_replicas
from keras_bert.tasks.sentence_losses.vector_columns import LOWEST, columns_of_vectors, numbers


@keras.saving.register_keras_serializable(package="keras_bert")
class CoSENTLoss(keras.losses.Loss):
    """Puts the cosines of pairs in the order of their scores.

    `log(1 + sum exp(s (cos_i - cos_j)))` over all pairs i and j of the batch where j has the higher score: Huang et al.
    2024, "CoSENT: Consistent Sentence Embedding via Similarity Ranking". Scores may be any numbers. Replicas
    share their pairs: the loss is that of the global batch.

    Args:
        scale: the factor of the cosines.

    Call arguments:
        y_true: the scores `[batch]`.
        y_pred: vectors `[batch, 2, size]`.

    Returns:
        float32 `[batch]`: the loss of the batch, in each row.

    Example:
        >>> vectors = ops.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]])
        >>> right, wrong = (float(CoSENTLoss()(scores, vectors)) for scores in ([5.0, 1.0], [1.0, 5.0]))
        >>> right < 1e-6, wrong
        (True, 20.0)
    """

    def __init__(self, scale: float = 20.0, name: str = "cosent", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.scale = scale

    def similarities(self, first: Any, second: Any) -> Any:
        """Vectors of length 1, `[batch, size]` each -> `[batch]`."""
        return ops.sum(first * second, axis=-1)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        vectors = columns_of_vectors(of_all_replicas(y_pred), 2)
        similarities, scores = self.scale * self.similarities(*vectors), numbers(of_all_replicas(y_true))
        apart = similarities[:, None] - similarities[None]
        apart = ops.where(scores[:, None] < scores[None], apart, LOWEST)
        of_batch = ops.logsumexp(ops.concatenate([ops.zeros([1]), ops.reshape(apart, (-1,))]))
        return of_batch + ops.zeros_like(numbers(y_true))

    def has_contrast(self, y_true: np.ndarray) -> bool:
        """Whether a batch with these scores has two that differ, without which nothing can be learned."""
        return len(np.unique(y_true)) > 1

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale}


@keras.saving.register_keras_serializable(package="keras_bert")
class AnglELoss(CoSENTLoss):
    """`CoSENTLoss` of angles between complex numbers. Their gradients do not vanish near cosines of 1 and -1.

    The halves of a vector are the real and the imaginary parts: Li and Li 2024, "AoE: Angle-optimized Embeddings for
    Semantic Textual Similarity", section 3.3. Arguments and shapes are those of `CoSENTLoss`; `size` is even.
    """

    def __init__(self, scale: float = 20.0, name: str = "angle", **kwargs: Any) -> None:
        super().__init__(scale, name=name, **kwargs)

    def similarities(self, first: Any, second: Any) -> Any:
        if first.shape[-1] % 2:
            raise ValueError(f"the vectors have {first.shape[-1]} values; AnglELoss needs an even number")
        (real, imaginary), (other_real, other_imaginary) = (ops.split(each, 2, axis=-1) for each in (first, second))
        sines = ops.sum(imaginary * other_real - real * other_imaginary, axis=-1)
        return ops.abs(super().similarities(first, second) + sines)

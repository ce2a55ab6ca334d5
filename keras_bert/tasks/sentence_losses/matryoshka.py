"""The loss of vectors that can be truncated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert")
class MatryoshkaLoss(keras.losses.Loss):
    """The weighted sum of a loss over several sizes of truncated vectors, so that vectors can be truncated later.

    Kusupati et al. 2022, "Matryoshka Representation Learning", section 3. Truncated vectors get length 1. Use the
    trained model with `truncate_dim`.

    Args:
        loss: a loss of this module.
        dims: the sizes, such as `[384, 256, 128, 64]`; one of them should be the whole size.
        weights: the weight of each size; by default 1.

    Call arguments:
        y_true, y_pred: as the loss takes them.

    Returns:
        The shape and type of the loss.

    Raises:
        ValueError: there are no dims, one is below 1 or above the size of the vectors, or the weights differ in number.

    Example:
        >>> from keras_bert.tasks.sentence_losses import MultipleNegativesRankingLoss
        >>> loss = MatryoshkaLoss(MultipleNegativesRankingLoss(), dims=[4, 2])
        >>> loss(ops.zeros([2]), ops.ones([2, 2, 4])).shape
        TensorShape([])
    """

    def __init__(
        self,
        loss: keras.losses.Loss,
        dims: Sequence[int],
        weights: Sequence[float] | None = None,
        name: str = "matryoshka",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.loss = loss
        self.dims = list(dims)
        self.weights = [1.0] * len(self.dims) if weights is None else list(weights)
        if not self.dims or min(self.dims) < 1:
            raise ValueError(f"dims is {self.dims}; expected numbers of values, each 1 or more")
        if len(self.weights) != len(self.dims):
            raise ValueError(f"there are {len(self.dims)} dims, but {len(self.weights)} weights")

    def call(self, y_true: Any, y_pred: Any) -> Any:
        if max(self.dims) > y_pred.shape[-1]:
            raise ValueError(f"dims has {max(self.dims)}, but the vectors have {y_pred.shape[-1]} values")
        parts = [ops.normalize(y_pred[..., :dim], axis=-1) for dim in self.dims]
        losses = (weight * self.loss.call(y_true, part) for weight, part in zip(self.weights, parts, strict=True))
        return sum(losses)

    def has_contrast(self, y_true: np.ndarray) -> bool:
        """That of the loss, see there."""
        return not hasattr(self.loss, "has_contrast") or self.loss.has_contrast(y_true)

    def get_config(self) -> dict[str, Any]:
        loss = keras.saving.serialize_keras_object(self.loss)
        return {**super().get_config(), "loss": loss, "dims": self.dims, "weights": self.weights}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> MatryoshkaLoss:
        return cls(**{**config, "loss": keras.saving.deserialize_keras_object(config["loss"])})

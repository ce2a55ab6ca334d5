"""Losses of classes and numbers that Keras lacks. A kind in `kinds/classes.py` chooses its loss; users may pass any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from keras_bert.tensors import Tensor

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@keras.saving.register_keras_serializable(package="keras_bert")
class ScaledMeanSquaredError(keras.losses.Loss):
    """The mean squared error of numbers in units of their standard deviation: labels of any scale have the same loss.

    `fine_tune` takes it for regression. A model that always predicts the mean of the labels has a loss of about 1.

    Args:
        deviations: the standard deviation of each number, `[labels]`.

    Call arguments:
        y_true, y_pred: float `[batch, labels]`, in the user's unit.
    """

    def __init__(self, deviations: ArrayLike, name: str = "scaled_mean_squared_error", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.deviations = np.asarray(deviations, np.float32)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return ops.mean(ops.square((y_pred - ops.cast(y_true, y_pred.dtype)) / self.deviations), axis=-1)

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "deviations": self.deviations.tolist()}

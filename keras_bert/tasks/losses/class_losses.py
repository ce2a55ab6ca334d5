"""Losses of classes and numbers that Keras lacks. `kinds/classes.py` has the defaults; users may pass any loss."""

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


@keras.saving.register_keras_serializable(package="keras_bert")
class FocalLoss(keras.losses.Loss):
    """The cross-entropy of classes, in which answers that are right and sure count little: for rare classes.

    Lin et al. 2017, "Focal Loss for Dense Object Detection", section 3.2: `-(1 - p)^gamma log(p)`, where p is the
    probability of the right answer.

    Args:
        gamma: how little sure answers count; 0: as much as all others, which is cross-entropy.

    Call arguments:
        y_true: the classes of texts, int `[batch]`; or, of several labels a text, numbers from 0 to 1,
            `[batch, labels]`.
        y_pred: logits `[batch, labels]`.

    Example:
        >>> loss, cross_entropy = FocalLoss(), FocalLoss(gamma=0.0)
        >>> [round(float(each(np.array([1]), np.array([[0.0, 2.0]]))), 3) for each in (loss, cross_entropy)]
        [0.002, 0.127]
    """

    def __init__(self, gamma: float = 2.0, name: str = "focal", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.gamma = gamma

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        if len(y_true.shape) < len(y_pred.shape) or y_true.shape[-1] != y_pred.shape[-1]:  # a class a text
            classes = ops.cast(ops.reshape(y_true, (-1,)), "int32")
            chosen = ops.one_hot(classes, y_pred.shape[-1], dtype=y_pred.dtype)
            return ops.sum(chosen * self._of_log(ops.log_softmax(y_pred)), axis=-1)
        y_true = ops.cast(y_true, y_pred.dtype)
        yes, no = (self._of_log(ops.log_sigmoid(each)) for each in (y_pred, -y_pred))
        return ops.mean(y_true * yes + (1 - y_true) * no, axis=-1)

    def _of_log(self, log_probability: Tensor) -> Tensor:
        return -((1 - ops.exp(log_probability)) ** self.gamma) * log_probability

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "gamma": self.gamma}

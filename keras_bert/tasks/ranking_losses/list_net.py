"""The cross-entropy of finding the best passage of a list."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_bert.tasks.ranking_losses.lists import lists_of


@keras.saving.register_keras_serializable(package="keras_bert")
class ListNetLoss(keras.losses.Loss):
    """The cross-entropy of two distributions over the passages of a query: softmax of the labels, and of the logits.

    Cao et al. 2007, "Learning to Rank: From Pairwise Approach to Listwise Approach", section 4.3 (top one).

    Call arguments:
        y_true: labels `[batch, passages]`, any numbers: the higher, the better. Labels 0 and 1 make a flat
            distribution, labels 0 and 5 a sharp one.
        y_pred: logits `[batch, passages]`.

    Returns:
        float32 `[batch]`; its mean when called.

    Raises:
        ValueError: there is only one passage per query, or the number of labels is wrong.

    Example:
        >>> logits = ops.array([[0.0, 0.0]])
        >>> round(float(ListNetLoss()(ops.array([[1.0, 0.0]]), logits)), 4)  # log(2)
        0.6931
    """

    def __init__(self, name: str = "list_net", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        labels, logits = lists_of(y_true, y_pred)
        return -ops.sum(ops.softmax(labels, axis=1) * ops.log_softmax(logits, axis=1), axis=1)

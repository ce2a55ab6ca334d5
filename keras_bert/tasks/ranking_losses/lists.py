"""The arguments of losses on lists."""

from __future__ import annotations

from typing import Any

from keras import ops


def lists_of(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Labels and logits of passages -> both as float32 `[batch, passages]`.

    Raises:
        ValueError: there is only one passage per query, or the number of labels is wrong.
    """
    passages = y_pred.shape[1] if len(y_pred.shape) == 2 else 1
    if passages < 2:
        raise ValueError("the model was given pairs; this loss compares 2 or more passages of a query")
    if tuple(y_true.shape[1:]) != (passages,):
        raise ValueError(f"there are labels of shape {list(y_true.shape)} for {passages} passages a query")
    return ops.cast(y_true, "float32"), ops.cast(y_pred, "float32")

"""The loss of knowledge distillation (Hinton et al. 2015; Sanh et al. 2019, "DistilBERT")."""

from __future__ import annotations

from typing import Any

from keras import ops


def divergence(teacher: Any, student: Any, temperature: float) -> Any:
    """`T^2 KL(softmax(teacher / T) || softmax(student / T))`, over the last axis of logits.

    The factor `T^2` keeps its gradients as large as those of the labels.

    Example:
        >>> same = ops.array([[1.0, 2.0]])
        >>> float(divergence(same, same, temperature=2.0)[0])
        0.0
    """
    theirs, ours = (ops.log_softmax(logits / temperature, axis=-1) for logits in (teacher, student))
    return temperature**2 * ops.sum(ops.exp(theirs) * (theirs - ours), axis=-1)

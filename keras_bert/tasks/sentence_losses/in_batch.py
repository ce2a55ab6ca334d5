"""The loss of anchors and positives, with the other texts of the batch as negatives."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.tasks.replicas import of_all_replicas, of_this_replica
from keras_bert.tasks.sentence_losses.vector_columns import LOWEST, columns_of_vectors


@keras.saving.register_keras_serializable(package="keras_bert")
class MultipleNegativesRankingLoss(keras.losses.Loss):
    """Cross-entropy of finding an anchor's positive among all positives and negatives of the batch.

    `-log(exp(s cos(a_i, p_i)) / sum_j exp(s cos(a_i, c_j)))`, where the candidates `c` are the columns 1 and later of
    all rows: Henderson et al. 2017, "Efficient Natural Language Response Suggestion", section 4; InfoNCE, van den Oord
    et al. 2018. A large batch has many negatives. Replicas share their candidates: the loss is that of the global
    batch.

    Args:
        scale: the factor of the cosines; 1 / temperature.
        symmetric: whether half of the loss is the cross-entropy of finding each positive's anchor among all anchors
            (Günther et al. 2023, "Jina Embeddings 2", section 5).

    Call arguments:
        y_true: `[batch, columns]`, a number for each text: equal texts have equal numbers. A candidate that equals the
            anchor, or a positive of an equal anchor, is not a negative. `y_true` of another shape is ignored.
        y_pred: vectors `[batch, columns, size]`, two columns or more.

    Returns:
        float32 `[batch]`; its mean when called.

    Example:
        >>> vectors = ops.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
        >>> round(float(MultipleNegativesRankingLoss(scale=1.0)(ops.zeros([2]), vectors)), 4)  # log(1 + 1 / e)
        0.3133
    """

    def __init__(
        self, scale: float = 20.0, symmetric: bool = False, name: str = "multiple_negatives_ranking", **kwargs: Any
    ) -> None:
        super().__init__(name=name, **kwargs)
        if not scale > 0:
            raise ValueError(f"scale is {scale}; expected a number above 0")
        self.scale = scale
        self.symmetric = symmetric

    def call(self, y_true: Any, y_pred: Any) -> Any:
        losses = self._of_batch(of_all_replicas(y_true), of_all_replicas(y_pred))
        return of_this_replica(losses, ops.shape(y_pred)[0])

    def _of_batch(self, y_true: Any, y_pred: Any) -> Any:
        columns = columns_of_vectors(y_pred, 2, None)
        anchors, candidates = columns[0], ops.concatenate(columns[1:])  # [batch, size], [candidates, size]
        scores = self.scale * ops.matmul(anchors, ops.transpose(candidates))  # [batch, candidates]
        own = ops.eye(ops.shape(anchors)[0], ops.shape(candidates)[0], dtype="bool")
        if tuple(y_true.shape[1:]) == (len(columns),):
            scores = ops.where(ops.logical_and(_alike(y_true), ops.logical_not(own)), LOWEST, scores)
        right = ops.sum(ops.where(own, scores, 0.0), axis=1)
        among_candidates = ops.logsumexp(scores, axis=1)
        if not self.symmetric:
            return among_candidates - right
        of_positives = scores[:, : ops.shape(anchors)[0]]
        return (among_candidates + ops.logsumexp(of_positives, axis=0)) / 2 - right

    def has_contrast(self, y_true: np.ndarray) -> bool:
        """Whether a batch with these numbers of texts has a negative, without which nothing can be learned."""
        own = np.eye(len(y_true), len(y_true) * (y_true.shape[1] - 1), dtype=bool)
        return not np.all(own | ops.convert_to_numpy(_alike(ops.convert_to_tensor(y_true))))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale, "symmetric": self.symmetric}


def _alike(numbers: Any) -> Any:
    """Numbers of texts `[batch, columns]` -> bool `[batch, candidates]`: candidates that must not be negatives."""
    anchors, positives = numbers[:, 0], numbers[:, 1]
    candidates = ops.reshape(ops.transpose(numbers[:, 1:]), (-1,))
    same_anchor = ops.cast(anchors[:, None] == anchors[None], "float32")  # [batch, batch]
    is_positive = ops.cast(positives[:, None] == candidates[None], "float32")  # [batch, candidates]
    of_same_anchor = ops.matmul(same_anchor, is_positive) > 0
    return ops.logical_or(of_same_anchor, anchors[:, None] == candidates[None])

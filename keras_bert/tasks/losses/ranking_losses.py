"""Losses for training rerankers on lists: a query with several passages, for `compile` and `fine_tune`.

Called with (queries, passages, passages, ...), a `BertReranker` returns logits, float32 `[batch, passages]`. Pairs of a
query and one passage are trained with binary cross-entropy, which also takes lists. A loss is the mean of its float32
`[batch]`.

===============  ===================================  ===========================================================
Loss             Labels                               Learns
===============  ===================================  ===========================================================
`LambdaLoss`     relevance grades, 0, 1, 2 ...        the order of passages, above all at the top (nDCG)
`ListNetLoss`    any numbers, the higher the better   which passages have the highest labels
`MarginMSELoss`  a better model's scores or margins   the margins; see `keras_bert.tasks.losses.sentence_losses`
===============  ===================================  ===========================================================

By default, `BertReranker` takes `MarginMSELoss` for a better model's scores and `LambdaLoss` for other labels.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.tasks.losses.sentence_losses import MarginMSELoss  # noqa: F401 - users find it here, too
from keras_bert.tasks.steps.replicas import all_reduce_sum
from keras_bert.tensors import Tensor


def lists_of(y_true: Tensor, y_pred: Tensor) -> tuple[Tensor, Tensor]:
    """Checks the shapes of labels and logits, and returns both as float32 `[batch, passages]`."""
    passages = y_pred.shape[1] if len(y_pred.shape) == 2 else 1
    if passages < 2:
        raise ValueError("the model was given pairs; this loss compares 2 or more passages of a query")
    if tuple(y_true.shape[1:]) != (passages,):
        raise ValueError(f"there are labels of shape {list(y_true.shape)} for {passages} passages a query")
    return ops.cast(y_true, "float32"), ops.cast(y_pred, "float32")


@keras.saving.register_keras_serializable(package="keras_bert")
class ListNetLoss(keras.losses.Loss):
    """The cross-entropy of two distributions over the passages of a query: softmax of the labels, and of the logits.

    Use it if labels are any numbers, or if only the best passage of a query matters. For grades whose whole order
    matters, prefer `LambdaLoss`. Cao et al. 2007, "Learning to Rank: From Pairwise Approach to Listwise Approach",
    section 4.3 (top one).

    Call arguments:
        y_true: labels `[batch, passages]`, any numbers: the higher, the better. Labels 0 and 1 make a flat
            distribution; labels 0 and 5 make a sharp one.
        y_pred: logits `[batch, passages]`, of two or more passages.

    Raises:
        ValueError: there is only one passage per query, or the number of labels is wrong.

    Example:
        >>> logits = ops.array([[0.0, 0.0]])
        >>> round(float(ListNetLoss()(ops.array([[1.0, 0.0]]), logits)), 4)  # log(2)
        0.6931
    """

    def __init__(self, name: str = "list_net", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        labels, logits = lists_of(y_true, y_pred)
        return -ops.sum(ops.softmax(labels, axis=1) * ops.log_softmax(logits, axis=1), axis=1)


_MU = 10.0  # the weight of NDCG-Loss2 beside that of LambdaRank, as in the paper


@keras.saving.register_keras_serializable(package="keras_bert")
class LambdaLoss(keras.losses.Loss):
    """The logistic loss of two passages of a query with different labels, weighted by how much swapping them would
    change nDCG.

    Use it for relevance grades, 0 and 1 among them: it is the default for lists without a teacher's scores.

    `-sum w_ij log2(sigmoid(s_i - s_j))` over passages i and j with `y_i > y_j`, divided by the number of such pairs in
    the batch: NDCG-Loss2++ of Wang et al. 2018, "The LambdaLoss Framework for Ranking Metric Optimization", section 4.
    The number of pairs is that of the global batch, so the number of replicas does not change the loss. Passages with
    equal logits rank in the order in which they stand; between two copies of a passage, rounding may decide.

    Args:
        k: a pair counts only if one of its passages is among the `k` with the highest logits, as for nDCG@k; by default
            all pairs count.

    Call arguments:
        y_true: labels `[batch, passages]`, from 0 (no answer) up; a passage gains `2^label - 1`. Negative labels gain
            0.
        y_pred: logits `[batch, passages]`, of two or more passages.

    Raises:
        ValueError: `k` is below 1, there is only one passage per query, or the number of labels is wrong.

    Example:
        >>> labels, right, wrong = ([[1.0, 0.0]], [[4.0, -4.0]], [[-4.0, 4.0]])
        >>> loss = LambdaLoss()
        >>> float(loss(ops.array(labels), ops.array(right))) < 0.01 < float(loss(ops.array(labels), ops.array(wrong)))
        True
    """

    def __init__(self, k: int | None = None, name: str = "lambda", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        if k is not None and k < 1:
            raise ValueError(f"k is {k}; expected at least 1")
        self.k = k

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        labels, logits = _by_score(y_true, y_pred)
        discounts = np.log2(np.arange(labels.shape[1]) + 2.0).astype(np.float32)
        ideal_gains = ops.flip(ops.sort(_gains(labels), axis=1), axis=1)
        ideal_dcg = ops.sum((ideal_gains / discounts)[:, : self.k], axis=1, keepdims=True)  # the DCG of the best order
        gains = _gains(labels) / ops.maximum(ideal_dcg, 1e-10)
        weights = _weights(discounts) * ops.abs(_differences(gains))  # [batch, passages, passages]
        pairs = self._pairs(labels)
        losses = ops.softplus(-_differences(logits)) / np.log(2)  # -log2(sigmoid)
        count = all_reduce_sum(ops.sum(pairs))
        queries_per_pair = all_reduce_sum(ops.cast(ops.shape(labels)[0], "float32")) / ops.maximum(count, 1.0)
        return ops.sum(weights * losses * pairs, axis=(1, 2)) * queries_per_pair

    def has_contrast(self, y_true: np.ndarray) -> bool:
        """Checks that some query of a batch has passages with different labels; otherwise there is nothing to learn."""
        return bool(np.any(y_true != y_true[:, :1]))

    def count(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Counts the pairs that the loss is the mean of."""
        return ops.sum(self._pairs(_by_score(y_true, y_pred)[0]))

    def _pairs(self, labels: Tensor) -> Tensor:
        """Marks the pairs that count by 1, float32 `[batch, passages, passages]`; labels are sorted by rank."""
        ranks = np.arange(labels.shape[1])  # from 0
        is_counted = (ranks[:, None] < (self.k or len(ranks))) | (ranks < (self.k or len(ranks)))
        return ops.cast(_differences(labels) > 0, "float32") * is_counted

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "k": self.k}


def _by_score(y_true: Tensor, y_pred: Tensor) -> tuple[Tensor, Tensor]:
    """Sorts labels and logits, float32 `[batch, passages]` each, by falling logit."""
    labels, logits = lists_of(y_true, y_pred)
    order = ops.argsort(-logits, axis=1)
    return ops.take_along_axis(labels, order, axis=1), ops.take_along_axis(logits, order, axis=1)


def _gains(labels: Tensor) -> Tensor:
    return ops.power(2.0, ops.maximum(labels, 0.0)) - 1.0


def _differences(values: Tensor) -> Tensor:
    """Subtracts each value of a row from each: `d[b, i, j] = v[b, i] - v[b, j]`, `[batch, n, n]`."""
    return values[:, :, None] - values[:, None, :]


def _weights(discounts: np.ndarray) -> np.ndarray:
    """Weighs differences of gains by the ranks of both passages, `[n, n]`."""
    inverse_discounts = 1 / np.append(discounts, np.log2(len(discounts) + 2.0))  # by rank
    ranks = np.arange(len(discounts))
    distances = np.abs(ranks[:, None] - ranks)
    distance_weights = np.where(distances > 0, inverse_discounts[distances - 1] - inverse_discounts[distances], 0.0)
    rank_weights = np.abs(inverse_discounts[ranks][:, None] - inverse_discounts[ranks])
    return (_MU * distance_weights + rank_weights).astype(np.float32)


def binary_cross_entropy() -> keras.losses.Loss:
    """Makes the binary cross-entropy of a pair's logit and its label, 0 to 1: the default loss for pairs."""
    return keras.losses.BinaryCrossentropy(from_logits=True)

"""Lists for a reranker: queries with several passages each, in columns of texts; and measures of their ranking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.tasks import metrics
from keras_bert.tasks.columns import plain_labels
from keras_bert.tasks.learning_vectors import scores_of
from keras_bert.tasks.sentence_losses import margins_of


def packed_lists(pack: Callable[[tuple[Any, Any]], dict[str, tf.Tensor]], columns: Sequence[Any]) -> dict[str, Any]:
    """Packs each query with each of its passages.

    Args:
        pack: queries and passages -> the encoder's inputs.
        columns: queries, then two or more columns of passages: strings `[batch]`, or ragged tokens.

    Returns:
        int32 `[batch, passages, seq_length]` each.
    """
    queries, *passages = columns
    count = len(passages)
    packed = pack((tf.concat([queries] * count, axis=0), tf.concat(passages, axis=0)))

    def by_query(rows: tf.Tensor) -> tf.Tensor:
        return tf.transpose(tf.reshape(rows, [count, -1, tf.shape(rows)[1]]), [1, 0, 2])

    return {name: by_query(rows) for name, rows in packed.items()}


def counts_of(columns: Sequence[Any]) -> tuple[int, int]:
    """The number of queries, and of passages per query. Raises ValueError if the columns differ in length."""
    counts = {len(column) for column in columns}
    if len(counts) > 1:
        raise ValueError(f"the columns have {' and '.join(f'{count:,}' for count in sorted(counts))} texts")
    return counts.pop(), len(columns) - 1


def labels_of(y: Any, queries: int, passages: int) -> np.ndarray:
    """Labels, scores or margins of the passages, as float32 `[queries, numbers]`. None: the first passage is the
    answer.

    Raises:
        ValueError: the number of labels is wrong, or one is not finite.
    """
    if y is None:
        return np.eye(1, passages, dtype=np.float32).repeat(queries, axis=0)
    labels = scores_of(plain_labels(y))
    if len(labels) != queries:
        raise ValueError(f"there are {queries:,} queries, but labels of {len(labels):,}")
    labels = labels.reshape(queries, -1)
    if labels.shape[1] not in (passages, passages - 1):
        raise ValueError(
            f"there are {passages} passages a query, but {labels.shape[1]} labels; give one for each passage, or "
            "margins: the score of the first passage minus that of each other one"
        )
    return labels


def are_scores(labels: Any, passages: int) -> bool:
    """Whether the labels are a teacher's scores or margins, and not relevance grades: 0, 1, 2 ..."""
    return labels.shape[1] != passages or bool(np.any((labels < 0) | (labels != np.round(labels))))


def measured(scores: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Measures the ranking of passages.

    Args:
        scores: float `[queries, passages]`.
        labels: see `labels_of`.

    Returns:
        For relevance grades 0, 1, 2 ...: `ndcg@10`, with a gain of `2^grade - 1` (Burges et al. 2005, "Learning to Rank
        using Gradient Descent", section 6), and `mrr@10`, where grades above 0 are relevant. Else `spearman` and
        `pearson`, the correlations of the margins.

    Example:
        >>> measured(np.array([[0.1, 0.9, 0.5]]), np.array([[1.0, 0.0, 0.0]]))
        {'ndcg@10': 0.5, 'mrr@10': 0.3333333333333333}
    """
    if are_scores(labels, scores.shape[1]):
        margins = (np.ravel(margins_of(each, scores.shape[1] - 1)) for each in (labels, scores))
        found = metrics.correlation(*margins)
        return {"spearman": found["spearman"], "pearson": found["pearson"]}
    labels = np.asarray(labels, np.float64)
    ranked = np.take_along_axis(labels, np.argsort(-scores, axis=1, kind="stable"), axis=1)[:, :10]
    best = -np.sort(-labels, axis=1)[:, :10]
    kept = 1 / np.log2(np.arange(ranked.shape[1]) + 2)
    found, most = (((2**each - 1) * kept).sum(axis=1) for each in (ranked, best))
    hits = ranked > 0
    first = np.where(hits.any(axis=1), 1 / (hits.argmax(axis=1) + 1), 0)
    ndcg = np.divide(found, most, out=np.zeros_like(found), where=most > 0)
    return {"ndcg@10": float(ndcg.mean()), "mrr@10": float(first.mean())}

"""Columns of texts that are compared: the targets of their losses, and measures of their vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.tasks import metrics, vector_metrics
from keras_bert.tasks.columns import numbers_of
from keras_bert.tasks.sentence_losses import (
    margins_of,
)

_MEASURES = ("ndcg@10", "mrr@10", "accuracy@1", "recall@10")  # measures of a search, to choose models by


class TextVectors(NamedTuple):
    """The texts of a row and their vectors.

    Attributes:
        texts: the anchor, and one or more others.
        vectors: float32 `[columns, size]`, a vector per text.
    """

    texts: tuple[str, ...]
    vectors: np.ndarray


def text_numbers(columns: Sequence[Sequence[str]]) -> np.ndarray:
    """A number for each text, int32 `[rows, columns]`: equal texts have equal numbers.

    Example:
        >>> text_numbers([["a", "b"], ["c", "a"]]).tolist()
        [[0, 2], [1, 0]]
    """
    numbers: dict[Any, int] = {}
    return np.array([[numbers.setdefault(text, len(numbers)) for text in column] for column in columns], np.int32).T


def are_text_numbers(targets: Any) -> bool:
    """Whether targets, a tensor or an array, are `text_numbers`, and not scores or vectors."""
    return len(targets.shape) == 2 and not np.issubdtype(tf.as_dtype(targets.dtype).as_numpy_dtype, np.floating)


def are_vectors(scores: Any, columns: int) -> bool:
    """Whether these are vectors (one for all columns of texts, or one for each), and not scores."""
    return len(scores.shape) == 3 or (len(scores.shape) == 2 and scores.shape[1] > columns)


def scores_of(y: Any) -> np.ndarray:
    """Scores `[rows]`, several a row, or vectors, as float32.

    Raises:
        ValueError: the rows have different numbers of scores, or one is not a finite number.
    """
    scores = numbers_of(y, "scores")
    if bad := np.flatnonzero(~np.isfinite(scores.reshape(len(scores), -1)).all(axis=1)).tolist():
        raise ValueError(f"score {bad[0]} (from 0) is {scores[bad[0]]}, which is not finite")
    return scores


def measured(
    rows: Sequence[TextVectors], scores: Sequence[float] | None, similarity: str = "cosine"
) -> dict[str, float]:
    """Measures the vectors of pairs with scores, or of rows (anchor, positive, negative, ...).

    Args:
        rows: texts and vectors.
        scores: for pairs, their similarities: if all are 0 or 1, the measures are average precision, best F1 and
            accuracy, else Spearman's and Pearson's correlations. For triplets, a teacher's scores or margins, see
            `MarginMSELoss`: the measures are the correlations of the margins. A teacher's vectors, see `VectorMSELoss`:
            the measure is the mean cosine. None: each anchor searches for its positives among all texts except anchors,
            and if there are negatives, is compared with its own.
        similarity: that of the model, "cosine" or "dot".
    """
    columns = np.stack([row.vectors for row in rows], axis=1)  # [columns, rows, size]
    if scores is None:
        every = searched(rows, at=(1, 10), similarity=similarity)
        found = {name: every[name] for name in _MEASURES}
        if len(columns) > 2:
            parts = [vector_metrics.triplet_accuracy(*columns[:2], each, similarity) for each in columns[2:]]
            found["triplet_accuracy"] = float(np.mean([part["triplet_accuracy"] for part in parts]))
        return found
    scores = scores_of(scores)
    if are_vectors(scores, len(columns)):
        wanted = scores[:, None] if scores.ndim == 2 else scores
        wanted = np.broadcast_to(wanted, (*wanted.shape[:1], len(columns), *wanted.shape[2:]))
        cosines = [vector_metrics.cosines(each, wanted[:, column]) for column, each in enumerate(columns)]
        return {"cosine": float(np.mean(cosines))}
    if len(columns) > 2:
        products = np.sum(columns[0] * columns[1:], axis=-1).T  # [rows, columns - 1]
        margins = (np.ravel(margins_of(each, len(columns) - 2)) for each in (scores, products))
        return _correlations(*margins)
    similarities = vector_metrics.similarities(columns[0], columns[1], similarity)
    if set(scores.tolist()) == {0.0, 1.0}:
        return vector_metrics.pair_classification(scores, similarities)
    return _correlations(scores, similarities)


def _correlations(scores: Any, found: Any) -> dict[str, float]:
    correlations = metrics.correlation(scores, found)
    return {"spearman": correlations["spearman"], "pearson": correlations["pearson"]}


def searched(
    rows: Sequence[TextVectors],
    corpus: Mapping[str, np.ndarray] | None = None,
    at: Sequence[int] = (1, 3, 5, 10, 100),
    similarity: str = "cosine",
) -> dict[str, float]:
    """Measures how well anchors find their positives among all texts except anchors: `vector_metrics.retrieval`.

    Args:
        rows: texts and vectors of (anchor, positive, ...).
        corpus: further texts to search, and their vectors.
        at: the values of `k`.
        similarity: that of the model, "cosine" or "dot".

    Returns:
        The measures of each `k`, such as `ndcg@10`.
    """
    found, vectors, anchors, relevant = {}, [], {}, []
    for row in rows:
        anchor = anchors.setdefault(row.texts[0], len(anchors))
        if anchor == len(relevant):
            relevant.append((row.vectors[0], set()))
        for text, vector in zip(row.texts[1:], row.vectors[1:], strict=True):
            if found.setdefault(text, len(found)) == len(vectors):
                vectors.append(vector)
        relevant[anchor][1].add(found[row.texts[1]])
    for text, vector in (corpus or {}).items():
        if found.setdefault(text, len(found)) == len(vectors):
            vectors.append(vector)
    queries, wanted = zip(*relevant, strict=True)
    return vector_metrics.retrieval(queries, vectors, wanted, at, similarity)

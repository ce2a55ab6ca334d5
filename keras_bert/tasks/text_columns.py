"""Columns of texts to train and measure sentence vectors with: anchors, and what they are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_bert.tasks import metrics, vector_metrics


class TextVectors(NamedTuple):
    """The texts of a row and their vectors.

    Attributes:
        texts: the anchor, and one or more others.
        vectors: float32 `[columns, size]`.
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


def measured(rows: Sequence[TextVectors], scores: Sequence[float] | None) -> dict[str, float]:
    """The measures of the vectors of (first, second) with scores, or of (anchor, positive, negative, ...).

    Args:
        rows: texts and vectors.
        scores: how alike the two texts of each row are. With 0 and 1 alone, average precision, best F1 and accuracy are
            measured; with others, the correlations of Spearman and Pearson. None: each anchor searches for its
            positives among all texts but the anchors; with negatives, it is also compared with its own.
    """
    columns = np.stack([row.vectors for row in rows], axis=1)  # [columns, rows, size]
    if scores is None:
        found = _search(rows)
        if len(columns) > 2:
            parts = [vector_metrics.triplet_accuracy(columns[0], columns[1], each) for each in columns[2:]]
            found["triplet_accuracy"] = float(np.mean([part["triplet_accuracy"] for part in parts]))
        return found
    scores, cosines = np.asarray(scores, np.float64), vector_metrics.cosines(columns[0], columns[1])
    if set(scores.tolist()) == {0.0, 1.0}:
        return vector_metrics.pair_classification(scores, cosines)
    correlations = metrics.correlation(scores, cosines)
    return {"spearman": correlations["spearman"], "pearson": correlations["pearson"]}


def _search(rows: Sequence[TextVectors]) -> dict[str, float]:
    corpus: dict[str, int] = {}
    vectors, anchors, relevant = [], {}, []
    for row in rows:
        anchor = anchors.setdefault(row.texts[0], len(anchors))
        if anchor == len(relevant):
            relevant.append((row.vectors[0], set()))
        for text, vector in zip(row.texts[1:], row.vectors[1:], strict=True):
            if corpus.setdefault(text, len(corpus)) == len(vectors):
                vectors.append(vector)
        relevant[anchor][1].add(corpus[row.texts[1]])
    queries, wanted = zip(*relevant, strict=True)
    found = vector_metrics.retrieval(queries, vectors, wanted, at=(1, 10))
    return {name: found[name] for name in ("ndcg@10", "mrr@10", "accuracy@1", "recall@10")}

"""Measures of sentence vectors, in search and in pair classification, as numbers from 0 to 1.

Similarity is the cosine of vectors, which may have any length; or, for models trained for it, their dot product
("dot"). For pairs with scores, such as STS-B's, use `metrics.correlation` of the scores and `similarities`.

==============  =====================================================================================================
`retrieval`     Mean over the queries, for each `k` of `at`; equal similarities keep their order in the corpus
==============  =====================================================================================================
`accuracy@k`    1 if a relevant document is among the best `k`
`recall@k`      the share of the relevant documents that are among the best `k`
`precision@k`   the share of the best `k` that are relevant
`mrr@k`         1 / rank of the first relevant document, 0 if it is not among the best `k`
`ndcg@k`        the sum of `1 / log2(rank + 1)` over the relevant documents, divided by the highest possible sum
`map@k`         the sum of the precisions at the ranks of the relevant documents, divided by the most of them that the
                best `k` can hold
==============  =====================================================================================================

Manning et al. 2008, "Introduction to Information Retrieval", section 8.4; Järvelin and Kekäläinen 2002 for nDCG.

======================================  ===================================================================
Labels of rows (anchor, positive, ...)  What `BertSentenceEncoder` is measured by
======================================  ===================================================================
None                                    a search for each anchor's positives among all texts except anchors;
                                        with negatives, also the accuracy of triplets
of pairs, all 0 or 1                    average precision, best F1 and best accuracy
of pairs, other numbers                 Spearman's and Pearson's correlations
scores or margins, see `MarginMSELoss`  Spearman's and Pearson's correlations of the margins
vectors, see `VectorMSELoss`            the mean cosine
======================================  ===================================================================
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from keras_bert.extras import import_extra
from keras_bert.tasks import metrics
from keras_bert.tasks.sentence_losses import are_vectors, margins_of, scores_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from keras_bert.tasks.columns import Labels

_SCORES = 2**25  # scores in memory at a time


def cosines(first: ArrayLike, second: ArrayLike) -> np.ndarray:
    """Computes the cosine of each pair of vectors, `[pairs, size]` each -> float32 `[pairs]`."""
    return similarities(first, second)


def similarities(first: ArrayLike, second: ArrayLike, similarity: str = "cosine") -> np.ndarray:
    """Computes the similarity of each pair, "cosine" or "dot": vectors `[pairs, size]` each -> float32 `[pairs]`."""
    return np.sum(_scale_vectors(first, similarity) * _scale_vectors(second, similarity), axis=1)


def retrieval(
    queries: ArrayLike,
    corpus: ArrayLike,
    relevant: Sequence[Collection[int]],
    at: Sequence[int] = (1, 5, 10),
    similarity: str = "cosine",
) -> dict[str, float]:
    """Measures how well queries find their `relevant` documents, rows of a corpus, among the best `at`."""
    queries, corpus = _scale_vectors(queries, similarity), _scale_vectors(corpus, similarity)
    if len(queries) != len(relevant) or not len(queries):
        raise ValueError(f"there are {len(queries):,} queries, but the documents of {len(relevant):,}")
    if min(at, default=0) < 1:
        raise ValueError(f"at is {list(at)}; expected numbers of documents, each 1 or more")
    for number, rows in enumerate(relevant):
        if not rows or min(rows) < 0 or max(rows) >= len(corpus):
            raise ValueError(f"query {number} has the documents {sorted(rows)}; the corpus has {len(corpus):,}")
    hits = np.zeros((len(queries), max(at)))  # 1 where the document of this rank is relevant
    chunk_size = max(1, _SCORES // len(corpus))
    for start in range(0, len(queries), chunk_size):
        for row, scores in enumerate(queries[start : start + chunk_size] @ corpus.T, start):
            best = _best_indices(scores, max(at))
            hits[row, : len(best)] = np.isin(best, list(relevant[row]))
    counts = np.array([len(set(rows)) for rows in relevant])
    return {name: value for k in at for name, value in _measures_at(hits[:, :k], counts, k).items()}


def _best_indices(scores: np.ndarray, count: int) -> np.ndarray:
    """Finds the indices of the highest scores, highest first; of equal scores, the first."""
    lowest = np.partition(scores, -count)[-count] if count < len(scores) else -np.inf
    candidates = np.flatnonzero(scores >= lowest)
    return candidates[np.argsort(-scores[candidates], kind="stable")][:count]


def _measures_at(hits: np.ndarray, counts: np.ndarray, k: int) -> dict[str, float]:
    """Computes the measures at `k` from the hits, `[queries, k]`, and the number of each query's relevant documents."""
    ranks = np.arange(1, k + 1)
    gains = 1 / np.log2(ranks + 1)
    ideal_hits = np.minimum(counts, k)
    precisions = np.cumsum(hits, axis=1) / ranks
    reciprocal_ranks = np.where(hits.any(axis=1), 1 / (hits.argmax(axis=1) + 1), 0)
    measures = {
        "accuracy": hits.any(axis=1),
        "recall": hits.sum(axis=1) / counts,
        "precision": hits.sum(axis=1) / k,
        "mrr": reciprocal_ranks,
        "ndcg": (hits * gains).sum(axis=1) / np.cumsum(gains)[ideal_hits - 1],
        "map": (precisions * hits).sum(axis=1) / ideal_hits,
    }
    return {f"{name}@{k}": float(values.mean()) for name, values in measures.items()}


def pair_classification(labels: ArrayLike, scores: ArrayLike) -> dict[str, float]:
    """Measures how well scores separate similar pairs, labels 1, from others, 0, at the best threshold."""
    labels, scores = np.asarray(labels, np.float64), np.asarray(scores, np.float64)
    if labels.shape != scores.shape or labels.ndim != 1:
        raise ValueError(f"labels {list(labels.shape)} and scores {list(scores.shape)}; expected [pairs] for both")
    if set(labels.tolist()) != {0.0, 1.0}:
        raise ValueError(f"the labels are {sorted(set(labels.tolist()))[:5]}; expected 0 and 1, both of them")
    order = np.argsort(-scores, kind="stable")
    ordered, is_similar = scores[order], labels[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))  # a threshold cannot divide equal scores
    thresholds = np.append((ordered[ends[:-1]] + ordered[ends[:-1] + 1]) / 2, ordered[-1])
    true_positives = np.cumsum(is_similar)[ends]  # similar pairs at or above each threshold
    precision, recall = true_positives / (ends + 1), true_positives / is_similar.sum()
    f1 = 2 * true_positives / (ends + 1 + is_similar.sum())
    correct = np.append(
        len(labels) - is_similar.sum(), true_positives + (len(labels) - is_similar.sum()) - (ends + 1 - true_positives)
    )
    best, most_right = int(f1.argmax()), int(correct.argmax())
    above_all = np.nextafter(ordered[0], np.inf)  # with this threshold, no pair counts as similar
    average_precision = import_extra("sklearn.metrics", "scikit-learn").average_precision_score(labels, scores)
    return {
        "average_precision": float(average_precision),
        "f1": float(f1[best]),
        "precision": float(precision[best]),
        "recall": float(recall[best]),
        "f1_threshold": float(thresholds[best]),
        "accuracy": float(correct[most_right] / len(labels)),
        "accuracy_threshold": float(np.append(above_all, thresholds)[most_right]),
    }


def triplet_accuracy(
    anchors: ArrayLike, positives: ArrayLike, negatives: ArrayLike, similarity: str = "cosine"
) -> dict[str, float]:
    """Computes the share of triplets whose anchor is closer to its positive than to its negative."""
    closer = similarities(anchors, positives, similarity) > similarities(anchors, negatives, similarity)
    return {"triplet_accuracy": float(np.mean(closer))}


def _scale_vectors(vectors: ArrayLike, similarity: str) -> np.ndarray:
    """Scales vectors, for the cosine, to length 1, so that dot products are similarities; zeros stay zeros."""
    vectors = np.asarray(vectors, np.float32)
    if similarity == "dot":
        return vectors
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


# -- Measures the vectors of rows of texts, which a `BertSentenceEncoder` computes.

_MEASURES = ("ndcg@10", "mrr@10", "accuracy@1", "recall@10")  # the measures of a search to choose models by


class TextVectors(NamedTuple):
    """The texts of a row, the anchor and one or more others, and their vectors, float32 `[columns, size]`."""

    texts: tuple[str, ...]
    vectors: np.ndarray


def measured(rows: Sequence[TextVectors], scores: Labels | None, similarity: str = "cosine") -> dict[str, float]:
    """Measures the vectors of rows of texts, against scores if there are any."""
    columns = np.stack([row.vectors for row in rows], axis=1)  # [columns, rows, size]
    if scores is None:
        search_measures = searched(rows, at=(1, 10), similarity=similarity)
        measures = {name: search_measures[name] for name in _MEASURES}
        if len(columns) > 2:
            parts = [triplet_accuracy(columns[0], columns[1], each, similarity) for each in columns[2:]]
            measures["triplet_accuracy"] = float(np.mean([result["triplet_accuracy"] for result in parts]))
        return measures
    references = scores_of(scores)
    if are_vectors(references, len(columns)):
        references = references[:, None] if references.ndim == 2 else references
        references = np.broadcast_to(references, (*references.shape[:1], len(columns), *references.shape[2:]))
        column_cosines = [cosines(each, references[:, column]) for column, each in enumerate(columns)]
        return {"cosine": float(np.mean(column_cosines))}
    if len(columns) > 2:
        products = np.sum(columns[0] * columns[1:], axis=-1).T  # [rows, columns - 1]
        reference_margins, margins = (np.ravel(margins_of(each, len(columns) - 2)) for each in (references, products))
        return _correlations(reference_margins, margins)
    pair_similarities = similarities(columns[0], columns[1], similarity)
    if set(references.tolist()) == {0.0, 1.0}:
        return pair_classification(references, pair_similarities)
    return _correlations(references, pair_similarities)


def _correlations(scores: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    correlations = metrics.correlation(scores, predictions)
    return {"spearman": correlations["spearman"], "pearson": correlations["pearson"]}


def searched(
    rows: Sequence[TextVectors],
    corpus: Mapping[str, np.ndarray] | None = None,
    at: Sequence[int] = (1, 3, 5, 10, 100),
    similarity: str = "cosine",
) -> dict[str, float]:
    """Measures how well anchors find their positives among all other texts and the corpus, by `retrieval`."""
    index, vectors, anchors, relevant = {}, [], {}, []
    for row in rows:
        anchor = anchors.setdefault(row.texts[0], len(anchors))
        if anchor == len(relevant):
            relevant.append((row.vectors[0], set()))
        for text, vector in zip(row.texts[1:], row.vectors[1:], strict=True):
            if index.setdefault(text, len(index)) == len(vectors):
                vectors.append(vector)
        relevant[anchor][1].add(index[row.texts[1]])
    for text, vector in (corpus or {}).items():
        if index.setdefault(text, len(index)) == len(vectors):
            vectors.append(vector)
    queries, positives = zip(*relevant, strict=True)
    return retrieval(queries, vectors, positives, at, similarity)

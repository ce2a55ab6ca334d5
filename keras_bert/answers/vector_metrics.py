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
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from keras_bert.counted import counted
from keras_bert.extras import import_extra

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# Compares queries with documents, as [queries, documents]: the similarity of other answers than vectors.
Compare: TypeAlias = "Callable[[Sequence[Any], Sequence[Any]], np.ndarray]"
_SCORES = 2**25  # scores in memory at a time


def cosines(first: ArrayLike, second: ArrayLike) -> np.ndarray:
    """Computes the cosine of each pair of vectors, `[pairs, size]` each -> float32 `[pairs]`."""
    return similarities(first, second)


def similarities(first: Any, second: Any, similarity: str | Compare = "cosine") -> np.ndarray:
    """Computes the similarity of each pair, "cosine" or "dot": vectors `[pairs, size]` each -> float32 `[pairs]`."""
    if callable(similarity):
        return np.array([similarity([one], [other])[0, 0] for one, other in zip(first, second, strict=True)])
    return np.sum(_scale_vectors(first, similarity) * _scale_vectors(second, similarity), axis=1)


def retrieval(
    queries: Any,
    corpus: Any,
    relevant: Sequence[Collection[int]],
    at: Sequence[int] = (1, 5, 10),
    similarity: str | Compare = "cosine",
) -> dict[str, float]:
    """Measures how well queries find their `relevant` documents, rows of a corpus, among the best `at`."""
    if callable(similarity):
        compare = similarity
    else:
        queries, corpus = _scale_vectors(queries, similarity), _scale_vectors(corpus, similarity)
        compare = lambda some, corpus: some @ corpus.T  # noqa: E731
    if len(queries) != len(relevant) or not len(queries):
        raise ValueError(f"got {counted(queries, 'query', 'queries')}, but the documents of {len(relevant):,}")
    if min(at, default=0) < 1:
        raise ValueError(f"at is {list(at)}; expected numbers of documents, each 1 or more")
    for number, rows in enumerate(relevant):
        if not rows or min(rows) < 0 or max(rows) >= len(corpus):
            raise ValueError(f"query {number} has the documents {sorted(rows)}; the corpus has {len(corpus):,}")
    hits = np.zeros((len(queries), max(at)))  # 1 where the document of this rank is relevant
    chunk_size = max(1, _SCORES // len(corpus))
    for start in range(0, len(queries), chunk_size):
        for row, scores in enumerate(compare(queries[start : start + chunk_size], corpus), start):
            best = best_indices(scores, max(at))
            hits[row, : len(best)] = np.isin(best, list(relevant[row]))
    counts = np.array([len(set(rows)) for rows in relevant])
    return {name: value for k in at for name, value in _measures_at(hits[:, :k], counts, k).items()}


def best_indices(scores: np.ndarray, count: int) -> np.ndarray:
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
    anchors: Any, positives: Any, negatives: Any, similarity: str | Compare = "cosine"
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

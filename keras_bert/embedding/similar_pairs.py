"""Finds the most similar pairs of many vectors, without a matrix of all pairs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_ROWS = 256  # rows to compute at a time


def similar_pairs(
    vectors: np.ndarray, top: int | None = None, threshold: float = -np.inf
) -> Iterator[tuple[int, int, float]]:
    """The pairs of vectors with the highest dot products: cosines, if the vectors have length 1.

    Args:
        vectors: float32 `[n, size]`.
        top: the number of pairs, the most similar first; by default all pairs, in the order of the vectors.
        threshold: the lowest product.

    Yields:
        The indices of a vector and of a later one, and their product.

    Example:
        >>> list(similar_pairs(np.float32([[1, 0], [0, 1], [0.6, 0.8]]), top=1))
        [(1, 2, 0.800000011920929)]
    """
    best = np.zeros((0, 2), np.int64), np.zeros(0, np.float32)
    for start in range(0, len(vectors), _ROWS):
        products = vectors[start : start + _ROWS] @ vectors[start:].T  # [rows, n - start]
        first, second = np.nonzero(np.triu(products >= threshold, k=1))
        values = products[first, second]
        pairs = np.stack([first, second], axis=1) + start
        if top is None:
            yield from _rows(pairs, values)
            continue
        pairs, values = np.concatenate([best[0], pairs]), np.concatenate([best[1], values])
        chosen = np.argsort(-values, kind="stable")[:top]
        best = pairs[chosen], values[chosen]
        if len(chosen) == top:
            threshold = max(threshold, float(best[1][-1]))
    yield from _rows(*best)


def _rows(pairs: np.ndarray, values: np.ndarray) -> Iterator[tuple[int, int, float]]:
    for (first, second), value in zip(pairs.tolist(), values.tolist(), strict=True):
        yield first, second, value

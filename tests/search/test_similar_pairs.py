"""The most similar pairs are those of the whole matrix."""

import numpy as np
import pytest

from keras_bert.search import neighbours
from keras_bert.search.neighbours import similar_pairs as pairs_of


@pytest.fixture
def vectors(monkeypatch):
    monkeypatch.setattr(neighbours, "_ROWS_AT_A_TIME", 7)
    drawn = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def expected(vectors, threshold=-2.0):
    matrix = vectors @ vectors.T
    pairs = [(i, j) for i in range(40) for j in range(i + 1, 40)]
    return [(i, j, pytest.approx(matrix[i, j], abs=1e-6)) for i, j in pairs if matrix[i, j] >= threshold]


def test_all_pairs_in_order(vectors):
    assert list(pairs_of(vectors)) == expected(vectors)
    assert list(pairs_of(vectors, threshold=0.5)) == expected(vectors, 0.5)
    assert list(pairs_of(vectors[:1])) == list(pairs_of(vectors[:0], top=3)) == []


@pytest.mark.parametrize("top", [1, 10, 10_000])
@pytest.mark.parametrize("threshold", [-2.0, 0.5])
def test_the_best_come_first(vectors, top, threshold):
    best = sorted(expected(vectors, threshold), key=lambda pair: -pair[2].expected)[:top]
    assert list(pairs_of(vectors, top, threshold)) == best


def test_of_equal_pairs_the_first_are_taken():
    same = np.ones((20, 1), np.float32)
    assert list(pairs_of(same, top=3, threshold=1.0)) == [(0, 1, 1.0), (0, 2, 1.0), (0, 3, 1.0)]

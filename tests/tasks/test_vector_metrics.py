"""Measures of sentence vectors, on cases that can be counted by hand."""

import math

import numpy as np
import pytest

from keras_bert.answers import vector_metrics

from ..support.messages import error_names

# One query along the first axis; the documents by falling cosine: 3, 1, 0, 4, 2.
QUERY = [[2.0, 0.0]]
CORPUS = [[1.0, 1.0], [2.0, 1.0], [-1.0, 0.0], [9.0, 0.0], [0.0, 1.0]]


def test_ranks_by_hand():
    found = vector_metrics.retrieval(QUERY, CORPUS, [{1, 4}], at=[1, 2, 4, 10])
    assert [found[f"accuracy@{k}"] for k in (1, 2, 4, 10)] == [0, 1, 1, 1]
    assert [found[f"recall@{k}"] for k in (1, 2, 4, 10)] == [0, 0.5, 1, 1]
    assert [found[f"precision@{k}"] for k in (1, 2, 4, 10)] == [0, 0.5, 0.5, 0.2]
    assert [found[f"mrr@{k}"] for k in (1, 2, 4, 10)] == [0, 0.5, 0.5, 0.5]
    ideal = 1 + 1 / math.log2(3)
    assert found["ndcg@1"] == 0
    assert found["ndcg@2"] == pytest.approx((1 / math.log2(3)) / ideal)
    assert found["ndcg@4"] == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / ideal)
    assert found["map@2"] == 0.25
    assert found["map@4"] == found["map@10"] == 0.5
    found = vector_metrics.retrieval(QUERY, CORPUS, [{1, 3}], at=[1])
    assert (found["recall@1"], found["map@1"], found["ndcg@1"]) == (0.5, 1, 1)  # one of two, and no place for the other


def test_means_over_queries_however_many_at_a_time(monkeypatch):
    generator = np.random.default_rng(0)
    queries, corpus = generator.normal(size=(30, 8)), generator.normal(size=(50, 8))
    relevant = [set(generator.choice(50, generator.integers(1, 9), replace=False).tolist()) for _ in range(30)]
    expected = vector_metrics.retrieval(queries, corpus, relevant)
    monkeypatch.setattr(vector_metrics, "_SCORES", 350)
    assert vector_metrics.retrieval(queries, corpus, relevant) == pytest.approx(expected)
    alone = [vector_metrics.retrieval(queries[i : i + 1], corpus, relevant[i : i + 1]) for i in range(30)]
    assert {name: np.mean([each[name] for each in alone]) for name in expected} == pytest.approx(expected)
    assert 0 < expected["ndcg@10"] < 1


def test_equal_documents_keep_their_order():
    corpus = [[1.0, 0.0]] * 50
    for place in (0, 7, 49):
        assert vector_metrics.retrieval(QUERY, corpus, [[place]], at=[50])["mrr@50"] == 1 / (place + 1)
    assert vector_metrics.retrieval(QUERY, corpus, [[7]], at=[7])["accuracy@7"] == 0


def test_pairs_by_hand():
    labels, scores = [1, 1, 0, 1, 0, 0], [0.9, 0.8, 0.8, 0.6, 0.4, 0.2]
    found = vector_metrics.pair_classification(labels, scores)
    # Of the thresholds 0.85, 0.7, 0.5, 0.3, 0.2, the third has 3 right of 4, and misses none.
    assert (found["precision"], found["recall"]) == (0.75, 1)
    assert found["f1"] == pytest.approx(2 * 0.75 / 1.75)
    assert found["f1_threshold"] == pytest.approx(0.5)
    assert found["accuracy"] == pytest.approx(5 / 6)
    assert found["accuracy_threshold"] == pytest.approx(0.5)
    assert found["average_precision"] == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    none = vector_metrics.pair_classification([0, 0, 0, 1], [0.9, 0.8, 0.7, 0.1])
    assert none["accuracy"] == 0.75  # by calling none of them alike
    assert none["accuracy_threshold"] > 0.9


def test_triplets_and_cosines():
    anchors, near, far = [[1.0, 0.0], [1.0, 0.0]], [[3.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 1.0]]
    assert vector_metrics.triplet_accuracy(anchors, near, far) == {"triplet_accuracy": 0.5}
    assert vector_metrics.triplet_accuracy(anchors, near, near) == {"triplet_accuracy": 0}
    np.testing.assert_allclose(vector_metrics.cosines(near, far), [0.1**0.5, 0.5**0.5], rtol=1e-6)


def test_dot_products():
    """Longer vectors count more: of the documents, the products are 2, 4, -2, 18, 0."""
    np.testing.assert_array_equal(vector_metrics.similarities(QUERY * 5, CORPUS, "dot"), [2, 4, -2, 18, 0])
    found = vector_metrics.retrieval([[1.0, 0.5]], [[1.0, 0.5], [9.0, 0.0]], [{0}], at=[1], similarity="dot")
    assert found["accuracy@1"] == 0
    assert vector_metrics.retrieval([[1.0, 0.5]], [[1.0, 0.5], [9.0, 0.0]], [{0}], at=[1])["accuracy@1"] == 1
    triplet = [[1.0, 0.5]], [[1.0, 0.5]], [[9.0, 0.0]]
    assert vector_metrics.triplet_accuracy(*triplet, "dot") == {"triplet_accuracy": 0}
    assert vector_metrics.triplet_accuracy(*triplet) == {"triplet_accuracy": 1}


@pytest.mark.parametrize(("call", "words"), [
    (lambda: vector_metrics.retrieval(QUERY, CORPUS, [{1}, {2}]), ("1 query", "2")),
    (lambda: vector_metrics.retrieval(QUERY, CORPUS, [set()]), ("query 0", "corpus", "5")),
    (lambda: vector_metrics.retrieval(QUERY, CORPUS, [{5}]), ("query 0", "[5", "corpus")),
    (lambda: vector_metrics.retrieval(QUERY, CORPUS, [{1}], at=[0]), ("at", "[0")),
    (lambda: vector_metrics.pair_classification([1, 1], [0.1, 0.2]), ("labels", "[1.0", "0 and 1")),
    (lambda: vector_metrics.pair_classification([1, 0], [0.1, 0.2, 0.3]), ("labels [2", "scores [3")),
])  # fmt: skip
def test_what_cannot_be_measured_is_refused(call, words):
    with error_names(ValueError, *words):
        call()

"""Losses of sentence vectors, beside their formulas in plain NumPy."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tasks.losses import sentence_losses as losses

from ..support.losses import assert_saved_compiled_and_learned_from
from ..support.messages import error_names

BATCH, SIZE = 6, 8
TEXTS = np.arange(3 * BATCH).reshape(BATCH, 3)  # all different


def drawn(columns, seed=0):
    return np.random.default_rng(seed).normal(size=(BATCH, columns, SIZE)).astype(np.float32)


def cosine(one, other):
    return one @ other / np.linalg.norm(one) / np.linalg.norm(other)


def ranking(vectors, scale, negatives_of):
    """The mean of -log softmax; `negatives_of` gives the candidates of a row but its positive, as (row, column)."""
    found = []
    for i, row in enumerate(vectors):
        right = scale * cosine(row[0], row[1])
        others = [scale * cosine(row[0], vectors[j][column]) for j, column in negatives_of(i)]
        found.append(np.logaddexp.reduce([right, *others]) - right)
    return np.mean(found)


@pytest.mark.parametrize("columns", [2, 3, 4])
def test_multiple_negatives(columns):
    vectors = drawn(columns)
    places = list(itertools.product(range(BATCH), range(1, columns)))
    expected = ranking(vectors, 20, lambda i: [place for place in places if place != (i, 1)])
    assert float(losses.MultipleNegativesRankingLoss()(np.zeros(BATCH), vectors)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("symmetric", [False, True])
def test_equal_texts_are_no_negatives(symmetric):
    vectors, texts = drawn(3), TEXTS.copy()
    texts[1, 1] = texts[0, 1]  # one positive of two anchors
    texts[3, 0] = texts[2, 0]  # two positives of one anchor
    texts[5, 2] = texts[4, 0]  # a negative of one row is the anchor of another
    texts[4, 2] = texts[0, 1]  # and one is another's positive
    for one, other in (((0, 1), (1, 1)), ((2, 0), (3, 0)), ((4, 0), (5, 2)), ((0, 1), (4, 2))):
        vectors[other] = vectors[one]
    left_out = {0: [(1, 1), (4, 2)], 1: [(0, 1), (4, 2)], 2: [(3, 1)], 3: [(2, 1)], 4: [(5, 2)]}
    places = list(itertools.product(range(BATCH), (1, 2)))

    def negatives_of(i):
        return [place for place in places if place != (i, 1) and place not in left_out.get(i, [])]

    expected = ranking(vectors, 20, negatives_of)
    if symmetric:
        alike = {0: [1], 1: [0], 2: [3], 3: [2]}
        flipped = vectors[:, 1::-1]
        back = ranking(flipped, 20, lambda i: [(j, 1) for j in range(BATCH) if j != i and j not in alike.get(i, [])])
        expected = (expected + back) / 2
    ranking_loss, both_ways = losses.MultipleNegativesRankingLoss, losses.MultipleNegativesSymmetricRankingLoss
    loss = both_ways() if symmetric else ranking_loss()
    assert float(ranking_loss(symmetric=symmetric)(texts, vectors)) == float(loss(texts, vectors))
    assert float(loss(texts, vectors)) == pytest.approx(expected, rel=1e-5)
    assert float(loss(TEXTS, vectors)) > expected + 0.1


@pytest.mark.parametrize("kind", [losses.CoSENTLoss, losses.AnglELoss])
def test_orders(kind):
    vectors, scores = drawn(2), np.array([3, 1, 1, 5, 0, 2.5])

    def similarity(one, other):
        one, other = one / np.linalg.norm(one), other / np.linalg.norm(other)
        if kind is losses.CoSENTLoss:
            return one @ other
        # The angle of Li and Li 2024: the quotient of complex numbers, its real and imaginary parts summed.
        one, other = one[: SIZE // 2] + 1j * one[SIZE // 2 :], other[: SIZE // 2] + 1j * other[SIZE // 2 :]
        product = np.sum(one * np.conj(other))
        return abs(product.real + product.imag)

    alike = [20 * similarity(*row) for row in vectors]
    wrong = [alike[i] - alike[j] for i in range(BATCH) for j in range(BATCH) if scores[i] < scores[j]]
    expected = np.logaddexp.reduce([0, *wrong])
    assert float(kind()(scores, vectors)) == pytest.approx(expected, rel=1e-5)
    assert float(kind()(np.ones(BATCH), vectors)) == 0


def test_numbers():
    vectors, scores = drawn(2), np.linspace(-1, 1, BATCH)
    cosines = np.array([cosine(*row) for row in vectors])
    loss = losses.CosineSimilarityLoss()
    assert float(loss(scores, vectors)) == pytest.approx(np.mean((cosines - scores) ** 2), rel=1e-5)
    alike = np.array([0, 1, 1, 0, 0, 1])
    each = np.where(alike, (1 - cosines) ** 2, np.maximum(0, 1.2 - 1 + cosines) ** 2) / 2
    assert np.any((each > 0) & (alike == 0))  # within the margin
    assert float(losses.ContrastiveLoss(margin=1.2)(alike, vectors)) == pytest.approx(each.mean(), rel=1e-5)


def test_triplets():
    vectors = drawn(3)
    near, far = (np.linalg.norm(vectors[:, 0] - vectors[:, column], axis=1) for column in (1, 2))
    expected = np.maximum(0, near - far + 0.5).mean()
    loss = losses.TripletLoss(margin=0.5)
    assert float(loss(np.zeros(BATCH), vectors)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("anchors", "positives"), [(True, True), (False, True), (True, False)])
def test_a_guide_leaves_out_what_it_finds_closer_than_the_positive_less_the_margin(anchors, positives):
    vectors, guide, margin, found = drawn(3), drawn(3, seed=1), -0.2, []
    contrasted = [(0, 1), (0, 2), *[(0, 0)] * anchors, *[(1, 1)] * positives]
    for i in range(BATCH):
        places = [(own, (j, column)) for own, column in contrasted for j in range(BATCH)]
        limit = cosine(guide[i, 0], guide[i, 1]) - margin
        right = (0, (i, 1))
        kept = [(own, at) for own, at in places if cosine(guide[i, own], guide[at]) <= limit or (own, at) == right]
        scores = [cosine(vectors[i, own], vectors[at]) / 0.2 for own, at in kept]
        found.append(np.logaddexp.reduce(scores) - cosine(*vectors[i, :2]) / 0.2)
    loss = losses.GISTEmbedLoss(0.2, margin, anchors, positives)
    assert float(loss(guide, vectors)) == pytest.approx(np.mean(found), rel=1e-5)


def test_scores_and_vectors_of_a_better_model():
    vectors, better, wanted = drawn(4), drawn(4, seed=1), drawn(3, seed=2)[..., 0]
    scores = np.einsum("bs,bcs->bc", vectors[:, 0], vectors[:, 1:])
    found, expected = (each / 2 - np.logaddexp.reduce(each / 2, axis=1, keepdims=True) for each in (scores, wanted))
    divergence = np.sum(np.exp(expected) * (expected - found), axis=1).mean()
    margins, wanted_margins = (each[:, :1] - each[:, 1:] for each in (scores, wanted))
    error = np.mean((margins - wanted_margins) ** 2)
    for outputs in (vectors, scores):
        assert float(losses.DistillKLDivLoss(2.0)(wanted, outputs)) == pytest.approx(4 * divergence, rel=1e-5)
        for labels in (wanted, wanted_margins):
            assert float(losses.MarginMSELoss()(labels, outputs)) == pytest.approx(error, rel=1e-5)
    for labels in (better, better[:, 0]):  # of all columns the same
        expected = np.mean((vectors - labels.reshape(BATCH, -1, SIZE)) ** 2)
        assert float(losses.VectorMSELoss()(labels, vectors)) == pytest.approx(expected, rel=1e-5)


def test_shorter_vectors():
    vectors = drawn(2)
    inner = losses.MultipleNegativesRankingLoss()
    expected = sum(weight * float(inner(TEXTS[:, :2], vectors[..., :dim])) for dim, weight in ((8, 1), (4, 0.5)))
    loss = losses.MatryoshkaLoss(inner, [8, 4], [1, 0.5])
    assert float(loss(TEXTS[:, :2], vectors)) == pytest.approx(expected, rel=1e-5)


ALIKE = np.array([0, 1, 1, 0, 0, 1])
ALL = [
    (losses.MultipleNegativesRankingLoss(7.0, symmetric=True), 3, ALIKE),
    (losses.CoSENTLoss(7.0), 2, ALIKE),
    (losses.AnglELoss(7.0), 2, ALIKE),
    (losses.CosineSimilarityLoss(), 2, ALIKE),
    (losses.ContrastiveLoss(1.2), 2, ALIKE),  # within which some are
    (losses.TripletLoss(0.3), 3, ALIKE),
    (losses.MarginMSELoss(), 3, np.linspace(-1, 1, BATCH)),
    (losses.MultipleNegativesSymmetricRankingLoss(7.0), 2, ALIKE),
    (losses.DistillKLDivLoss(2.0), 3, drawn(2, seed=1)[..., 0]),
    (losses.GISTEmbedLoss(0.2, 0.1, False), 3, drawn(3, seed=1)),
    (losses.VectorMSELoss(), 2, drawn(1, seed=1)[:, 0]),
    (losses.MatryoshkaLoss(losses.TripletLoss(0.3), [8, 3], [1.0, 2.0]), 3, ALIKE),
]


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "columns", "targets"), ALL, ids=[loss.name for loss, *_ in ALL])
def test_each_can_be_compiled_saved_and_learned_from(loss, columns, targets):
    assert_saved_compiled_and_learned_from(loss, targets, drawn(columns))


def test_equal_vectors_have_gradients():
    vectors = tf.ones([2, 3, SIZE])
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        value = losses.TripletLoss()(np.zeros(2), vectors)
    assert np.isfinite(tape.gradient(value, vectors)).all()


ZEROS, COSENT = np.zeros(BATCH), losses.CoSENTLoss()


@pytest.mark.parametrize(("call", "words"), [
    (lambda: COSENT(ZEROS, drawn(3)), ("3 columns", "2")),
    (lambda: losses.MultipleNegativesRankingLoss()(ZEROS, drawn(2)[:, 0]), ("1 column", "2 or more")),
    (lambda: losses.MatryoshkaLoss(COSENT, [16])(ZEROS, drawn(2)), ("dims", "16", "8 values")),
    (lambda: losses.MatryoshkaLoss(COSENT, []), ("dims",)),
    (lambda: losses.MatryoshkaLoss(COSENT, [4, 2], [1]), ("2 dims", "1 weight")),
    (lambda: losses.MultipleNegativesRankingLoss(scale=0), ("scale", "0", "above 0")),
    (lambda: losses.AnglELoss()(ZEROS, drawn(2)[..., :7]), ("7 values", "AnglELoss", "even")),
    (lambda: losses.DistillKLDivLoss()(ZEROS, drawn(3)), ("1 score", "2 texts")),
    (lambda: losses.DistillKLDivLoss(0), ("temperature", "0", "above 0")),
    (lambda: losses.GISTEmbedLoss(-1), ("temperature", "-1", "above 0")),
    (lambda: losses.GISTEmbedLoss()(drawn(3), drawn(2)), ("guide", "(6, 3, 8)", "2 columns")),
])  # fmt: skip
def test_vectors_and_settings_that_cannot_be_are_refused(call, words):
    with error_names(ValueError, *words):
        call()

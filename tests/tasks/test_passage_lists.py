"""Lists for a reranker: a query with several passages; losses, labels and measures of them."""

import keras
import numpy as np
import pytest

from keras_bert import BertReranker
from keras_bert.tasks import ranking_losses as losses
from keras_bert.tasks import reranker
from keras_bert.training import evaluate, fine_tune

from ..support import small

WORDS = small.WORDS.split()
QUERIES = ["was the film good?", "the river", "he hated it"]
PASSAGES = (WORDS[:3], ["the bank of the river", *WORDS[3:5]], ["She loved it, and he hated the music.", *WORDS[5:7]])
LABELS = np.array([[2, 0, 1], [0, 0, 1], [1, 2, 0]], np.float32)
LOGITS = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)


def new(**settings):
    return small.task(BertReranker, config={"num_layers": 1}, **settings)


def test_logits_of_lists_are_those_of_their_pairs():
    model = new()
    pairs = [np.asarray(model((QUERIES, passages)))[:, 0] for passages in PASSAGES]
    logits = np.asarray(model((QUERIES, *PASSAGES)))
    np.testing.assert_allclose(logits, np.stack(pairs, axis=1), atol=1e-5)
    assert np.ptp(logits) > 0.01
    examples = model.examples((QUERIES, *PASSAGES), None)
    x, _ = model.batch(examples.segments, examples.targets)
    assert x["input_word_ids"].shape[:2] == (3, 3)
    np.testing.assert_allclose(np.asarray(model(x)), logits, atol=1e-5)
    lengths = [model._by_length.lengths([examples.segments[0], each]) for each in examples.segments[1:]]
    assert examples.lengths.tolist() == np.max(lengths, axis=0).tolist()
    np.testing.assert_allclose(model.answers((QUERIES, *PASSAGES)), 1 / (1 + np.exp(-logits)), atol=1e-5)


def test_lambda_loss_by_its_formula():
    """Wang et al. 2018, with loops over the passages: one query, then the number of pairs of both."""

    def of_query(labels, logits, k):
        order = sorted(range(len(labels)), key=lambda i: -logits[i])
        rank = {passage: place for place, passage in enumerate(order, start=1)}
        kept = [None, *[1 / np.log2(1 + place) for place in range(1, 9)]]
        highest = sum((2**label - 1) * kept[place + 1] for place, label in enumerate(sorted(labels)[::-1][:k]))
        total, count = 0.0, 0
        for i, better in enumerate(labels):
            for j, worse in enumerate(labels):
                if better > worse and (rank[i] <= k or rank[j] <= k):
                    apart = abs(rank[i] - rank[j])
                    weight = 10 * abs(kept[apart] - kept[apart + 1]) + abs(kept[rank[i]] - kept[rank[j]])
                    total += weight * (2**better - 2**worse) / highest * np.log2(1 + np.exp(logits[j] - logits[i]))
                    count += 1
        return total, count

    for k in (None, 2):
        found = [of_query(*row, k or 3) for row in zip(LABELS, LOGITS, strict=True)]
        expected = sum(total for total, _ in found) / sum(count for _, count in found)
        assert float(losses.LambdaLoss(k)(LABELS, LOGITS)) == pytest.approx(expected, rel=1e-5)
    assert float(losses.LambdaLoss()(np.ones([2, 3]), LOGITS[:2])) == 0


def test_the_other_losses_by_their_formulas():
    wanted, found = (np.exp(each) / np.exp(each).sum(axis=1, keepdims=True) for each in (LABELS, LOGITS))
    expected = -(wanted * np.log(found)).sum(axis=1).mean()
    assert float(losses.ListNetLoss()(LABELS, LOGITS)) == pytest.approx(expected, rel=1e-5)
    margins = [LOGITS[:, :1] - LOGITS[:, 1:], LABELS[:, :1] - LABELS[:, 1:]]
    expected = np.mean((margins[0] - margins[1]) ** 2)
    for labels in (LABELS, margins[1]):
        assert float(losses.MarginMSELoss()(labels, LOGITS)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", losses.LOSSES)
def test_each_can_be_compiled_saved_and_learned_from(name):
    loss = losses.LOSSES[name]()
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    model = keras.Sequential([keras.Input([3, 4]), keras.layers.Dense(1), keras.layers.Reshape([3])])
    model.compile(keras.optimizers.SGD(1e-2), again, jit_compile=True)
    x, y = np.random.default_rng(1).normal(size=(8, 3, 4)), np.tile([[1.0, 0.0, 0.0]], (8, 1))
    before = model.evaluate(x, y, verbose=0)
    model.fit(x, y, epochs=3, verbose=0)
    assert model.evaluate(x, y, verbose=0) < before


def test_measures():
    scores = np.array([[0.1, 0.9, 0.5], [0.3, 0.2, 0.1]])
    found = reranker.measure_ranking(scores, np.array([[2, 0, 1], [0, 0, 0]]))
    expected = (1 / np.log2(3) + 3 / np.log2(4)) / (3 + 1 / np.log2(3))  # and 0 without an answer
    assert found == {"ndcg@10": pytest.approx(expected / 2), "mrr@10": pytest.approx(0.25)}
    for labels in ([[0.3, 1.1, 0.7], [0.5, 0.4, 0.3]], [[-0.8, -0.4], [0.1, 0.2]]):
        found = reranker.measure_ranking(scores, np.array(labels))
        assert found == {"spearman": pytest.approx(1), "pearson": pytest.approx(1)}


@pytest.mark.parametrize(
    "labels", [None, *(pytest.param(each, marks=pytest.mark.slow) for each in ("scores", "grades"))]
)
def test_it_learns(labels):
    """That passages of some words are answers."""
    good, bad = WORDS[:8], WORDS[8:16]
    passages = (good * 3, bad * 3, bad[1:] * 3 + bad[:1] * 3)
    queries = ["was the film good?"] * len(passages[0])
    y = {"scores": [[1.5, -0.5, -0.5]], "grades": [[2, 0, 0]], None: None}[labels]
    y = y and y * len(queries)
    model = new(scale=0.1)
    x = (queries, *passages)
    before = evaluate(model, x, None)
    history = fine_tune(model, (x, y), (x, y), epochs=4, batch_size=6, learning_rate=3e-3, progress=False)
    assert history[-1]["loss"] < history[0]["loss"]
    assert ("spearman" if labels == "scores" else "ndcg@10") in history[-1]
    assert before["ndcg@10"] < 0.9
    assert evaluate(model, x, None)["ndcg@10"] > 0.95
    model.compile("sgd", losses.ListNetLoss())
    assert np.isfinite(model.fit(x, y and np.array(y), verbose=0).history["loss"]).all()


def test_default_losses():
    def kind(y):
        model = new()
        return type(model.loss_for(model.examples((QUERIES, *PASSAGES), y)))

    assert kind(None) is kind(LABELS) is losses.LambdaLoss
    assert kind(LABELS + 0.5) is kind(-LABELS) is kind(LABELS[:, :2]) is losses.MarginMSELoss


@pytest.mark.parametrize(
    ("columns", "labels", "message"),
    [
        ((QUERIES, *PASSAGES[:2], ["one"]), None, "the columns have 1 and 3 texts"),
        ((QUERIES, *PASSAGES), [[1, 0, 0]], "there are 3 queries, but labels of 1"),
        ((QUERIES, *PASSAGES), [1, 0, 0], "there are 3 passages a query, but 1 labels"),
        ((QUERIES, *PASSAGES), [[1], [1, 0], [0, 1]], "scores must be numbers, as many in each row"),
        ((QUERIES, *PASSAGES), np.full([3, 3], np.nan), "which is not finite"),
    ],
)
def test_mistakes(columns, labels, message):
    model = new()
    for work in (model.examples, model.check_examples):
        with pytest.raises(ValueError, match=message):
            work(columns, labels)


def test_mistakes_of_losses():
    with pytest.raises(ValueError, match="the model was given pairs"):
        losses.ListNetLoss()(LABELS[:, :1], LOGITS[:, :1])
    with pytest.raises(ValueError, match="for 3 passages a query"):
        losses.LambdaLoss()(LABELS[:, :2], LOGITS)
    with pytest.raises(ValueError, match="k is 0"):
        losses.LambdaLoss(0)

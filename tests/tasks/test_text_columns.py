"""Columns of texts: what a sentence encoder learns from, and how it is measured on them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertSentenceEncoder
from keras_bert.answers.similarity import TextVectors
from keras_bert.tasks.losses import sentence_losses as losses
from keras_bert.tasks.sentence import Similarity
from keras_bert.training.batches import hold_out

from ..support import small
from ..support.messages import error_names

pytestmark = pytest.mark.slow

ANCHORS = ["good film", "bad film", "good film", "the bank"]
POSITIVES = ["great movie", "dull movie", "warm story", "river money"]
NEGATIVES = ["dull movie", "great movie", "cold", "good film"]
PROMPTS = {"query": "you ask: ", "passage": "the story: "}


@pytest.fixture(scope="module")
def model():
    return BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor())


def test_each_column_is_embedded_alone(model, untraced):
    columns = (ANCHORS, POSITIVES, NEGATIVES)
    expected = np.stack([model.encode(column) for column in columns], axis=1)
    np.testing.assert_allclose(model(columns), expected, atol=1e-5)
    np.testing.assert_allclose(model(tuple(map(tf.constant, columns))), expected, atol=1e-5)
    np.testing.assert_allclose(model.predict(columns, verbose=0), expected, atol=1e-5)
    packed, _ = model.batch(*model.examples(columns, None)[:2])
    np.testing.assert_allclose(model(packed), expected, atol=1e-5)
    inputs = tuple(keras.Input(shape=(), dtype="string") for _ in columns)
    functional = keras.Model(inputs, model(inputs))
    np.testing.assert_allclose(functional(list(map(tf.constant, columns))), expected, atol=1e-5)


@pytest.mark.parametrize("include_prompt", [True, False])
def test_columns_have_prompts(model, include_prompt, untraced):
    settings = {"prompts": PROMPTS, "column_prompts": ["query", "passage"], "include_prompt": include_prompt}
    prompted = BertSentenceEncoder(model.encoder, model.preprocessor, **settings)
    columns, names = (ANCHORS, POSITIVES, NEGATIVES), ("query", "passage", "passage")
    expected = np.stack([prompted.encode(*each, prompt=name) for *each, name in zip(columns, names, strict=True)], 1)
    np.testing.assert_allclose(prompted(columns), expected, atol=1e-5)
    packed, _ = prompted.batch(*prompted.examples(columns, None)[:2])
    np.testing.assert_allclose(prompted(packed), expected, atol=1e-5)
    np.testing.assert_allclose([row.vectors for row in prompted.answers(columns)], expected, atol=1e-5)
    with error_names(ValueError, "'document'", "query, passage"):
        BertSentenceEncoder(model.encoder, model.preprocessor, prompts=PROMPTS, column_prompts=["document"])


def loss_for(model, examples):
    return model.kind.loss_for(examples.targets, len(examples.segments))


def test_examples(model):
    pairs = model.examples((ANCHORS, POSITIVES), None)
    assert pairs.targets.numpy().tolist() == [[0, 3], [1, 4], [0, 5], [2, 6]]
    assert isinstance(loss_for(model, pairs), losses.MultipleNegativesRankingLoss)
    scored = model.examples((ANCHORS, POSITIVES), [5, 3, 0, 1])
    assert (scored.targets.dtype, scored.targets.numpy().tolist()) == (tf.float32, [5, 3, 0, 1])
    assert isinstance(loss_for(model, scored), losses.CoSENTLoss)
    assert model.examples((["a", "b"], ["b", "c"], ["c", "c"]), None).targets.numpy().tolist() == [[0, 1, 2], [1, 2, 2]]
    lengths = model.examples((["good", "a b c d"], ["good film film", "film"]), None).lengths
    assert lengths.tolist() == [3 + 2, 4 + 2]  # of the longest text of each row, with its two special tokens


def test_numbers_of_a_batch_are_small(model):
    """A loss may hold them as float32, where 2 ** 24 + 1 is 2 ** 24."""
    segments = model.examples((ANCHORS, POSITIVES), None).segments
    large = tf.constant([[2**25, 2**25 + 1], [2**25 + 2, 2**25 + 3], [2**25, 2**25 + 4], [2**25 + 5, 2**25 + 3]])
    packed, numbers = model.batch(segments, large)
    assert len(packed) == 2
    assert numbers.numpy().tolist() == [[0, 1], [2, 3], [0, 4], [5, 3]]


@pytest.mark.parametrize(("x", "y", "words"), [
    (ANCHORS, None, ("x", "tuple of two lists")),
    ((ANCHORS, POSITIVES[1:]), None, ("columns", "3 texts", "4 texts")),
    ((ANCHORS, POSITIVES, NEGATIVES, ANCHORS), [1, 2, 3, 4], ("4 columns", "one score")),
    ((ANCHORS, POSITIVES), [1, 2], ("4 rows", "2 of scores")),
    ((ANCHORS, POSITIVES, NEGATIVES), [[1, 2], [1, 2], [1], [1, 2]], ("scores", "numbers", "each row")),
    ((ANCHORS, POSITIVES), [1, 2, float("nan"), 4], ("score 2", "nan", "finite")),
])  # fmt: skip
def test_examples_that_cannot_be_used_are_refused(model, x, y, words):
    for check in (model.examples, lambda x, y: model.kind.check(model.columns(x), y)):
        with error_names(ValueError, *words):
            check(x, y)


@pytest.mark.parametrize(("columns", "y", "loss"), [
    ((ANCHORS, POSITIVES, NEGATIVES), None, losses.MultipleNegativesRankingLoss()),
    ((ANCHORS, POSITIVES), [5, 3, 0, 1], losses.CoSENTLoss()),
])  # fmt: skip
def test_fit(columns, y, loss):
    model = BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor())
    model.compile(keras.optimizers.Adam(1e-3), loss, run_eagerly=True)
    history = model.fit(columns, y, epochs=2, verbose=0).history["loss"]
    assert history[-1] < history[0]


# -- Measures


def rows(*texts, vectors):
    return [TextVectors(each, np.float32([vectors[text] for text in each])) for each in texts]


def test_a_search_has_all_texts_once_and_all_positives_of_an_anchor():
    vectors = {"a": [1, 0], "b": [0, 1], "p": [1, 0.1], "q": [1, 0.2], "r": [0.1, 1], "n": [1, 0.05]}
    found = Similarity().score(rows(("a", "p"), ("a", "q"), ("b", "r"), vectors=vectors), None).measures
    assert found == {"ndcg@10": 1, "mrr@10": 1, "accuracy@1": 1, "recall@10": 1}
    found = Similarity().score(rows(("a", "p", "n"), ("a", "q", "n"), ("b", "r", "p"), vectors=vectors), None).measures
    assert found["accuracy@1"] == 0.5  # "a" finds "n" first
    assert found["mrr@10"] == 0.75
    assert found["triplet_accuracy"] == pytest.approx(1 / 3)
    found = Similarity().score(rows(("a", "p", "b", "n"), ("b", "r", "a", "q"), vectors=vectors), None).measures
    assert found["triplet_accuracy"] == 0.75  # only "n" is closer to its anchor than the positive is


def test_scores():
    texts = [("a", "p"), ("a", "q"), ("a", "b")]
    vectors = {"a": [1, 0], "b": [0, 1], "p": [1, 0.1], "q": [1, 0.9]}
    found = Similarity().score(rows(*texts, vectors=vectors), [4.5, 3, 1]).measures
    assert list(found) == ["spearman", "pearson"]
    assert found["spearman"] == pytest.approx(1)
    found = Similarity().score(rows(*texts, vectors=vectors), [1, 1, 0]).measures
    assert (found["average_precision"], found["f1"], found["accuracy"]) == (1, 1, 1)


def test_measures_take_the_similarity_of_the_model(model):
    """By cosine, "a" finds "p"; by dot product, the long "n"."""
    vectors = {"a": [1, 0.5], "p": [1, 0.4], "n": [9, 0], "b": [0, 1], "r": [0, 1]}
    texts, pairs = [("a", "p", "n"), ("b", "r", "n")], [("a", "p"), ("a", "n")]
    for similarity, right, labels in (("dot", 0.5, [0, 1]), ("cosine", 1, [1, 0])):
        model.similarity = similarity
        found = model.kind.score(rows(*texts, vectors=vectors), None)
        numbers = found.measures["accuracy@1"], found.measures["triplet_accuracy"], found.details["accuracy@1"]
        assert numbers == (right, right, right), similarity
        found = model.kind.score(rows(*pairs, vectors=vectors), labels)
        assert found.measures["accuracy"] == 1, similarity


def test_scores_of_triplets_and_vectors(model):
    """A better model's margins, and its vectors."""
    columns = (ANCHORS, POSITIVES, NEGATIVES)
    answers = model.answers(columns)
    products = np.stack([each.vectors[1:] @ each.vectors[0] for each in answers])  # [rows, 2]
    assert model.kind.score(answers, products + 3).measures == pytest.approx({"spearman": 1, "pearson": 1})
    margins = products[:, 1] - products[:, 0]
    assert model.kind.score(answers, margins).measures == pytest.approx({"spearman": -1, "pearson": -1})
    vectors = np.stack([each.vectors for each in answers])
    assert model.kind.score(answers, 2 * vectors).measures == pytest.approx({"cosine": 1})
    assert model.kind.score(model.answers(ANCHORS), vectors[:, 0]).measures == pytest.approx({"cosine": 1})
    for x, y, expected in [
        (columns, products, losses.MarginMSELoss),
        (columns, products[:, 0], losses.MarginMSELoss),
        (columns, vectors, losses.VectorMSELoss),
        (columns, vectors[:, 0], losses.VectorMSELoss),
        (ANCHORS, vectors[:, 0], losses.VectorMSELoss),
    ]:
        examples = model.examples(x, y)
        loss = loss_for(model, examples)
        packed, targets = model.batch(*examples[:2])
        assert isinstance(loss, expected)
        assert np.isfinite(float(loss(targets, model(packed))))
    assert float(loss(targets, model(packed))) == pytest.approx(0, abs=1e-10)


def test_a_share_is_held_out():
    train, held = hold_out(((["a", "b", "c", "d"], ["A", "B", "C", "D"], ["1", "2", "3", "4"]), None), 0.25, 0)
    assert train[1] is held[1] is None
    found = sorted([*zip(*train[0], strict=True), *zip(*held[0], strict=True)])
    assert found == [("a", "A", "1"), ("b", "B", "2"), ("c", "C", "3"), ("d", "D", "4")]
    assert len(held[0][0]) == 1

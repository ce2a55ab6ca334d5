"""GradCache: a step by mini-batches comes to what a step on the whole batch comes to."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertEncoder, BertSentenceEncoder
from keras_bert.tasks.losses.sentence_losses import (
    CoSENTLoss,
    MarginMSELoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
    SpladeLoss,
)
from keras_bert.tasks.steps.gradient_cache import Column, _Passes, by_mini_batches
from keras_bert.tasks.steps.training_step import on_labels
from keras_bert.training import fine_tune

from ..support import small
from ..support.messages import error_names
from . import test_multi_vector, test_sparse_training

WORDS = small.WORDS.split()
ANCHORS = [" ".join(WORDS[i : i + 1 + i % 5]) for i in range(7)]
POSITIVES = [" ".join(WORDS[i + 4 : i + 5 + 3 * i % 8]) for i in range(7)]
NEGATIVES = [" ".join(WORDS[20 - i : 24 + i]) for i in range(7)]
MEAN = {**test_multi_vector.OTHER, "token_pooling": None}


def made(hidden_dropout=0.0, attention_dropout=0.0, **text):
    dropout = {"hidden_dropout": hidden_dropout, "attention_dropout": attention_dropout}
    config = dataclasses.replace(small.CONFIG, num_layers=1, **dropout)
    keras.utils.set_random_seed(0)
    encoder = small.shaken(BertEncoder(config), scale=0.1)
    prompts = {"query": "you ask: "}
    return BertSentenceEncoder(encoder, small.preprocessor(**text), prompts=prompts, column_prompts=["query", ""])


def trained(model, mini_batch_size, columns, y, loss, eager=True):
    """The loss of one step of gradient descent, and the weights after it; the seed of dropout is always the same."""
    for each in model.variables:
        if each.name == "seed_generator_state":
            each.assign([1, 0])
    model.compile(keras.optimizers.SGD(0.5), loss, run_eagerly=eager)
    with model.training_with(on_labels if mini_batch_size is None else by_mini_batches(mini_batch_size)):
        found = float(model.train_on_batch(tuple(map(tf.constant, columns)), y))
    return found, [each.numpy() for each in model.trainable_variables]


def spans(**settings):
    """Vectors of windows, which overlap."""
    return made(sequence_length=6, stride=3, **settings)


RANKING, ZEROS = MultipleNegativesRankingLoss(), np.zeros(7)
SCORES = np.random.default_rng(0).normal(size=(7, 2))
SPLADE = SpladeLoss(MultipleNegativesRankingLoss(1.0, normalize=False), 0.1, 0.1)
PAIRS, TRIPLETS = (ANCHORS, POSITIVES), (ANCHORS, POSITIVES, NEGATIVES)
EXAMPLES = {
    "pairs": (made, {}, 3, PAIRS, np.arange(14).reshape(7, 2), RANKING),
    "windows": (spans, {}, 3, PAIRS, np.arange(14).reshape(7, 2), RANKING),
    "cut": (made, {}, 3, TRIPLETS, ZEROS, MatryoshkaLoss(RANKING, [32, 8])),
    "scores": (made, {}, 1, PAIRS, np.linspace(0, 1, 7), CoSENTLoss()),
    "weights of tokens": (test_sparse_training.new, {}, 3, PAIRS, ZEROS, SPLADE),
    "a table for queries": (test_sparse_training.new, {"query_table": True}, 3, PAIRS, ZEROS, SPLADE),
    "vectors of tokens": (test_multi_vector.new, test_multi_vector.CLASSIC, 3, TRIPLETS, ZEROS, RANKING),
    "margins": (test_multi_vector.new, MEAN, 3, TRIPLETS, SCORES, MarginMSELoss()),
}


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_step_of_the_whole_batch(example):
    make, settings, mini_batch_size, *batch = EXAMPLES[example]
    before = [each.numpy() for each in make(**settings).trainable_variables]
    whole, expected = trained(make(**settings), None, *batch)
    cached, found = trained(make(**settings), mini_batch_size, *batch, eager=example not in ("pairs", "windows"))
    assert cached == pytest.approx(whole, rel=1e-5)
    steps = []
    for got, want, first in zip(found, expected, before, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5)
        steps.append(np.abs(want - first).max())
    assert max(steps) > 0.01
    if make is spans:  # windows matter
        assert whole != pytest.approx(trained(made(), None, *batch)[0], rel=1e-6)


def test_both_passes_draw_the_same_dropout():
    """Eagerly, a tape around the first pass alone gives the gradients that the second pass must give."""
    model = made(hidden_dropout=0.3, attention_dropout=0.3)
    columns = [
        Column(model.preprocessor(texts), lambda inputs: model._encode_packed(inputs, 0, training=True), (32,))
        for texts in (ANCHORS, POSITIVES)
    ]
    passes = _Passes(model, columns, 3)
    with tf.GradientTape() as tape:
        vectors = passes.vectors()
        loss = MultipleNegativesRankingLoss()(np.zeros(7), vectors)
    cache, *expected = tape.gradient(loss, [vectors, *model.trainable_variables])
    found = passes.gradients(cache)
    assert any(each is None for each in expected) == any(each is None for each in found)
    for got, want in zip(found, expected, strict=True):
        if want is not None:
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
    # Another step draws anew, and the mini-batches of a step differ from each other.
    assert np.abs(_Passes(model, columns, 3).vectors() - vectors).max() > 0.01
    twice = [columns[0]._replace(packed={name: tf.repeat(each[:1], 2, 0) for name, each in columns[0].packed.items()})]
    one, other = _Passes(model, twice, 1).vectors()
    assert np.abs(one - other).max() > 0.01


def test_mini_batches_that_cannot_be_are_refused():
    model = BertClassifier(small.encoder(num_layers=1), small.preprocessor(), ["good", "bad"])
    for size, names in ((3, ["BertClassifier"]), (0, ["0", "1 or more"])):
        with error_names(ValueError, "mini_batch_size", *names):
            fine_tune(model, (["a", "b"], ["good", "bad"]), mini_batch_size=size)

"""GradCache: a step by mini-batches comes to what a step on the whole batch comes to."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertEncoder, BertSentenceEncoder
from keras_bert.tasks.losses.sentence_losses import CoSENTLoss, MatryoshkaLoss, MultipleNegativesRankingLoss
from keras_bert.tasks.steps.gradient_cache import Column, _Passes, by_mini_batches
from keras_bert.tasks.steps.training_step import on_labels
from keras_bert.training import fine_tune

from ..support import small
from ..support.messages import error_names

WORDS = small.WORDS.split()
ANCHORS = [" ".join(WORDS[i : i + 1 + i % 5]) for i in range(7)]
POSITIVES = [" ".join(WORDS[i + 4 : i + 5 + 3 * i % 8]) for i in range(7)]
NEGATIVES = [" ".join(WORDS[20 - i : 24 + i]) for i in range(7)]


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


EXAMPLES = {
    "pairs": ((ANCHORS, POSITIVES), np.arange(14).reshape(7, 2), MultipleNegativesRankingLoss()),
    "cut": ((ANCHORS, POSITIVES, NEGATIVES), np.zeros(7), MatryoshkaLoss(MultipleNegativesRankingLoss(), [32, 8])),
    "scores": ((ANCHORS, POSITIVES), np.linspace(0, 1, 7), CoSENTLoss()),
}


@pytest.mark.slow
@pytest.mark.parametrize(("example", "mini_batch_size", "text"), [
    ("pairs", 3, {}),
    ("cut", 3, {}),
    ("scores", 1, {}),
    ("pairs", 3, {"sequence_length": 6, "stride": 3}),
])  # fmt: skip
def test_the_step_of_the_whole_batch(example, mini_batch_size, text):
    before = [each.numpy() for each in made(**text).trainable_variables]
    whole, expected = trained(made(**text), None, *EXAMPLES[example])
    cached, found = trained(made(**text), mini_batch_size, *EXAMPLES[example], eager=example != "pairs")
    assert cached == pytest.approx(whole, rel=1e-6)
    steps = []
    for got, want, first in zip(found, expected, before, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
        steps.append(np.abs(want - first).max())
    assert max(steps) > 0.01
    if text:  # windows matter
        assert whole != pytest.approx(trained(made(), None, *EXAMPLES[example])[0], rel=1e-6)


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

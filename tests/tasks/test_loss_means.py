"""The loss of several batches is that of one large batch: in an evaluation, in an epoch, and in an update."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertMaskedLM, BertReranker, BertTokenClassifier
from keras_bert.pretraining import BertPretrainer
from keras_bert.tasks.losses.ranking_losses import LambdaLoss
from keras_bert.tasks.steps.replicas import build_optimizer
from keras_bert.tasks.steps.training_step import AccumulatedBatch, shares_of_update
from keras_bert.training import LAMB, AdamW, Replicated

from ..support import small
from ..support.small import preprocessor

# Rows with very different numbers of words, and of masked tokens.
COUNTS = np.array([1, 2, 9, 12])
LENGTH = 12
GENERATOR = np.random.default_rng(0)
MASK = np.int32(np.arange(LENGTH) < COUNTS[:, None])
PACKED = {
    "input_word_ids": MASK * GENERATOR.integers(5, small.CONFIG.vocab_size, MASK.shape, np.int32),
    "input_mask": MASK,
    "input_type_ids": 0 * MASK,
}
TAGS = np.where(MASK > 0, GENERATOR.integers(0, 2, MASK.shape), -1)
POSITIONS = {**PACKED, "masked_lm_positions": np.tile(np.arange(LENGTH, dtype=np.int32), (4, 1))}
TOKENS = GENERATOR.integers(5, small.CONFIG.vocab_size, MASK.shape)
LABELS = np.array([[3.0, 0.0, 0.0], [1.0, 1.0, 0.0], [2.0, 1.0, 0.0], [1.0, 1.0, 1.0]])  # 2, 2, 3 and 0 pairs


def tagger():
    return BertTokenClassifier(small.encoder(num_layers=1), preprocessor(), ["O", "B-x"])


def pretrainer(pairs=True):
    return BertPretrainer(small.encoder(num_layers=1), preprocessor(), pairs)


# Of each: a model, its loss (None: its own), its inputs, targets and weights.
TASKS = {
    "words": (tagger, None, PACKED, TAGS, None),
    "masked tokens": (lambda: BertMaskedLM(small.encoder(num_layers=1)), None, POSITIONS, TOKENS, np.float32(MASK)),
    "both objectives": (
        pretrainer, None, POSITIONS, {"masked_lm": TOKENS, "next_sentence": np.array([0, 1, 1, 0])},
        {"masked_lm": np.float32(MASK), "next_sentence": np.ones(4, np.float32)},
    ),
    "one objective": (
        lambda: pretrainer(False), None, POSITIONS, {"masked_lm": TOKENS}, {"masked_lm": np.float32(MASK)},
    ),
    "pairs of passages": (
        lambda: BertReranker(small.encoder(num_layers=1), preprocessor()), LambdaLoss(),
        # No passage stands twice under a query: of two copies, rounding would decide which is first.
        {name: np.stack([each, each[::-1], np.roll(each, 2, 0)], axis=1) for name, each in PACKED.items()},
        LABELS, None,
    ),
}  # fmt: skip


def rows(value, chosen):
    return keras.tree.map_structure(lambda each: None if each is None else each[chosen], value)


def compiled(make, loss, optimizer="sgd", **settings):
    model = make()
    model.compile(optimizer, loss or model.training_loss(), **settings)
    return model


@pytest.mark.parametrize("name", TASKS)
def test_an_evaluation_does_not_depend_on_the_size_of_its_batches(name):
    make, loss, *data = TASKS[name]
    model = compiled(make, loss, run_eagerly=True)
    data = tuple(data[:2] if data[2] is None else data)
    whole, parts = (
        model.evaluate(tf.data.Dataset.from_tensor_slices(data).batch(size), verbose=0, return_dict=True)
        for size in (4, 2)
    )
    names = {"loss", "masked_lm_loss", "next_sentence_loss"} if name == "both objectives" else {"loss"}
    assert whole.keys() == parts.keys() == names
    for measure in whole:
        assert parts[measure] == pytest.approx(whole[measure], rel=1e-5)
    # As Keras computes it for one batch.
    x, y, weights = (*data, None)[:3]
    assert whole["loss"] == pytest.approx(float(model.compute_loss(x, y, model(x), weights)), rel=1e-5)


def shares_of(model, batches):
    """The shares of all batches of an update, `[batches, units]`."""
    if not isinstance(model.loss, dict):
        return np.array(shares_of_update(model.loss, batches))[:, None]
    terms = [model.label_terms(x, y, model(x), weights) for x, y, weights in batches]
    counts = np.array([[float(term.count) for term in each] for each in terms])
    return counts / counts.sum(axis=0)


def update(make, loss, optimizer, windows, data, size=1):
    """The change of the weights by batches, each of the rows in a list; `size` of them make an update."""
    model = compiled(make, loss, optimizer, run_eagerly=True)
    build_optimizer(model)
    before = model.get_weights()
    batches = [tuple(rows(each, chosen) for each in data) for chosen in windows]
    for first in range(0, len(batches), size):
        parts = batches[first : first + size]
        for batch, shares in zip(parts, shares_of(model, parts), strict=True):
            model.train_step(AccumulatedBatch(batch, np.float32([shares])) if size > 1 else batch)
    return [after - was for after, was in zip(model.get_weights(), before, strict=True)]


def assert_same_update(found, expected, atol=2e-6):
    assert max(np.abs(each).max() for each in expected) > 1e-3
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=atol, rtol=1e-5)


UNEQUAL, WHOLE = [[0], [1, 2], [3]], [[0, 1, 2, 3]]


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_accumulated_batches_make_the_update_of_the_large_batch(name):
    make, loss, *data = TASKS[name]
    large = update(make, loss, keras.optimizers.SGD(1.0), WHOLE, data)
    accumulating = keras.optimizers.SGD(1.0, gradient_accumulation_steps=3)
    assert_same_update(update(make, loss, accumulating, UNEQUAL, data, 3), large)
    if name == "words":  # as in mixed_float16, whose optimizer wraps another
        scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0, gradient_accumulation_steps=3))
        assert_same_update(update(make, loss, scaled, UNEQUAL, data, 3), large)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [AdamW, LAMB])
def test_any_optimizer_accumulates_so_and_begins_a_new_window_after_each(kind):
    make, loss, *data = TASKS["words"]
    settings = {"epsilon": 1e-3, "global_clipnorm": 0.1}  # smaller gradients are but rounding
    large = update(make, loss, kind(1e-2, **settings), [[0, 1, 2], [1, 3]], data)
    accumulating = kind(1e-2, gradient_accumulation_steps=2, **settings)
    assert_same_update(update(make, loss, accumulating, [[0], [1, 2], [3], [1]], data, 2), large)


def test_a_loss_that_is_a_sum_is_summed():
    make, _, *data = TASKS["words"]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1, reduction="sum")
    large = update(make, loss, keras.optimizers.SGD(0.1), WHOLE, data)
    accumulating = keras.optimizers.SGD(0.1, gradient_accumulation_steps=3)
    assert_same_update(update(make, loss, accumulating, UNEQUAL, data, 3), large, atol=1e-5)


def test_a_subclass_may_have_a_loss_of_its_own():
    class Doubled(BertClassifier):
        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            return 2 * super().compute_loss(x, y, y_pred, sample_weight, training)

    losses = []
    for kind in (BertClassifier, Doubled):
        model = small.task(kind, ["a", "b"], config={"num_layers": 1})
        model.compile("sgd", model.training_loss(), run_eagerly=True)
        losses.append([model.evaluate(PACKED, TAGS[:, 0], verbose=0), model.train_on_batch(PACKED, TAGS[:, 0])])
    np.testing.assert_allclose(losses[1], 2 * np.array(losses[0]), rtol=1e-5)


def test_metrics_of_words_leave_other_tokens_out():
    model = compiled(tagger, None, metrics=["accuracy"], weighted_metrics=["accuracy"], run_eagerly=True)
    right = np.argmax(model(PACKED), axis=-1) == TAGS
    weights = np.where(np.arange(LENGTH) < 2, 1.0, 3.0) * np.ones_like(TAGS)
    found = model.evaluate(PACKED, TAGS, batch_size=3, sample_weight=weights, verbose=0, return_dict=True)
    assert found["accuracy"] == pytest.approx(right[TAGS >= 0].mean())
    of_words = weights * (TAGS >= 0)
    assert found["weighted_accuracy"] == pytest.approx((right * of_words).sum() / of_words.sum())


class OwnStep(Replicated, keras.Model):
    def train_step(self, data):
        x, y = data
        loss = self.compute_loss(x, y, self(x))
        self._loss_tracker.update_state(loss)
        return {"loss": self._loss_tracker.result()}


def test_a_step_of_the_users_may_give_the_loss_alone():
    inputs = keras.Input([1])
    model = OwnStep(inputs, keras.layers.Dense(1, kernel_initializer="ones")(inputs))
    model.compile("sgd", "mse")
    x = np.arange(8.0)[:, None]
    assert model.fit(x, 0 * x, batch_size=4, shuffle=False, verbose=0).history["loss"] == [np.mean(x**2)]

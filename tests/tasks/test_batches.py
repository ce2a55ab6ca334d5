"""`fit`, `evaluate` and `predict` on arrays: Keras's batches and results, by datasets that no thread tunes."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier
from keras_bert.tasks.batching import array_batches

from ..support import small
from ..support.messages import error_names

TEXTS = [*small.TEXTS, "one two", "good", "bad music", "she loved it", "dull"]
LABELS = ["good", "bad"]
Y = [LABELS[number % 2] for number in range(len(TEXTS))]


def model():
    made = small.task(BertClassifier, labels=LABELS, config={"num_layers": 1})
    made.compile(keras.optimizers.SGD(0.1), made.training_loss(), weighted_metrics=["accuracy"], run_eagerly=True)
    return made


def as_keras_does(method, made, x, y, **settings):
    """The same call of Keras's own method, with tensors, whose batches Keras makes."""
    arrays = tf.constant(x), made.targets(y)
    return getattr(keras.Model, method)(made, *arrays[: 2 if y is not None else 1], verbose=0, **settings)


@pytest.mark.parametrize("settings", [
    {"epochs": 2, "batch_size": 4, "validation_split": 0.3},
    {"batch_size": 4, "validation_split": 0.3, "validation_batch_size": 2},
    {"batch_size": 3, "sample_weight": np.linspace(0.5, 2, len(TEXTS))},
], ids=" ".join)  # fmt: skip
def test_fit_gives_the_weights_and_losses_that_keras_gives(settings):
    ours, theirs = model(), model()
    found = ours.fit(TEXTS, Y, shuffle=False, verbose=0, **settings).history
    expected = as_keras_does("fit", theirs, TEXTS, Y, shuffle=False, **settings).history
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, err_msg=name)
    for one, other in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_evaluate_and_predict_give_what_keras_gives():
    made = model()
    weights = np.linspace(0.5, 2, len(TEXTS))
    found = made.evaluate(TEXTS, Y, batch_size=3, sample_weight=weights, verbose=0)
    assert found == pytest.approx(as_keras_does("evaluate", made, TEXTS, Y, batch_size=3, sample_weight=weights))
    logits = made.predict(TEXTS, batch_size=3, verbose=0)
    np.testing.assert_allclose(logits, as_keras_does("predict", made, TEXTS, None, batch_size=3), atol=1e-6)


@pytest.fixture
def given(monkeypatch):
    """The arguments that Keras's own methods get, which then do nothing."""
    calls = []
    for method in ("fit", "evaluate", "predict"):

        @functools.wraps(getattr(keras.Model, method))
        def record(self, **arguments):
            calls.append(arguments)

        monkeypatch.setattr(keras.Model, method, record)
    return calls


def test_no_thread_tunes_the_datasets(given):
    made = model()
    made.fit(TEXTS, Y, validation_data=(TEXTS, Y))
    made.fit(TEXTS, Y, validation_split=0.3)
    made.evaluate(TEXTS, Y)
    made.predict(TEXTS)
    datasets = [each[name] for each in given for name in ("x", "validation_data") if name in each]
    assert len(datasets) == 6
    assert [each.options().autotune.enabled for each in datasets] == [False] * 6


def test_datasets_and_arrays_with_steps_stay_as_they_are(given):
    made = model()
    dataset = tf.data.Dataset.from_tensor_slices((tf.constant(TEXTS), made.targets(Y))).batch(2)
    made.fit(dataset)
    made.fit(TEXTS, Y, steps_per_epoch=2)
    assert given[0]["x"] is dataset
    assert given[1]["x"].shape == (len(TEXTS),)


@pytest.mark.parametrize(("batch_size", "size"), [(5, 5), (20, 20), (8, None), (32, None)])
def test_the_shapes_have_the_size_of_full_batches_as_keras_has_it(batch_size, size):
    dataset = array_batches((np.zeros((20, 3)),), batch_size, shuffle=False)
    assert dataset.element_spec[0].shape.as_list() == [size, 3]


def test_a_share_that_leaves_nothing_to_train_on_is_refused_by_keras():
    with error_names(ValueError, "split", "0.99"):
        model().fit(TEXTS[:2], Y[:2], validation_split=0.99, verbose=0)


def test_each_pass_has_another_order_and_every_row_once():
    keras.utils.set_random_seed(0)
    ragged = tf.ragged.range(tf.range(20))
    dataset = array_batches(({"row": np.arange(20), "pair": (np.arange(20), ragged)},), 8, shuffle=True)
    passes = [[batch[0] for batch in dataset] for _ in range(2)]
    orders = [np.concatenate([batch["row"] for batch in each]).tolist() for each in passes]
    assert orders[0] != orders[1]
    for order, batches in zip(orders, passes, strict=True):
        assert sorted(order) == list(range(20))
        assert [len(batch["row"]) for batch in batches] == [8, 8, 4]
        for batch in batches:
            number, of_row = batch["pair"]
            assert number.numpy().tolist() == of_row.row_lengths().numpy().tolist() == batch["row"].numpy().tolist()

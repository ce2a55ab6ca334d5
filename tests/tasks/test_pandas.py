"""Columns of a table, whose index begins anywhere, and arrays of NumPy: the tasks take them as they take lists."""

import functools

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertQuestionAnswerer, BertTokenClassifier
from keras_bert.tasks.classifier_losses import MultiLabel, Regression
from keras_bert.training import evaluate, fine_tune

from ..support import small

TEXTS = ["the film", "good", "plot good good", "film"]
ANSWERS = [[("film", 4)], [("good", 0)], [("plot", 0)], [("film", 0)]]
LABELS = {"labels": ["a", "b"]}
TASKS = {
    "classes": (BertClassifier, LABELS, TEXTS, ["a", "b", "b", "a"]),
    "numbers of classes": (BertClassifier, LABELS, TEXTS, [0, 1, 1, 0]),
    "pairs": (BertClassifier, LABELS | {"pairs": True}, (TEXTS, TEXTS[::-1]), ["a", "b", "b", "a"]),
    "several labels": (
        BertClassifier, LABELS | {"problem_type": MultiLabel.NAME}, TEXTS, [["a"], [], ["a", "b"], ["b"]],
    ),
    "numbers": (BertClassifier, {"labels": ["a"], "problem_type": Regression.NAME}, TEXTS, [0.5, 1.0, 2.0, 1.5]),
    "words": (
        BertTokenClassifier, {"labels": ["O", "B-x"]},
        [text.split() for text in TEXTS], [["O", "B-x"], ["O"], ["B-x", "O", "O"], ["B-x"]],
    ),
    "questions": (BertQuestionAnswerer, {}, (["film", "good", "plot", "bank"], TEXTS), ANSWERS),
}  # fmt: skip


@pytest.fixture(scope="module")
def encoder():
    return small.encoder(num_layers=1)


def new(kind, settings, encoder):
    keras.utils.set_random_seed(0)
    text = {"stride": 5} if kind is BertQuestionAnswerer else {}
    return kind(encoder, small.preprocessor(**text), **settings)


def column(values):
    """As a split of a shuffled table has them."""
    if isinstance(values, tuple):
        return tuple(column(each) for each in values)
    return pd.Series(values, index=np.arange(7, 7 + len(values))[::-1])


def tensors(given):
    """The arrays and tensors of a structure, in order, each as a list."""
    return [np.asarray(each).tolist() for each in tf.nest.flatten(given, expand_composites=True)]


@pytest.mark.parametrize("task", TASKS)
def test_columns_are_lists(encoder, task, monkeypatch):
    """Whatever goes on to Keras, or to training, is the same."""
    kind, settings, x, y = TASKS[task]
    model, given = new(kind, settings, encoder), []
    for name in ("fit", "evaluate", "predict"):

        @functools.wraps(getattr(keras.Model, name))
        def record(self, *args, **kwargs):
            given.append((args, kwargs))

        monkeypatch.setattr(keras.Model, name, record)
    got = []
    for examples in ((x, y), (column(x), column(y))):
        model.fit(*examples, validation_data=examples)
        model.evaluate(*examples)
        model.predict(examples[0])
        got.append((tensors(given), tensors(tuple(model.examples(*examples)))))
        given.clear()
    assert got[0] == got[1]
    assert len(got[0][0]) > 6


@pytest.mark.slow
@pytest.mark.parametrize("task", ["several labels", "words", "questions"])
def test_measures_of_columns(encoder, task):
    kind, settings, x, y = TASKS[task]
    model = new(kind, settings, encoder)
    assert evaluate(model, column(x), column(y)) == evaluate(model, x, y)


@pytest.mark.slow
def test_training_with_columns():
    kind, settings, x, y = TASKS["pairs"]
    histories = []
    for examples in ((x, y), (column(x), column(y))):
        model = new(kind, settings, small.encoder(num_layers=1))
        histories.append(fine_tune(model, examples, examples, epochs=1, batch_size=2, seed=1, progress=False))
    np.testing.assert_equal(*histories)


def test_a_table_of_labels(encoder):
    kind, settings, _, named = TASKS["several labels"]
    table = pd.DataFrame({"a": [1.0, 0, 1, 0], "b": [0.0, 0, 1, 1]}, index=[9, 8, 7, 6])
    model = new(kind, settings, encoder)
    np.testing.assert_array_equal(model.targets(table), model.targets(named))


def test_arrays_of_numpy_are_lists(encoder):
    kind, settings, x, y = TASKS["classes"]
    model = new(kind, settings, encoder)
    assert tensors(model.arrays(np.array(x), np.array(y))) == tensors(model.arrays(x, y))

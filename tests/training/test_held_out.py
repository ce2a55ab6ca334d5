"""Examples held out: which, of every kind of examples, and what fine_tune does with them."""

import keras
import numpy as np
import pandas as pd
import tensorflow as tf

from keras_bert.training import fine_tune, report
from keras_bert.training.batches import hold_out
from keras_bert.training.fine_tune import checked_examples
from keras_bert.training.run import RunError

from ..support.messages import error_names
from ..support.reviews import SETTINGS, classifier, examples


def test_each_example_is_on_one_side_with_its_label():
    x, y = [f"text {i}" for i in range(50)], list(range(50))
    train, held = hold_out((x, y), 0.1, seed=3)
    assert (len(train[1]), len(held[1])) == (45, 5)
    assert sorted(train[1] + held[1]) == y
    for texts, labels in (train, held):
        assert labels == sorted(labels)
        assert texts == [x[i] for i in labels]
    assert hold_out((x, y), 0.1, seed=3) == (train, held)
    assert hold_out((x, y), 0.1, seed=4) != (train, held)


def test_pairs_arrays_and_columns():
    rows = np.arange(8)
    frame = pd.DataFrame({"a": [f"a{i}" for i in rows], "b": [f"b{i}" for i in rows]}, index=rows + 100)
    train, held = hold_out(((list(frame.a), list(frame.b)), rows), 0.5, seed=0)
    for (firsts, seconds), labels in (train, held):
        assert (firsts, seconds) == ([f"a{i}" for i in labels], [f"b{i}" for i in labels])
    model = classifier(pairs=True)
    for given in (pd.Series(rows, index=frame.index), tuple(rows)):
        examples = checked_examples("train", ((frame.a, frame.b), given), model)
        ((firsts, _), labels), _ = hold_out(examples, 0.5, seed=0)
        assert (firsts, list(labels)) == (train[0][0], list(train[1]))
    (texts, labels), _ = hold_out((tf.constant(frame.a), tf.constant(rows)), 0.5, seed=0)
    assert ([text.decode() for text in texts.numpy()], list(labels.numpy())) == (train[0][0], list(train[1]))


def test_fine_tune_measures_with_what_it_does_not_train_on(tmp_path, monkeypatch, untraced):
    """The run remembers the share."""
    x, y = [f"{text} {i}" for i, text in enumerate(examples()[0])], examples()[1]
    model, seen = classifier(), []
    monkeypatch.setattr(report, "evaluate", lambda _, x, y, progress: seen.append((x, y)) or {"accuracy": 0.5})
    learned = model.examples
    monkeypatch.setattr(model, "examples", lambda *train: seen.append(train) or learned(*train))
    run = {**SETTINGS, "epochs": 1, "directory": tmp_path, "seed": 5}
    (epoch,) = fine_tune(model, (x, y), validation_split=0.25, **run)
    assert seen == list(hold_out((x, y), 0.25, seed=5))
    assert epoch["val_accuracy"] == 0.5
    keras.utils.set_random_seed(9)  # has no part in it
    assert fine_tune(model, (x, y), validation_split=0.25, **run) == [epoch]
    with error_names(RunError, tmp_path, "finished", "validation_split", 0.25, 0.5):
        fine_tune(model, (x, y), validation_split=0.5, **run)

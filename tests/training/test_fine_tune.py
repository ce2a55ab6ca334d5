"""fine_tune beside what test_resuming.py says of it: class weights, budgets of tokens, long texts, best epochs."""

import re
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertTokenClassifier
from keras_bert.training import evaluate, fine_tune

from .long_run import examples, model


def test_the_best_epoch_is_kept():
    """Measured with the labels exchanged, the model gets worse while it learns."""
    learner = model()
    x, y = examples()
    wrong = ["number" if label == "colour" else "colour" for label in y]
    history = fine_tune(learner, (x, y), (x, wrong), epochs=8, batch_size=4, learning_rate=1e-2, progress=False)
    accuracies = [epoch["accuracy"] for epoch in history]
    assert accuracies[-1] < 0.3 < max(accuracies)
    assert evaluate(learner, x, wrong)["accuracy"] == max(accuracies)


def test_nothing_is_tuned_while_it_trains(monkeypatch):
    """Or the end of an epoch may wait for the thread that tunes."""
    tuned, fit = [], keras.Model.fit

    def watched(self, dataset, **settings):
        tuned.append(dataset.options().autotune.enabled)
        return fit(self, dataset, **settings)

    monkeypatch.setattr(keras.Model, "fit", watched)
    fine_tune(model(), examples(), epochs=1, batch_size=8, progress=False)
    assert tuned == [False]


def test_class_weights():
    """A class that counts for nothing is never learned."""
    learner = model()
    x, y = examples()
    settings = {"epochs": 6, "batch_size": 8, "learning_rate": 1e-2, "progress": False}
    fine_tune(learner, (x, y), class_weight={"colour": 0.0}, **settings)
    assert {answer["label"] for answer in learner.classify(x)} == {"number"}
    with pytest.raises(ValueError, match="class_weight of colour is -1.0"):
        fine_tune(learner, (x, y), class_weight={"colour": -1.0}, **settings)
    with pytest.raises(ValueError, match="class_weight names odd, but the labels are number, colour"):
        fine_tune(learner, (x, y), class_weight={"odd": 1.0}, **settings)
    numbers = BertClassifier(learner.encoder, learner.preprocessor, ["colour"], problem_type="regression")
    with pytest.raises(ValueError, match="class_weight is for a BertClassifier that gives each text one class"):
        fine_tune(numbers, (x, [1.0] * len(x)), class_weight={"colour": 2.0}, **settings)
    tagger = BertTokenClassifier(learner.encoder, learner.preprocessor, ["a", "b"])
    with pytest.raises(ValueError, match="class_weight is for a BertClassifier that gives each text one class"):
        fine_tune(tagger, ([["one"]], [["a"]]), class_weight={"a": 1.0}, **settings)


def test_a_budget_of_tokens_and_accumulated_gradients():
    x, y = examples()
    x = x * 3
    history = []
    for settings in ({"batch_tokens": 64}, {"batch_size": 4, "accumulate": 4}):
        learner = model()
        keras.utils.set_random_seed(1)
        epochs = fine_tune(learner, (x, y * 3), epochs=6, learning_rate=1e-2, progress=False, **settings)
        assert epochs[-1]["loss"] < epochs[0]["loss"]
        history.append(epochs)
    assert int(learner.optimizer.iterations) == 6 * 30 // 4
    assert history[0] != history[1]


def test_nothing_to_train_on():
    with pytest.raises(ValueError, match="there are no examples"):
        fine_tune(model(), ([], []))
    with pytest.raises(ValueError, match="there are 2 texts, but 1 labels"):
        fine_tune(model(), (["one", "two"], ["number"]))
    with pytest.raises(TypeError, match="train is a .*Dataset; expected a tuple of two, .* for the model's fit"):
        fine_tune(model(), tf.data.Dataset.from_tensor_slices(examples()))
    with pytest.raises(TypeError, match="validation is a tuple; expected a tuple of two"):
        fine_tune(model(), examples(), (["one"],))
    with pytest.raises(ValueError, match="give one of the two"):
        fine_tune(model(), examples(), batch_size=2, batch_tokens=64)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs is 0; expected 1 or more"),
        ({"batch_size": 0}, "batch_size is 0; expected 1 or more"),
        ({"patience": 0}, "patience is 0; expected 1 or more"),
        ({"accumulate": 0}, "accumulate is 0; expected 1 or more"),
        ({"accumulate": 99}, "accumulate is 99, but there are 10 batches in all: no update would be made"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0; expected a number above 0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan; expected a number above 0"),
        ({"clip_norm": -1}, "clip_norm is -1; expected a number above 0"),
        ({"layer_decay": 0}, "layer_decay is 0; expected a number above 0"),
        ({"weight_decay": -0.1}, "weight_decay is -0.1; expected 0 or more"),
        ({"seed": -1}, "seed is -1; expected 0 or more"),
        ({"warmup": -0.1}, "warmup is -0.1; expected a share, 0 to 1"),
        ({"warmup": 10}, "warmup is 10; expected a share, 0 to 1"),
    ],
)
def test_numbers_with_which_nothing_can_be_trained(settings, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        fine_tune(model(), examples(), progress=False, **{"epochs": 1, "batch_size": 4, **settings})


def test_a_loss_that_is_no_number_ends_the_run(tmp_path):
    """At once, and nothing of it is written over the last good state."""
    run = {"epochs": 2, "batch_size": 4, "directory": tmp_path, "progress": False, "checkpoint_seconds": 0}
    learner = model()

    class Ruin(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 4:
                learner.head.set_weights([np.full_like(each, np.nan) for each in learner.head.get_weights()])

    with pytest.raises(ValueError, match="the loss is nan after batch 6 of epoch 1.* a lower learning_rate"):
        fine_tune(learner, examples(), callbacks=[Ruin()], **run)
    assert np.isfinite(fine_tune(model(), examples(), **run)[-1]["loss"])  # it goes on


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ((["one", "red"], ["number", "odd"]), "'odd' is not one of the labels"),
        ((["one", "red"], ["number"]), "there are 2 examples to evaluate with, but labels of 1"),
    ],
)
def test_validation_that_cannot_be_is_found_before_training(validation, message):
    learner = model()
    before = learner.get_weights()
    with pytest.raises(ValueError, match=message):
        fine_tune(learner, examples(), validation, epochs=1, progress=False)
    np.testing.assert_equal(learner.get_weights(), before)


def test_labels_may_be_numbers():
    x, y = examples()
    numbers = np.array([["number", "colour"].index(label) for label in y])
    histories = [fine_tune(model(), (x, each), epochs=1, batch_size=8, progress=False) for each in (y, numbers)]
    assert histories[0] == histories[1]


def test_what_is_cut_is_counted():
    settings = {"epochs": 1, "batch_size": 2, "progress": False}
    x, y = ["one " * 30, "red", "two " * 15, "blue " * 14], ["number", "colour", "number", "colour"]
    with pytest.warns(
        UserWarning, match="2 of 4 examples have more than 16 pieces, and are cut; with long_text='windows'"
    ):
        fine_tune(model(), (x, y), **settings)
    learner = model()
    learner.preprocessor.stride = 8
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert len(fine_tune(learner, (x, y), **settings)) == 1

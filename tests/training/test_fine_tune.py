"""fine_tune beside what test_resuming.py says of it: what it heeds, which epoch it keeps, what it refuses."""

import csv
import warnings

import keras
import numpy as np
import pytest
from scipy.special import log_softmax

from keras_bert import BertClassifier, BertTokenClassifier, undocumented
from keras_bert.training import fine_tune
from keras_bert.training.batches import batches_of_epoch
from keras_bert.training.loop import TensorBoardLog
from keras_bert.training.run import Run, RunError

from ..support import small
from ..support.disks import files_of_at_most
from ..support.messages import assert_names, error_names
from ..support.reviews import LABELS, SETTINGS, classifier, examples

pytestmark = pytest.mark.usefixtures("untraced_module")


@pytest.fixture(scope="module")
def untrained():
    """A model for runs that are refused."""
    return classifier()


@pytest.mark.slow
def test_the_best_epoch_is_kept_and_classes_have_weights(tmp_path, monkeypatch):
    """Where measures get better once; and a run that ended early goes on with nothing.

    A class that counts for nothing is never learned. Labels may be numbers.
    """
    accuracies, after, tuned, epoch_datasets = [0.2, 0.7, 0.3, 0.6, 0.5], [], [], undocumented.epoch_datasets
    measured = iter([{"accuracy": each} for each in accuracies])
    monkeypatch.setattr("keras_bert.training.report.evaluate", lambda *_: next(measured))

    def watched(model, make_dataset):
        # Or the end of an epoch may wait for the thread that tunes.
        tuned.append(make_dataset().options().autotune.enabled)
        return epoch_datasets(model, make_dataset)

    monkeypatch.setattr(undocumented, "epoch_datasets", watched)
    learner = classifier()
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: after.append(learner.get_weights()))
    run = {**SETTINGS, "epochs": 5, "patience": 2, "directory": tmp_path}
    run |= {"learning_rate": 0.1, "class_weight": {"bad": 0.0}}
    x, y = examples()
    numbered = x, np.array([LABELS.index(label) for label in y])
    history = fine_tune(learner, numbered, (x, y), callbacks=[note], **run)
    assert [epoch["val_accuracy"] for epoch in history] == accuracies[:4]
    assert set(tuned) == {False}
    assert all(np.any(a != b) for a, b in zip(after[1], after[3], strict=True) if a.shape == (2,))
    np.testing.assert_equal(learner.get_weights(), after[1])
    assert {LABELS[i] for i in np.argmax(learner(x), axis=-1)} == {"good"}
    assert fine_tune(learner, numbered, (x, y), **run) == history


def tuned_with(*callbacks, directory=None, **settings):
    """The history of three epochs of two batches, whose measure never changes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("keras_bert.training.report.evaluate", lambda *_: {"accuracy": 0.5})
        settings = {**SETTINGS, "epochs": 3, "warmup": 0.0, **settings}
        return fine_tune(classifier(), examples(8), examples(2), directory, callbacks=callbacks, **settings)


class Watch(keras.callbacks.Callback):
    """Notes what `fit` does, and asks it to stop after some batches."""

    def __init__(self, batches=100):
        super().__init__()
        self.left, self.begun, self.logs, self.rates, self.steps = batches, 0, [], [], []

    def on_train_begin(self, logs=None):
        self.begun += 1

    def on_epoch_begin(self, epoch, logs=None):
        self.rates.append(float(self.model.optimizer.learning_rate))
        self.steps.append([self.params["steps"]])

    def on_train_batch_end(self, batch, logs=None):
        self.steps[-1].append(batch)
        self.left -= 1
        self.model.stop_training |= self.left == 0

    def on_epoch_end(self, epoch, logs=None):
        self.logs.append({"epoch": epoch + 1, **logs})


def test_callbacks_see_one_fit_and_the_values_of_the_history(tmp_path):
    watch = Watch()
    history = tuned_with(watch, keras.callbacks.CSVLogger(tmp_path / "log.csv"))
    assert watch.begun == 1
    assert watch.logs == history
    assert set(history[0]) == {"epoch", "loss", "val_accuracy"}
    assert watch.steps == [[2, 0, 1]] * 3
    with (tmp_path / "log.csv").open() as file:
        assert [float(row["loss"]) for row in csv.DictReader(file)] == [entry["loss"] for entry in history]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("callback", "epochs", "batches"),
    [(Watch(1), 1, 1), (Watch(3), 2, 3), (keras.callbacks.EarlyStopping("val_accuracy", patience=1), 2, 4)],
)
def test_a_callback_ends_a_run(tmp_path, callback, epochs, batches):
    watch = Watch()
    history = tuned_with(callback, watch, directory=tmp_path)
    assert (len(history), sum(len(each) - 1 for each in watch.steps)) == (epochs, batches)
    assert watch.logs == history
    assert tuned_with(directory=tmp_path) == history  # it is over


@pytest.mark.slow
def test_the_validation_loss_is_computed_for_a_callback_that_monitors_it():
    """It ends the run of a model that learns wrong labels."""
    model, (x, y), watch = classifier(), examples(8), Watch()
    wrong = [{"good": "bad", "bad": "good"}.get(label, label) for label in y]
    callbacks = [keras.callbacks.EarlyStopping(patience=1), watch]
    history = fine_tune(model, (x, wrong), (x, y), callbacks=callbacks, **{**SETTINGS, "epochs": 9, "warmup": 0.0})
    losses = [entry["val_loss"] for entry in history]
    assert losses == [entry["val_loss"] for entry in watch.logs]
    assert np.diff(losses)[:-1].max(initial=-1) < 0 <= np.diff(losses)[-1]  # better, until the last epoch
    compiled = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    best = history.index(max(history, key=lambda entry: entry["val_accuracy"]))  # whose weights are kept
    assert float(compiled(model.targets(y), model(x))) == pytest.approx(losses[best], rel=1e-5)


@pytest.mark.slow
def test_a_callback_that_sets_the_learning_rate_scales_the_rest_of_the_schedule(tmp_path):
    """Also that of a run that resumes."""
    plateau = keras.callbacks.ReduceLROnPlateau("val_accuracy", factor=0.5, patience=1, cooldown=9)
    power_cut = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: 1 / (epoch - 2))
    watch, resumed = Watch(), Watch()
    with pytest.raises(ZeroDivisionError):
        tuned_with(plateau, watch, power_cut, directory=tmp_path)
    tuned_with(resumed, directory=tmp_path)
    peak = SETTINGS["learning_rate"]
    assert [*watch.rates, *resumed.rates] == pytest.approx([peak, peak * 4 / 6, *[peak * 2 / 6 / 2] * 2])
    scheduled, scheduler = Watch(), keras.callbacks.LearningRateScheduler(lambda epoch, rate: 1e-3 / (epoch + 1))
    tuned_with(scheduler, scheduled)
    assert scheduled.rates == pytest.approx([1e-3, 1e-3 / 2, 1e-3 / 3])


@pytest.mark.slow
def test_a_run_with_classes_by_index_goes_on_with_their_names(tmp_path):
    """As JSON, the keys of its settings are text."""
    run = {**SETTINGS, "epochs": 1, "directory": tmp_path}
    by_index = fine_tune(classifier(), examples(8), class_weight={np.int64(1): 0.0}, **run)
    assert fine_tune(classifier(), examples(8), class_weight={"good": 1, "bad": 0}, **run) == by_index
    with error_names(RunError, tmp_path, "finished", "class_weight"):
        fine_tune(classifier(), examples(8), class_weight={1: 0.5}, **run)


@pytest.mark.slow
@pytest.mark.filterwarnings("error:.*truncated")
def test_a_budget_of_tokens_accumulated_gradients_and_a_teacher():
    """Of a model with windows, which truncate nothing, whose steps are too small to change it."""
    x, y = examples(20)
    x[3] = "bad film " * 20
    learner, teacher = (classifier(text={"stride": 8}, seed=seed, scale=0.3) for seed in (0, 1))
    batches = []
    count = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: batches.append(batch))
    recipe = {"frozen_layers": 0, "batch_tokens": 30, "accumulate": 2, "learning_rate": 1e-9, "warmup": 0.0, "seed": 3}
    settings = {**SETTINGS, "batch_size": None, "epochs": 1, "callbacks": [count], **recipe}
    (epoch,) = fine_tune(learner, (x, y), teacher=teacher, temperature=3.0, **settings)
    plan = batches_of_epoch(learner.examples(x, y).lengths, 3, 0, batch_tokens=30)
    assert len(batches) == len(plan) > 3
    assert int(learner.optimizer.iterations) == -(-len(plan) // 2)
    ours, theirs = (np.float64(model(x)) for model in (learner, teacher))
    of_labels = -log_softmax(ours, axis=-1)[range(20), [LABELS.index(label) for label in y]]
    ours, theirs = log_softmax(ours / 3, axis=-1), log_softmax(theirs / 3, axis=-1)
    losses = (of_labels + 9 * (np.exp(theirs) * (theirs - ours)).sum(-1)) / 2
    # Each batch's mean counts as its rows do.
    assert epoch["loss"] == pytest.approx(losses.mean(), rel=1e-4)


@pytest.mark.parametrize("stride", [None, 8])
def test_a_budget_of_tokens_counts_the_padding_of_a_fixed_length(stride, untraced):
    sizes = []
    count = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: sizes.append(batch))
    model = classifier(text={"sequence_length": 16, "stride": stride}, config={"num_layers": 1})
    settings = {**SETTINGS, "batch_size": None, "epochs": 1, "callbacks": [count], "batch_tokens": 64}
    fine_tune(model, (["bad film"] * 4 + ["good film"] * 4, LABELS * 4), **settings)
    assert len(sizes) == 2  # 4 rows of 16 tokens each


def tagged(**recipe):
    """The weights of a tagger after two epochs on five sentences of very different lengths, and its optimizer."""
    model = small.task(BertTokenClassifier, ["O", "B-x"], config={"num_layers": 1}, scale=0.1)
    words = ["film", "good", "bad", "plot", "dull", "warm", "cold", "story"]
    x = [words[:1], words[1:3], words, words[::-1], words[3:4]]
    y = [["O", "B-x"] * 4, ["B-x"] * 8, ["O"] * 8, ["B-x", "O"] * 4, ["O"]]
    labels = [row[: len(sentence)] for row, sentence in zip(y, x, strict=True)]
    history = fine_tune(model, (x, labels), **{**SETTINGS, "frozen_layers": 0, "batch_size": 5, **recipe})
    return model.get_weights(), [entry["loss"] for entry in history], int(model.optimizer.iterations)


@pytest.mark.slow
def test_accumulated_batches_train_as_the_large_batch_and_the_last_ones_count_too():
    """Of one or two sentences, which hold different numbers of words; no update is full at the end of an epoch."""
    weights, losses, updates = tagged()
    assert updates == SETTINGS["epochs"]
    accumulated, same, count = tagged(batch_size=2, accumulate=4)  # three batches an epoch
    assert count == updates
    assert same == pytest.approx(losses, rel=1e-5)
    size = small.CONFIG.hidden_size
    for value, expected in zip(accumulated, weights, strict=True):
        if value.shape == (3 * size,):  # softmax ignores the biases of keys, whose gradients are rounding errors
            value[size : 2 * size] = expected[size : 2 * size]
        np.testing.assert_allclose(value, expected, atol=1e-4)


def test_a_log_that_cannot_be_written_says_so_in_one_line(tmp_path):
    pytest.importorskip("tensorboard")
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")

    def write_log(directory):
        log = TensorBoardLog(model, Run(directory))
        for _ in range(100):
            log.end_epoch({"val_accuracy": 0.5})

    with files_of_at_most(2000), pytest.raises(OSError, match="File too large; [^\n]*TensorBoard") as raised:
        write_log(tmp_path)
    assert raised.value.filename.startswith(f"{tmp_path}/logs/events")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/logs").touch()
    with pytest.raises(OSError, match=r"logs[^\n]*TensorBoard[^\n]*$"):
        write_log(tmp_path / "other")


def of_numbers(*bias):
    model = classifier(labels=["size", "price"], problem_type="regression", dropout=0.3)
    model.head.logits.bias.assign(bias)
    x, _ = examples()
    return model, (x, np.array([[i, 1000.0] for i in range(len(x))]))


def test_regression_begins_at_the_mean():
    """With a head that is new; one that was trained begins where it ended."""
    before_training = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: 1 / 0)
    for bias, first in (((0, 0), (11.5, 1000)), ((0, 5), (0, 5))):
        model, train = of_numbers(*bias)
        with pytest.raises(ZeroDivisionError):
            fine_tune(model, train, callbacks=[before_training], **SETTINGS)
        np.testing.assert_array_equal(model.head.logits.bias, first)


@pytest.mark.slow
@pytest.mark.parametrize("from_teacher", [False, True])
def test_numbers_are_learned_alike_in_any_unit(from_teacher):
    """Both columns, though one is tiny and the other huge in its own unit: loss, encoder and answers are the same."""
    learned = []
    for scale, shift in (([1.0, 1.0], 0.0), ([1e18, 1e-9], 0.0), ([50.0, 0.02], np.array([7.0, -3.0]))):
        (model, (x, _)), (teacher, _) = of_numbers(0, 0), of_numbers(*np.array(scale) + shift)
        model.head.dropout.rate, x = 0.0, x[:12]
        teacher.head.logits.kernel.assign(teacher.head.logits.kernel * np.float32(scale))
        numbers = np.array([[len(text), text.count("o")] for text in x], np.float64)
        settings = {**SETTINGS, "accumulate": 2, "teacher": teacher if from_teacher else None}
        history = fine_tune(model, (x, numbers * scale + shift), **settings)
        answers = np.array([list(answer.values()) for answer in model.classify(x)])
        answers = (answers - shift) / scale / numbers.std(axis=0)
        learned.append((answers, history[-1]["loss"], model.encoder.get_weights()))
    for answers, loss, weights in learned[1:]:
        np.testing.assert_allclose(answers, learned[0][0], atol=0.01)
        assert loss == pytest.approx(learned[0][1], rel=0.01)
        for weight, expected in zip(weights, learned[0][2], strict=True):
            np.testing.assert_allclose(weight, expected, atol=1e-4)


@pytest.mark.slow
def test_regression_goes_on_where_it_was(tmp_path):
    (model, train), (broken, _), (unbroken, _) = (of_numbers(0, 0) for _ in range(3))
    power_cut = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fine_tune(model, train, directory=tmp_path, callbacks=[power_cut], **SETTINGS)
    fine_tune(broken, train, directory=tmp_path, **SETTINGS)
    fine_tune(unbroken, train, **SETTINGS)
    np.testing.assert_equal(broken.get_weights(), unbroken.get_weights())


def test_texts_that_are_truncated_are_counted(untrained, tmp_path):
    longest = small.preprocessor().max_sequence_length
    x = ["the " * count for count in (1, longest - 2, longest - 1, 2 * longest)]
    (message,) = [each for each in warned(untrained, (x, LABELS * 2), tmp_path) if "truncated" in each]
    assert_names(message, "2 of 4 examples", f"{longest} tokens", "truncated", "long_text='windows'")


def warned(model, train, tmp_path, **settings):
    """The warnings of a run that ends before its first step, as its directory is a file."""
    (tmp_path / "file").touch()
    settings = {**SETTINGS, "epochs": 1, "batch_size": 1, "directory": tmp_path / "file", **settings}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with pytest.raises(FileExistsError):
            fine_tune(model, train, **settings)
    return [str(each.message) for each in found if each.filename == __file__]


def test_labels_that_hardly_occur_are_named(untrained, tmp_path):
    x, y = examples(200)
    parts = untrained.encoder, untrained.preprocessor
    some = BertClassifier(*parts, [*LABELS, *"abcdef"])
    several = BertClassifier(*parts, LABELS, "multi_label_classification")
    tagger, sentences = BertTokenClassifier(*parts, ["O", "B-x"]), [["warm", "day"]] * 200
    rare = "'a' (1)", "'b' (2)", "'c' (0)", "'d' (0)", "'e' (0)", "1 more"
    assert warned(untrained, (x, y), tmp_path) == []
    for model, train, words in [
        (some, (x, ["a", "b", "b", *y[3:]]), ("3 texts", *rare)),
        (several, (x, [["good"]] * 199 + [LABELS]), ("3 texts", "'bad' (1)")),
        (tagger, (sentences, [["O", "O"]] * 199 + [["B-x", "O"]]), ("3 words", "'B-x' (1)")),
    ]:
        (message,) = warned(model, train, tmp_path)
        assert_names(message, *words)


def test_classes_that_are_all_numbers_may_be_meant_as_numbers(untrained, tmp_path):
    def warnings_about(labels, problem_type="single_label_classification"):
        model = BertClassifier(untrained.encoder, untrained.preprocessor, labels, problem_type)
        x, _ = examples(210)
        y = np.tile([float(label) for label in labels], 210)[:210] if problem_type == "regression" else labels * 210
        return warned(model, (x, y[:210]), tmp_path)

    numbers = [f"{number / 4:g}" for number in range(20)]
    (message,) = warnings_about(numbers)
    assert_names(message, "20 labels", "numbers", "problem_type='regression'")
    assert warnings_about(numbers[1:]) == []  # perhaps stars
    assert warnings_about([*numbers, "none"]) == []
    assert warnings_about(numbers[:1], "regression") == []


# By default few examples, without those held out, have more epochs, but not any number.
DEFAULT = {"epochs": None, "batch_size": None}


@pytest.mark.parametrize(("count", "settings", "words"), [
    (200, {}, None),
    (199, {}, (199, "epochs, now 1", "batch_size, now 1")),
    (400, {"accumulate": 3}, (134, "epochs, now 1", "batch_size, now 1")),
    (24, DEFAULT | {"epochs": 2, "batch_tokens": 4000}, ("only 2 updates", "epochs, now 2", "batch_tokens, now 4,000")),
    (8, {"batch_size": 8}, ("only 1 update;", "epochs, now 1")),
    (800, DEFAULT, None),
    (72, DEFAULT, (60, "epochs, now 20", "batch_size, now 32")),
    (72, DEFAULT | {"validation_split": 0.5}, (40, "epochs, now 20", "batch_size, now 32")),
])  # fmt: skip
def test_fewer_than_200_updates_are_warned_of(untrained, tmp_path, count, settings, words):
    messages = warned(untrained, examples(count), tmp_path, **settings)
    assert len(messages) == (words is not None)
    for message in messages:
        assert_names(message, "fewer than 200", *words)

"""A run that is interrupted, at any moment and however, ends with the weights of one that was not, bit for bit."""

import os
import re
import shutil
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_bert import BertClassifier, files
from keras_bert.training import fine_tune, report, run
from keras_bert.training.loop import Interrupted, signals_deferred
from keras_bert.training.run import Run, RunError, load_state
from keras_bert.training.run_of_files import RunOfFiles

from ..support import reviews, small
from ..support.data import ROOT
from ..support.messages import error_names
from ..support.reviews import classifier, examples
from ..support.stopping import Stop, StopAt
from . import long_run

SETTINGS = {**reviews.SETTINGS, "checkpoint_seconds": 0}
STEPS = 12  # in all, six an epoch
pytestmark = pytest.mark.usefixtures("untraced_module")


def measured(model, x, *_):
    """What takes the place of `evaluate`: a number that tells any two models apart, for which nothing is traced."""
    return {"accuracy": float(np.mean(model(x)[:, 0]))}


@pytest.fixture(scope="module", autouse=True)
def measures():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "evaluate", measured)
        yield


def trained(directory=None, stop_at=None, **changes):
    """The model, and the history of a run, or None where it stopped on the way."""
    learner = classifier(dropout=0.3)
    settings = {**SETTINGS, "callbacks": [StopAt(stop_at)] if stop_at else [], **changes}
    try:
        return learner, fine_tune(learner, examples(), examples(6), directory, **settings)
    except Stop:
        return learner, None


def values(learner):
    """Weights and random state."""
    return [variable.numpy() for variable in learner.variables]


@pytest.fixture(scope="module")
def unbroken():
    return trained()


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """The directory of a run whose loss was no number any more: it ended at once, and saved nothing of it."""
    directory, steps = tmp_path_factory.mktemp("broken"), []

    class Ruin(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            steps.append(batch)
            if len(steps) == 8:
                head = self.model.head
                head.set_weights([np.full_like(each, np.nan) for each in head.get_weights()])

    with error_names(ValueError, "loss is nan", "batch 3", "epoch 2", "learning_rate", "warmup"):
        trained(directory, callbacks=[Ruin()])
    return directory


@pytest.fixture
def begun(broken, tmp_path):
    """The same, to go on with."""
    return shutil.copytree(broken, tmp_path / "run")


def assert_same(got, want):
    np.testing.assert_equal(values(got[0]), values(want[0]))
    assert got[1] == want[1]


def test_interrupted_by_an_error(unbroken, begun):
    resumed = trained(begun)
    assert_same(resumed, unbroken)
    learner, history = resumed
    assert [epoch["epoch"] for epoch in history] == [1, 2]
    assert history[1]["loss"] != history[0]["loss"]  # what falls in two epochs depends on dropout
    # A run that is over stays so: there is no step at which to stop.
    assert fine_tune(learner, examples(), examples(6), begun, **SETTINGS, callbacks=[StopAt(1)]) == history
    assert_same((learner, history), unbroken)
    best = max(epoch["val_accuracy"] for epoch in history)
    assert measured(learner, *examples(6))["accuracy"] == pytest.approx(best, rel=1e-6)


@pytest.mark.slow
def test_the_best_epoch_may_lie_before_the_interruption(begun, monkeypatch):
    at_its_end, _ = trained(stop_at=STEPS // 2)
    monkeypatch.setattr(report, "evaluate", lambda *_: {"accuracy": -1e9})
    learner, history = trained(begun)
    assert history[0]["val_accuracy"] > history[1]["val_accuracy"]
    assert all(map(np.array_equal, learner.get_weights(), at_its_end.get_weights()))


@pytest.fixture(scope="module")
def another():
    """A model for runs that are refused."""
    return classifier(dropout=0.3)


@pytest.mark.slow
def test_numbers_of_numpy_are_saved_and_are_those_of_python(unbroken, tmp_path):
    numbers = {"epochs": np.int64(2), "learning_rate": np.float64(1e-2), "batch_size": np.array(4), "seed": np.int32(0)}
    assert_same(trained(tmp_path, **numbers, few_shot=np.bool_(False), mini_batch_size=None), unbroken)
    assert_same(trained(tmp_path), unbroken)


@pytest.mark.parametrize(("name", "value"), [("learning_rate", 1e-4), ("seed", 1), ("epochs", 4), ("frozen_layers", 0)])
def test_another_run_is_refused(begun, another, name, value):
    with error_names(RunError, begun, "unfinished", name, value, "choose another directory"):
        fine_tune(another, examples(), examples(6), begun, **SETTINGS | {name: value})


def test_another_model_and_other_examples_are_refused(begun, another):
    (x, y), held = examples(6), "other validation examples"
    for model, train, validation, *names in [
        (another, examples(22), examples(6), "other examples"),
        (another, examples(), examples(5), held),
        (another, examples(), (x, y[::-1]), held),
        (another, examples(), None, held),
        (classifier(dropout=0.2), examples(22), None, "other configuration of the model", "other examples", held),
    ]:
        with error_names(RunError, begun, "unfinished", *names):
            fine_tune(model, train, validation, begun, **SETTINGS)


def test_columns_of_the_same_texts_are_other_examples():
    columns = (["a", "b"], ["c", "d"]), (["a"], ["b", "c", "d"]), (["a", "b", "c", "d"],)
    assert len({run.digest_of_examples(each, None) for each in columns}) == 3


def test_the_first_of_equally_good_epochs_is_the_best():
    of_this = Run(None)
    for value, best in ((0.2, 0), (0.7, 1), (0.7, 1), (0.6, 1), (0.8, 4)):
        of_this.history.append({"loss": -value, "val_f1": value, "val_recall": 1 - value})
        assert of_this.best_epoch == best


@pytest.mark.parametrize(
    ("epoch", "stopped", "word"), [(1, False, "resuming"), (2, False, "finished"), (1, True, "finished")]
)
def test_a_log_says_whether_a_run_goes_on(tmp_path, monkeypatch, epoch, stopped, word):
    lines, position = [], run.Position(epoch, 0, 6, stopped)
    monkeypatch.setattr(Run, "saved_position", lambda *_: position)
    RunOfFiles(tmp_path / "out", False, log=lines.append).log_position({}, 2)
    assert [word in line for line in lines] == [True]


def test_which_weights_are_those_of_a_preset(another, small_preset, tmp_path):
    """New weights, which differ in each process, do not count."""

    def digest(model):
        return run.digests_of_model(model)[run.WEIGHTS]

    assert digest(another) is None
    first, second = (BertClassifier.from_preset(small_preset, labels=["a", "b"]) for _ in range(2))
    assert np.any(first.head.get_weights()[0] != second.head.get_weights()[0])
    assert digest(first) == digest(second) is not None
    second.set_weights([weight + 1 for weight in second.get_weights()])
    assert digest(first) == digest(second)  # it has learned: a cell of a notebook may run again with it
    second.encoder.save_preset(tmp_path)
    second.preprocessor.save_preset(tmp_path)
    second = BertClassifier.from_preset(tmp_path, labels=["a", "b"])
    assert digest(first) != digest(second)
    assert run.digests_of_model(first) == run.digests_of_model(second) | {run.WEIGHTS: digest(first)}


def test_how_texts_become_rows_is_part_of_the_configuration():
    rows = [{}, {"truncation": "head_tail"}, {"sequence_length": 24}, {"max_sequence_length": 16}, {"stride": 8}]
    rows += [{"stride": 4}, {"pad_to_multiple_of": 8}, {"tokenizer": small.tokenizer(special_tokens_in_text=True)}]
    encoder = small.encoder(num_layers=1)
    models = [BertClassifier(encoder, small.preprocessor(**each), ["a", "b"]) for each in rows]
    assert len({run.digests_of_model(model)[run.CONFIGURATION] for model in models}) == len(rows)


def test_two_runs_at_once_are_refused(begun, another):
    """They would mix: the report of one, the weights of the other."""
    with files.only_writer(begun), error_names(BlockingIOError, begun, "another process"):
        fine_tune(another, examples(), examples(6), begun, **SETTINGS)


def test_a_damaged_state_says_so(begun, another):
    state = begun / "state.safetensors"
    written = state.read_bytes()
    for damaged in (written[:1000], written.replace(rb"\"epoch\": 1", rb"\"epoch\":-1")):
        assert damaged != written
        state.write_bytes(damaged)
        with error_names(ValueError, state, "damaged", "choose another directory", "delete"):
            fine_tune(another, examples(), examples(6), begun, **SETTINGS)


def damages(written, count):
    """Copies of a file's bytes, each with a bit flipped, a byte replaced, or without its end."""
    generator = np.random.default_rng(0)
    (header,) = np.frombuffer(written[:8], np.int64)
    for number in range(count):
        # The header, which is short, as often as the values behind it.
        place = generator.integers(0, *((8 + header,) if number % 2 else (len(written),)))
        damaged = bytearray(written)
        damaged[place] = damaged[place] ^ 1 << generator.integers(8) if number % 3 else generator.integers(256)
        yield bytes(damaged[:place] if number % 7 == 0 else damaged)


def test_any_damage_is_noticed(begun):
    state = begun / "state.safetensors"
    written = state.read_bytes()
    values, notes = load_state(state)
    refused = []
    for damaged in damages(written, 400):
        state.write_bytes(damaged)
        try:
            found = load_state(state)
        except ValueError as error:
            refused.append(str(error))
            continue
        assert found[1] == notes
        assert all(a.tobytes() == b.tobytes() for a, b in zip(found[0], values, strict=True))
    assert len(refused) > 350
    assert all(re.match(rf"{state} is damaged", each) for each in refused)


def test_a_run_whose_state_was_removed_is_not_sealed(tmp_path):
    directory = tmp_path / files.RUN
    with error_names(RunError, directory, "removed", "overwrite"):
        RunOfFiles(tmp_path, overwrite=False).seal({"accuracy": 0.5})
    assert not (directory / "state.safetensors").exists()


@pytest.mark.slow
def test_a_finished_run_needs_its_weights_only(unbroken, tmp_path):
    directory = tmp_path / files.RUN
    learner, history = trained(directory, checkpoint_seconds=1e9)
    assert_same((learner, history), unbroken)
    assert {path.name for path in directory.iterdir()} <= {"state.safetensors", "logs"}
    stored, notes = load_state(directory / "state.safetensors")
    assert [value.shape for value in stored] == [variable.shape for variable in learner.variables]
    RunOfFiles(tmp_path, overwrite=False).seal({"accuracy": 0.5})
    assert load_state(directory / "state.safetensors") == ([], notes | {"measures": {"accuracy": 0.5}})
    with error_names(RunError, directory, "finished", "choose another directory", "delete"):
        fine_tune(learner, examples(), examples(6), directory, **SETTINGS | {"checkpoint_seconds": 1e9})
    with error_names(RunError, directory, "a finished run", "seed"):
        fine_tune(learner, examples(), examples(6), directory, **SETTINGS, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(("step", "settings"), [
    (6, {}),  # the end of an epoch before it is measured
    (12, {}),
    (9, {"checkpoint_seconds": 1e9}),  # saved after the first epoch only: what was done since is done again
    (8, {"lora_rank": 2, "frozen_layers": 0}),
])  # fmt: skip
def test_a_run_that_stops_at_any_step_ends_as_the_unbroken_one(unbroken, tmp_path, step, settings):
    assert trained(tmp_path, stop_at=step, **settings)[1] is None
    rest = {**settings, "checkpoint_seconds": 0}
    stop_at = STEPS - step + 1 if settings.get("lora_rank") else None  # never: it does not begin again
    assert_same(trained(tmp_path, stop_at=stop_at, **rest), trained(**rest) if stop_at else unbroken)


@pytest.fixture
def heeded():
    """SIGINT has its usual effect, even if the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize(
    ("number", "step", "expected"), [(signal.SIGINT, 8, (1, 3, 6, False)), (signal.SIGTERM, 5, (1, 0, 6, False))]
)
def test_a_signal_saves_the_state_and_ends_the_run(unbroken, tmp_path, number, step, expected):
    class SignalAt(StopAt):
        def on_train_batch_end(self, batch, logs=None):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), number)  # noticed after the next batch

    before = signal.getsignal(number)
    with pytest.raises(Interrupted) as interrupted:
        trained(tmp_path, callbacks=[SignalAt(step)], checkpoint_seconds=1e9)
    assert signal.getsignal(number) is before
    assert interrupted.value.number == number
    assert interrupted.value.position == Run(tmp_path).saved_position({}) == expected
    assert_same(trained(tmp_path), unbroken)


@pytest.mark.usefixtures("heeded")
def test_the_second_signal_has_its_usual_effect():
    with signals_deferred(True) as signals:
        os.kill(os.getpid(), signal.SIGINT)
        assert signals == [signal.SIGINT]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    with signals_deferred(False) as signals, pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_complete_run_is_saved_ends_it_as_any_other(begun, unbroken, monkeypatch, number):
    """It is not lost, and the same call then returns at once."""
    save_state = run.save_state

    def signalled(path, values, notes):
        if notes["is_finished"]:
            os.kill(os.getpid(), number)
        save_state(path, values, notes)

    monkeypatch.setattr(run, "save_state", signalled)
    with pytest.raises(Interrupted) as interrupted:
        trained(begun)
    assert (interrupted.value.number, interrupted.value.position) == (number, (2, 0, 6, False))
    assert_same(trained(begun, stop_at=1), unbroken)


@pytest.mark.timing
@pytest.mark.slow
def test_killed(tmp_path):
    """As by `kill -9`; each process begins anew."""

    def run(directory, weights, steps=None):
        command = [sys.executable, "-m", long_run.__name__, directory, weights]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for number, _ in enumerate(process.stdout, start=1):
            if number == steps:
                process.kill()
        process.stdout.close()
        return process.wait()

    assert run(tmp_path / "unbroken", tmp_path / "unbroken.npz") == 0
    assert run(tmp_path / "broken", tmp_path / "broken.npz", steps=8) == -9  # in the second epoch
    assert run(tmp_path / "broken", tmp_path / "broken.npz") == 0
    want, got = (np.load(tmp_path / name) for name in ("unbroken.npz", "broken.npz"))
    assert want.files == got.files
    for name in want.files:
        np.testing.assert_array_equal(got[name], want[name])

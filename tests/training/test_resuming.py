"""A run that is interrupted, at any moment and however, ends with the weights of one that was not, bit for bit."""

import os
import shutil
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_bert import files
from keras_bert.training import evaluation, fine_tune
from keras_bert.training.interruption import Interrupted, signals_noticed
from keras_bert.training.run_files import position

from ..support import reviews
from ..support.data import ROOT
from ..support.reviews import classifier, examples
from . import long_run

SETTINGS = {**reviews.SETTINGS, "checkpoint_seconds": 0}
STEPS = 12  # in all, six an epoch


def measured(model, x, y):
    """What takes the place of `evaluate`: a number that tells any two models apart, for which nothing is traced."""
    return {"accuracy": float(np.mean(model(x)[:, 0]))}


@pytest.fixture(scope="module", autouse=True)
def measures():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "evaluate", measured)
        yield


class Stop(BaseException):
    """What nobody catches."""


class StopAt(keras.callbacks.Callback):
    def __init__(self, step):
        super().__init__()
        self.left = step

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            raise Stop


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

    with pytest.raises(ValueError, match="the loss is nan after batch 3 of epoch 2.* a lower learning_rate"):
        trained(directory, callbacks=[Ruin()])
    return directory


@pytest.fixture
def begun(broken, tmp_path):
    """The same, to go on with."""
    return shutil.copytree(broken, tmp_path / "run")


def assert_same(got, want):
    for value, expected in zip(values(got[0]), values(want[0]), strict=True):
        np.testing.assert_array_equal(value, expected)
    assert got[1] == want[1]


def test_interrupted_by_an_error(unbroken, begun):
    resumed = trained(begun)
    assert_same(resumed, unbroken)
    learner, history = resumed
    assert [epoch["epoch"] for epoch in history] == [1, 2]
    assert history[1]["loss"] < history[0]["loss"]
    # A run that is over stays so: there is no step at which to stop.
    assert fine_tune(learner, examples(), examples(6), begun, **SETTINGS, callbacks=[StopAt(1)]) == history
    assert_same((learner, history), unbroken)
    best = max(epoch["accuracy"] for epoch in history)
    assert measured(learner, *examples(6))["accuracy"] == pytest.approx(best, rel=1e-6)


@pytest.fixture(scope="module")
def another():
    """A model for runs that are refused."""
    return classifier(dropout=0.3)


@pytest.mark.parametrize(
    ("name", "value"), [("learning_rate", 1e-4), ("seed", 1), ("epochs", 4), ("frozen_layers", 0), ("examples", 22)]
)
def test_another_run_is_refused(begun, another, name, value):
    changes, count = ({}, value) if name == "examples" else ({name: value}, 24)
    with pytest.raises(ValueError, match=f"holds a run with other {name}"):
        fine_tune(another, examples(count), examples(6), begun, **SETTINGS | changes)


def test_two_runs_at_once_are_refused(begun, another):
    """They would mix: the report of one, the weights of the other."""
    with files.only_writer(begun), pytest.raises(BlockingIOError, match="another process is writing there"):
        fine_tune(another, examples(), examples(6), begun, **SETTINGS)


def test_a_damaged_state_says_so(begun, another):
    state = begun / "state.safetensors"
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(ValueError, match="is damaged .*; delete it to begin again"):
        fine_tune(another, examples(), examples(6), begun, **SETTINGS)


# The end of an epoch before it is measured, the last step.
@pytest.mark.slow
@pytest.mark.parametrize("step", [6, 12])
def test_interrupted_at_other_moments(unbroken, tmp_path, step):
    assert trained(tmp_path, stop_at=step)[1] is None
    assert_same(trained(tmp_path), unbroken)


@pytest.mark.slow
def test_interrupted_with_lora(tmp_path):
    assert trained(tmp_path, stop_at=8, lora_rank=2, frozen_layers=0)[1] is None
    rest = trained(tmp_path, stop_at=STEPS - 8 + 1, lora_rank=2, frozen_layers=0)  # never: it does not begin again
    assert_same(rest, trained(lora_rank=2, frozen_layers=0))


@pytest.mark.slow
def test_interrupted_again_and_again(unbroken, tmp_path):
    history, runs = None, 0
    while history is None:
        (learner, history), runs = trained(tmp_path, stop_at=5), runs + 1
    assert runs > STEPS // 5
    assert_same((learner, history), unbroken)


@pytest.fixture
def heeded():
    """SIGINT has its usual effect, even if the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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
    assert interrupted.value.position == position(tmp_path) == expected
    assert_same(trained(tmp_path), unbroken)


@pytest.mark.usefixtures("heeded")
def test_the_second_signal_has_its_usual_effect():
    with signals_noticed(True) as noticed:
        os.kill(os.getpid(), signal.SIGINT)
        assert noticed() == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    with signals_noticed(False) as noticed, pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.slow
def test_between_two_saves(unbroken, tmp_path):
    """What was done since is done again."""
    assert trained(tmp_path, stop_at=9, checkpoint_seconds=1e9)[1] is None  # saved after the first epoch only
    assert_same(trained(tmp_path), unbroken)


@pytest.mark.slow
def test_killed(tmp_path):
    """As by `kill -9`; each process begins anew."""
    command = [sys.executable, "-m", long_run.__name__]

    def run(directory, weights, steps=None):
        process = subprocess.Popen([*command, directory, weights], cwd=ROOT, stdout=subprocess.PIPE, text=True)
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

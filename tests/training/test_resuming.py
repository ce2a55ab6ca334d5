"""A run that is interrupted, at any moment and however, ends with the weights of one that was not, bit for bit."""

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_bert.training import fine_tune

from . import long_run
from .long_run import SETTINGS, examples, model

STEPS = 30  # in all


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
    """Weights, random state and history of a run, which perhaps stops on the way."""
    learner = model()
    x, y = examples()
    callbacks = [StopAt(stop_at)] if stop_at else []
    settings = {**SETTINGS, "progress": False, "callbacks": callbacks, **changes}
    try:
        history = fine_tune(learner, (x, y), (x[:10], y[:10]), directory, **settings)
    except Stop:
        return None
    return [variable.numpy() for variable in learner.variables], history


@pytest.fixture(scope="module")
def unbroken():
    return trained()


def assert_same(got, want):
    for value, expected in zip(got[0], want[0], strict=True):
        np.testing.assert_array_equal(value, expected)
    assert got[1] == want[1]


def test_a_run_repeats(unbroken, tmp_path):
    assert_same(trained(tmp_path), unbroken)
    assert unbroken[1][-1]["loss"] < unbroken[1][0]["loss"]
    assert [epoch["epoch"] for epoch in unbroken[1]] == [1, 2, 3]


# The first step, both sides of an epoch's end, the last step.
@pytest.mark.parametrize("step", [1, *(pytest.param(step, marks=pytest.mark.slow) for step in (10, 11, 30))])
def test_interrupted_once(unbroken, tmp_path, step):
    assert trained(tmp_path, stop_at=step) is None
    assert_same(trained(tmp_path), unbroken)


@pytest.mark.slow
def test_interrupted_with_lora_and_frozen_layers(tmp_path):
    part = {"lora_rank": 2, "frozen_layers": 1, "epochs": 2}  # 20 steps
    assert trained(tmp_path, stop_at=17, **part) is None
    rest = trained(tmp_path, stop_at=20 - 17 + 1, **part)  # never: it does not begin again
    assert_same(rest, trained(**part))


@pytest.mark.slow
def test_interrupted_again_and_again(unbroken, tmp_path):
    result, runs = None, 0
    while result is None:
        result, runs = trained(tmp_path, stop_at=7), runs + 1
    assert runs > STEPS // 7
    assert_same(result, unbroken)


@pytest.mark.slow
def test_between_two_saves(unbroken, tmp_path):
    """What was done since is done again."""
    assert trained(tmp_path, stop_at=17, checkpoint_seconds=1e9) is None  # saved after the first epoch only
    assert_same(trained(tmp_path), unbroken)


@pytest.mark.slow
def test_a_run_that_is_over_stays_so(unbroken, tmp_path):
    trained(tmp_path)
    assert_same(trained(tmp_path, stop_at=1), unbroken)  # there is no step at which to stop


def test_early_stopping_goes_on_too(tmp_path):
    # Measures never get better than the first: labels that nobody can learn.
    learner = model()
    x, y = examples()
    settings = {**SETTINGS, "epochs": 6, "patience": 2, "learning_rate": 1e-9, "progress": False}
    history = fine_tune(learner, (x, y), (x[:10], y[:10]), tmp_path, **settings)
    assert len(history) == 3
    assert fine_tune(model(), (x, y), (x[:10], y[:10]), tmp_path, **settings) == history


@pytest.mark.parametrize(
    "change",
    [{"learning_rate": 1e-4}, {"seed": 1}, {"epochs": 4}, pytest.param({"lora_rank": 2}, marks=pytest.mark.slow)],
)
def test_another_run_is_refused(tmp_path, change):
    assert trained(tmp_path, stop_at=3) is None
    (name,) = change
    with pytest.raises(ValueError, match=f"holds a run with other {name}"):
        trained(tmp_path, **change)


@pytest.mark.slow
def test_other_examples_are_refused(tmp_path):
    assert trained(tmp_path, stop_at=3) is None
    x, y = examples(39)
    with pytest.raises(ValueError, match="holds a run with other examples"):
        fine_tune(model(), (x, y), directory=tmp_path, progress=False, **SETTINGS)


def test_a_damaged_state_says_so(tmp_path):
    assert trained(tmp_path, stop_at=3) is None
    state = tmp_path / "state.safetensors"
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(ValueError, match="is damaged .*; delete it to begin again"):
        trained(tmp_path)


@pytest.mark.slow
def test_killed(tmp_path):
    """As by `kill -9`, several times; each process begins anew."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", long_run.__name__]

    def run(directory, weights, steps=None):
        process = subprocess.Popen([*command, directory, weights], cwd=root, stdout=subprocess.PIPE, text=True)
        for number, _ in enumerate(process.stdout, start=1):
            if number == steps:
                process.kill()
        process.stdout.close()
        return process.wait()

    assert run(tmp_path / "unbroken", tmp_path / "unbroken.npz") == 0
    for steps in (4, 17):
        assert run(tmp_path / "broken", tmp_path / "broken.npz", steps) == -9
    assert run(tmp_path / "broken", tmp_path / "broken.npz") == 0
    want, got = (np.load(tmp_path / name) for name in ("unbroken.npz", "broken.npz"))
    assert want.files == got.files
    for name in want.files:
        np.testing.assert_array_equal(got[name], want[name])

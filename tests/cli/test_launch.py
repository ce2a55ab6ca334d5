"""keras-bert launch: several processes train one model, whatever happens to one of them."""

import functools
import signal
import sys

import numpy as np
import psutil
import pytest
from safetensors.numpy import load_file

from keras_bert.files import RUN
from keras_bert.training.run import STATE

from ..support.commands import columns
from ..support.processes import HANGS, wait_for

pytestmark = pytest.mark.timing


@pytest.fixture
def launch(start):
    """Starts `keras-bert launch` with two workers."""
    return functools.partial(start, "launch", "--workers", "2")


def told_by(process):
    output, said = process.communicate(timeout=HANGS)
    return output.decode(), said.decode()


@pytest.mark.slow
def test_misuse_ends_all(launch, tmp_path):
    command = ("finetune", "classify", "--train", "no.csv", "--output", tmp_path / "model")
    process = launch("--", *command)
    output, said = told_by(process)
    assert (process.returncode, output) == (2, "")
    lines = said.splitlines()
    assert any(line.endswith("] Error: there is no file no.csv") for line in lines)
    assert lines[-1].endswith("ended with code 2; all workers ended")
    assert "all resume" not in said


@pytest.mark.slow
def test_a_worker_is_killed(run, launch, untrained, table, tmp_path):
    """The run ends as one of a single process does. A teacher is read when the processes know of one another."""
    teacher = tmp_path / "teacher"
    run("finetune", "classify", *columns(table), "--preset", untrained, "--epochs", "1", "--output", teacher)
    settings = ("--epochs", "3", "--batch-size", "8", "--learning-rate", "1e-3")
    command = ("distill", "classify", "--teacher", teacher, "--num-layers", "1", *columns(table), *settings, "--output")
    process = launch("--", *command, tmp_path / "broken", "--overwrite")  # the first time only
    wait_for(lambda: (tmp_path / "broken/training/state.safetensors").exists(), process)
    psutil.Process(process.pid).children()[1].kill()
    output, said = told_by(process)
    assert process.returncode == 0, said
    assert "worker 1 was killed by signal 9; all resume from the last checkpoint" in said
    assert "Traceback" not in said
    assert said.count(f"[0] resuming the run in {tmp_path}/broken after") == 1
    assert said.count("training on 2 devices of 2 processes") == 4
    assert output.startswith("[0] accuracy")
    assert "[0] epoch 3 of 3: loss" in said
    assert "[1] epoch" not in said
    run(*command, tmp_path / "alone")
    broken, alone = (load_file(tmp_path / name / "model.safetensors") for name in ("broken", "alone"))
    assert set(broken) == set(alone)
    for name, expected in alone.items():
        if not name.endswith("key.bias"):  # whose gradient is zero but for rounding
            np.testing.assert_allclose(broken[name], expected, atol=1e-4, err_msg=name)


@pytest.mark.parametrize(("old", "repeated"), [("an old run", 2), (None, 1)])
@pytest.mark.parametrize("option", ["--output {}", "--output={}"])
def test_overwrite_is_repeated_until_the_old_run_is_cleared(run, tmp_path, monkeypatch, option, old, repeated):
    """In place of workers, a script fails three times; the second time, it has cleared the old run."""
    state, calls = tmp_path / "model" / RUN / STATE, tmp_path / "calls"
    state.parent.mkdir(parents=True)
    if old:
        state.write_text(old)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$*" >> {calls}\n[ $(wc -l < {calls}) = 2 ] && rm -f {state}\nexit 1\n')
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    command = ("pretrain", "--overwrite", *option.format(tmp_path / "model").split())
    run("launch", "--workers", "1", "--restarts", "2", "--", *command, exit_code=1)
    has_it = ["--overwrite" in line for line in calls.read_text().splitlines()]
    assert has_it == [number < repeated for number in range(3)]


@pytest.mark.slow
def test_interrupted(launch, untrained, table, tmp_path):
    settings = ("--preset", untrained, "--epochs", "500", "--output", tmp_path / "model")
    process = launch("--", "finetune", "classify", *columns(table), *settings)
    wait_for(lambda: (tmp_path / "model/training/state.safetensors").exists(), process)
    workers = psutil.Process(process.pid).children()
    assert len(workers) == 2
    process.send_signal(signal.SIGINT)
    _, said = told_by(process)
    assert process.returncode == 130
    assert said.splitlines()[-1].startswith("Interrupted, all workers ended; the run is unfinished")
    assert not any(worker.is_running() for worker in workers)

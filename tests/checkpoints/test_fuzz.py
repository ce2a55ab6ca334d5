"""Damaged files of every kind end in an error of ours, or in the same tensors; see fuzz.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import fuzz

ROOT = Path(__file__).parents[2]


def run(kind, rounds, seed=0):
    command = [sys.executable, "-m", "tests.checkpoints.fuzz", kind, str(rounds), str(seed)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    # Half an hour stands for ever: nothing here takes minutes, unless it hangs.
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800)
    lines = result.stdout.splitlines() or ["nothing at all"]
    assert lines[-1].startswith("done"), (
        f"{kind}, {lines[-1]}: exit status {result.returncode}\n{result.stderr[-2000:]}"
    )
    return lines


@pytest.mark.parametrize("kind", fuzz.FILES)
def test_damage(kind):
    lines = run(kind, 300)
    assert len(lines) == 301
    assert "'refused'" in lines[-1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", fuzz.FILES)
def test_much_damage(kind):
    assert len(run(kind, 2000, seed=1000)) == 2001

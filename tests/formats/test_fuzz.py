"""Damaged files of every kind end in an error of ours, or in the same tensors; see fuzz.py."""

import subprocess
import sys

import pytest

from ..support.data import ROOT
from . import fuzz

ROUNDS = 300  # of each kind


@pytest.mark.parametrize("kind", fuzz.FILES)
def test_damage(kind, capsys):
    """The same damage in every run, none of which ends the process."""
    fuzz.main(kind, 40, 0)
    *_, last, done = capsys.readouterr().out.splitlines()
    assert last == f"{kind} round 39"
    assert done.startswith(f"{kind} done")
    assert "'refused'" in done


@pytest.mark.slow
def test_much_damage():
    """In a process of its own, which a native library could end."""
    command = [sys.executable, "-m", "tests.formats.fuzz", str(ROUNDS), "1000", *fuzz.FILES]
    # Half an hour stands for ever: nothing here takes minutes, unless it hangs.
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    lines = result.stdout.splitlines() or ["nothing at all"]
    done = [line.split()[0] for line in lines if " done " in line]
    assert done == [*fuzz.FILES], f"{lines[-1]}: exit status {result.returncode}\n{result.stderr[-2000:]}"
    assert len(lines) == (ROUNDS + 1) * len(done)

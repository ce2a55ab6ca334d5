"""Benchmarks for machines that tests do not have: they run, at a small size."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.slow
def test_the_benchmark_for_gpus():
    pytest.importorskip("jax")
    small = (
        "--size",
        "bert-tiny",
        "--lengths",
        "16",
        "--batch-tokens",
        "64",
        "--rounds",
        "1",
        "--steps",
        "2",
        "--alone",
    )
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), *small]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    for kind in ("inference", "training step"):
        for full in ("100%", "75%"):
            assert f"{kind}, 4 rows of 16 tokens, {full} full" in output
    speeds = re.findall(r"keras_bert, JAX +([\d.]+) sequences/s", output)
    assert len(speeds) == 4
    assert all(float(speed) > 0 for speed in speeds)

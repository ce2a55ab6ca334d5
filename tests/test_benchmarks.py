"""Benchmarks: the commands of the figures in docs/, the option --small, and those for GPUs, at a small size."""

import argparse
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(path for path in BENCHMARKS.glob("*.py") if not path.name.startswith("_"))


@pytest.fixture(scope="module")
def measure():
    spec = importlib.util.spec_from_file_location("_measure", BENCHMARKS / "_measure.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_figure_of_the_docs_begins_with_the_command_that_prints_it_and_is_included():
    root = BENCHMARKS.parent
    pages = "".join(path.read_text(encoding="utf-8") for path in (root / "docs").rglob("*.md"))
    for figure in (root / "docs" / "figures").glob("*.md"):
        command, empty, heading = figure.read_text(encoding="utf-8").splitlines()[:3]
        python, script, *_ = shlex.split(command.removeprefix("`").removesuffix("`"))
        assert (python, root / script in SCRIPTS, empty) == ("python", True, ""), figure.name
        assert re.match(r"\d{4}-\d\d-\d\d; [0-9a-f]{7}", heading), figure.name
        assert re.search(rf"figures/{figure.name}$", pages, re.MULTILINE), f"no page includes {figure.name}"


def test_small_sets_defaults_and_other_options_still_count(measure, monkeypatch):
    def read(*options: str) -> argparse.Namespace:
        parser = argparse.ArgumentParser()
        parser.add_argument("--rounds", type=int, default=5)
        parser.add_argument("--texts", type=int, default=1000)
        monkeypatch.setattr(sys, "argv", ["script.py", *options])
        return measure.parse(parser, rounds=1, texts=10)

    assert vars(read()) == {"rounds": 5, "texts": 1000, "small": False}
    assert vars(read("--small", "--rounds", "2")) == {"rounds": 2, "texts": 10, "small": True}


def test_what_is_missing_ends_only_a_run_that_is_not_small(measure, monkeypatch, capsys, tmp_path):
    def without_data() -> None:
        measure.need(tmp_path, tmp_path / "absent")

    def without_library() -> None:
        import no_such_library  # noqa: F401

    for main, missing in ((without_data, str(tmp_path / "absent")), (without_library, "no_such_library")):
        monkeypatch.setattr(sys, "argv", ["script.py", "--small"])
        measure.run(main)
        (line,) = capsys.readouterr().out.splitlines()
        assert missing in line
        monkeypatch.setattr(sys, "argv", ["script.py"])
        with pytest.raises(SystemExit, match=missing):
            measure.run(main)


def test_a_module_of_this_repository_that_is_missing_is_an_error(measure, monkeypatch):
    def main() -> None:
        import keras_bert.no_such_module  # noqa: F401

    monkeypatch.setattr(sys, "argv", ["script.py", "--small"])
    with pytest.raises(ModuleNotFoundError):
        measure.run(main)


def test_a_small_run_without_data_says_so_and_succeeds(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "same_ids.py"), "--small", "--data", str(tmp_path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (line,) = output.splitlines()
    assert str(tmp_path / "gutenberg") in line


@pytest.mark.slow
def test_the_benchmark_for_gpus():
    pytest.importorskip("jax")
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}

    def output(*options):
        command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--small", *options]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    speeds = re.findall(r"(?:inference|training step), 4 rows of 16 tokens, .* keras_bert, JAX \| ([\d.]+)", output())
    assert len(speeds) == 4
    assert all(float(speed) > 0 for speed in speeds)
    exact, _, *low = re.findall(r"(\S+), (\S+) \|", output("--check", "bert-base").rpartition("| bert-base |")[2])
    assert all(float(each) < 1e-5 for each in exact)  # here both sides are the CPU
    assert all(1e-4 < float(each) < 2e-2 for pair in low for each in pair)

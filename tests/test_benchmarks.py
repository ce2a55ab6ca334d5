"""Benchmarks share their heading, their tables and their option --small. Those for GPUs run, at a small size."""

import argparse
import ast
import datetime
import importlib.metadata
import importlib.util
import os
import platform
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


def cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_each_script_has_the_shared_heading_and_table_and_a_small_size(script):
    nodes = list(ast.walk(ast.parse(script.read_text(encoding="utf-8"))))
    shared = {
        name.name for each in nodes if isinstance(each, ast.ImportFrom) and each.module == "_measure"
        for name in each.names
    }  # fmt: skip
    calls = [each for each in nodes if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)]
    called = {each.func.id for each in calls}
    assert {"heading", "table", "parse", "run"} <= shared & called
    (parse,) = (each for each in calls if each.func.id == "parse")
    assert parse.keywords, "nothing is smaller with --small"
    assert not any(isinstance(each, ast.Attribute) and each.attr == "parse_args" for each in nodes)
    texts = [each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    assert not any(re.match(r"\s*\|[ -]", text) for text in texts), "a table of its own"


def test_each_figure_of_the_docs_begins_with_the_command_that_prints_it_and_is_included():
    root = BENCHMARKS.parent
    pages = "".join(path.read_text(encoding="utf-8") for path in (root / "docs").rglob("*.md"))
    for figure in (root / "docs" / "figures").glob("*.md"):
        command, empty, heading = figure.read_text(encoding="utf-8").splitlines()[:3]
        python, script, *_ = shlex.split(command.removeprefix("`").removesuffix("`"))
        assert (python, root / script in SCRIPTS, empty) == ("python", True, ""), figure.name
        assert re.match(r"\d{4}-\d\d-\d\d; [0-9a-f]{7}", heading), figure.name
        assert re.search(rf"figures/{figure.name}$", pages, re.MULTILINE), f"no page includes {figure.name}"


def test_the_heading_has_command_date_commit_machine_and_versions(measure, capsys, monkeypatch):
    monkeypatch.setattr(measure, "commit", lambda: "1234567+")
    monkeypatch.setattr(sys, "argv", [str(BENCHMARKS / "encode.py"), "--only", "ONNX Runtime"])
    measure.heading(["pytest", "no-such-library", "keras"])
    command, line, rest = capsys.readouterr().out.split("\n\n")
    assert (command, rest) == ("`python benchmarks/encode.py --only 'ONNX Runtime'`", "")
    date, commit, machine, python, libraries = line.split("; ")
    assert abs(datetime.date.fromisoformat(date) - datetime.date.today()) <= datetime.timedelta(days=1)
    assert commit == "1234567+"
    model, cores, load, *flags = machine.split(", ")
    assert model
    assert cores == f"{measure.cores()} cores"
    assert float(load.removeprefix("load ")) >= 0
    assert set(flags) <= set(measure.FLAGS.values())
    assert python == f"Python {platform.python_version()}"
    assert libraries == ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("pytest", "keras"))


def test_the_commit_has_a_plus_if_files_differ_and_is_empty_outside_of_git(measure, tmp_path):
    def git(*what: str) -> str:
        author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        return subprocess.run(["git", *author, *what], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert measure.commit(tmp_path) == ""
    git("init")
    (tmp_path / "file").write_text("a")
    git("add", "file")
    git("commit", "--message", "a", "--no-gpg-sign")
    name = git("rev-parse", "--short", "HEAD").strip()
    assert measure.commit(tmp_path) == name
    (tmp_path / "file").write_text("b")
    assert measure.commit(tmp_path) == f"{name}+"


def test_a_table_has_each_value_and_prints_a_row_at_once(measure, capsys):
    printed = []

    def rows():
        yield ["a|b", 1]
        printed.append(capsys.readouterr().out)
        yield ["", 2.5]

    measure.table(("name", "times"), rows())
    empty, header, line, first = printed[0].splitlines()
    assert (empty, line) == ("", "|---|---|")
    assert cells(header) == ["name", "times"]
    assert cells(first) == ["a|b", "1"]
    second, empty = capsys.readouterr().out.splitlines()
    assert cells(second) == ["", "2.5"]
    assert empty == ""


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

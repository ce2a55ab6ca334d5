"""Names from files on a terminal: control characters are shown, not obeyed."""

import ast
import io
import itertools
import shutil
from pathlib import Path

import click.testing
import pytest
from safetensors.numpy import load_file, save_file

from keras_bert import BertClassifier, cli
from keras_bert.cli import launch

from ..support.commands import QUICK, columns, flat

SHORT = ("--epochs", "1", "--batch-size", "32")
EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m"


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda self: True)


@pytest.fixture
def model(untrained, tmp_path):
    """A classifier with an odd label and an odd weight."""
    BertClassifier.from_preset(untrained, labels=[f"a{EVIL}", "b"]).save_preset(tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    weights = load_file(path)
    save_file({**weights, f"odd{EVIL}": next(iter(weights.values()))}, path, {"format": "pt"})
    return tmp_path / "model"


@pytest.mark.filterwarnings("ignore")
def test_names_in_files_are_not_obeyed(run, model, terminal, tmp_path):
    (tmp_path / "a.csv").write_text("text,label\nthe cat,b\na film,b\n")
    shutil.copytree(model, tmp_path / f"copy{EVIL[-4:]}")
    for arguments in (
        ("inspect", model),
        ("convert", model, tmp_path / "converted"),
        ("evaluate", model, tmp_path / "a.csv"),
        ("convert", tmp_path / f"copy{EVIL[-4:]}", tmp_path / f"new{EVIL[-4:]}"),
    ):
        printed = run(*arguments).output
        assert r"\u009b31m" in printed, arguments
        assert not set(EVIL[:-4]) & {"\x1b", "\x07"} & set(printed), arguments


def test_names_in_files_stay_in_their_line(run, fails, untrained, tmp_path):
    BertClassifier.from_preset(untrained, labels=["good", "bad"]).save_preset(tmp_path / "model")
    config = tmp_path / "model/config.json"
    config.write_text(config.read_text().replace('"bad"', '"bad\\nnext        curl \\u202e"'))
    assert r"good, bad\u000anext        curl \u202e" in run("inspect", tmp_path / "model").output
    assert fails("inspect", "no\nway\u2028").startswith(r"'no\nway\u2028' is neither")
    assert fails("tokenize", "--file", "no\nway\u2028") == r"cannot read no\u000away\u2028: No such file or directory"


def test_one_function_prints_and_one_class_fails():
    """So that no command forgets to escape. Results are written by `write_lines`, which escapes them, too."""
    found = []
    for path in Path(cli.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.func if isinstance(node, ast.Call) else None
            called = getattr(name, "attr", getattr(name, "id", ""))
            if called in ("print", "secho", "ClickException") or (
                called == "echo" and path.stem != "terminal" and ast.unparse(name) not in ("echo", "terminal.echo")
            ):
                found.append(f"{path.name}:{node.lineno}")
    assert not found


def test_lines_of_workers_are_escaped():
    target = io.StringIO()
    target.isatty = lambda: True
    launch._copy_lines("[0] ", [f"a{EVIL}\n"], target)
    assert target.getvalue() == "[0] a\\u001b]0;title\\u0007\\u001b[2J\\u009b31m\n"


@pytest.mark.parametrize("command", ["predict", "evaluate", "encode", "classify", "pretrain", "vocab"])
def test_a_log_hears_of_long_work(run, classifier, untrained, table, corpus, tmp_path, monkeypatch, command):
    """Each of these commands can take longer than a minute; here a minute is soon over."""
    clock = itertools.count(step=100)
    monkeypatch.setattr("tqdm.std.time", lambda: float(next(clock)))
    (tmp_path / "texts.txt").write_text("the film was good\n" * 8)
    folder, options = corpus
    into = ("--output", tmp_path / "new")
    commands = {
        "predict": ("predict", classifier, "--file", table, "--text-column", "sentence"),
        "evaluate": ("evaluate", classifier, table, "--text-column", "sentence", "--label-column", "kind"),
        "encode": ("encode", "--file", tmp_path / "texts.txt"),
        "classify": ("finetune", "classify", "--preset", untrained, *QUICK, *SHORT, *columns(table), *into),
        "pretrain": ("pretrain", folder / "texts", *flat(options | {"--steps": "2"})),
        "vocab": ("vocab", folder / "texts", "--size", "90", "--output", tmp_path / "vocab.txt"),
    }
    lines = [line for line in run(*commands[command]).stderr.splitlines() if " elapsed" in line]
    words = {"classify": "epoch 1 of 1: ", "pretrain": "epoch 1 of 1: ", "vocab": "reading: "}.get(command, " texts, ")
    assert any(words in line for line in lines), lines

"""keras-bert tokenize --explain: a table for each text, and colours on a terminal."""

import subprocess
import sys

import click

from keras_bert.cli import explanations
from keras_bert.text import WordPieceTokenizer
from keras_bert.text.explanation import explain

from .test_processes import read_until, terminal  # noqa: F401 (a fixture)


def coloured(text: str) -> str:
    (pieces,) = explain(WordPieceTokenizer.from_preset("all-MiniLM-L6-v2"), [text])
    return explanations._coloured(text, pieces)


def test_a_table_for_each_text(run):
    result = run("tokenize", "--explain", "Cafés", " ", "x\u200b y")
    assert (result.exit_code, result.stderr) == (0, "")
    first, second, third = result.stdout.split("\n\n")
    assert [line.split("  ")[0] for line in first.splitlines()] == ["Cafés", "position", "0", "1", "2"]
    header = ["position", "type", "id", "piece", "bytes", "characters", "text", "changed"]
    assert [line.split() for line in second.splitlines()] == [
        [],
        header,
        ["0", "0", "101", "[CLS]"],
        ["1", "0", "102", "[SEP]"],
    ]
    assert third.splitlines()[0] == "x<U+200B> y"
    dropped = next(line for line in third.splitlines() if "dropped" in line)
    assert dropped.split() == ["1-4", "1-2", "<U+200B>", "U+200B", "dropped"]


def test_columns_stand_below_one_another(run):
    _, header, *rows = run("tokenize", "--explain", "東京 cafe\u0301").stdout.splitlines()
    place = header.index("text")
    for row, text in zip(rows[1:-1], ["東", "京", "cafe"], strict=True):
        before = row[: row.rindex(text)]
        assert len(before) + sum(each in "東京" for each in before) == place


def test_control_characters_of_a_text_do_not_reach_the_terminal(run):
    assert "\x1b" not in run("tokenize", "--explain", "a \x1b[31m b").stdout
    assert "<U+001B>" in coloured("a \x1b[31m b")


def test_colours_take_turns_and_leave_the_rest_plain():
    cyan, yellow = (lambda text, bg=bg: click.style(text, fg="black", bg=bg) for bg in ("cyan", "yellow"))
    assert coloured(" Unaffable me") == f" {cyan('Una')}{yellow('ffa')}{cyan('ble')} {yellow('me')}"
    assert click.unstyle(coloured("Né \u200b東京!")) == "Né <U+200B>東京!"


def test_colours_on_a_terminal_only(run, terminal):  # noqa: F811
    assert "\x1b" not in run("tokenize", "--explain", "a b").stdout
    user, stdout = terminal
    command = [sys.executable, "-m", "keras_bert.cli", "tokenize", "--explain", "a b"]
    subprocess.run(command, check=True, stdout=stdout, stderr=subprocess.PIPE)
    assert "\x1b[30m\x1b[46ma\x1b[0m \x1b[30m\x1b[43mb\x1b[0m" in read_until(r"\[SEP\]", user)


def test_no_other_format(fails):
    message = "--explain writes a table, not jsonl"
    assert fails("tokenize", "--explain", "--format", "jsonl", "a") == message
    assert fails("tokenize", "--explain", "--output", "a.jsonl", "a") == message


def test_into_a_file(run, tmp_path):
    path = tmp_path / "table.txt"
    assert run("tokenize", "--explain", "a b", "--output", str(path)).output == ""
    assert path.read_text("utf-8") == run("tokenize", "--explain", "a b").stdout

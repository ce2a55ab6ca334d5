"""keras-bert tokenize --explain: a table for each text, and colours on a terminal."""

import io

import click
import pytest

from keras_bert.cli import tokenize
from keras_bert.text import load_tokenizer
from keras_bert.text.explanation import explain

from ..support.processes import read_until


@pytest.fixture
def tokenizer(small_preset):
    return load_tokenizer(small_preset)


def coloured(tokenizer, text: str) -> str:
    (tokens,) = explain(tokenizer, [text])
    return tokenize._coloured(text, tokens)


def test_a_table_for_each_text(run):
    result = run("tokenize", "--explain", "Thé", " ", "x\u200b y")
    assert result.stderr == ""
    first, second, third = result.stdout.split("\n\n")
    assert [line.split("  ")[0] for line in first.splitlines()] == ["Thé", "position", "0", "1", "2"]
    header = ["position", "type", "id", "token", "bytes", "characters", "text", "changed"]
    special = [["0", "0", "2", "[CLS]"], ["1", "0", "3", "[SEP]"]]
    assert [line.split() for line in second.splitlines()] == [[], header, *special]
    assert third.splitlines()[0] == "x<U+200B> y"
    dropped = next(line for line in third.splitlines() if "dropped" in line)
    assert dropped.split() == ["1-4", "1-2", "<U+200B>", "U+200B", "dropped"]


def test_a_pair_is_one_table_with_types(run):
    first, second, _, *rows = run("tokenize", "--explain", "the", "--text-pair", "we\x07").stdout.splitlines()
    assert [first, second] == ["the", "we<U+0007>"]
    assert [row.split()[:2] for row in rows if "dropped" not in row] == [
        *(["0", "0"], ["1", "0"], ["2", "0"]),  # [CLS] the [SEP]
        *(["3", "1"], ["4", "1"]),  # we [SEP]
    ]


def test_columns_stand_below_one_another(run):
    _, header, *rows = run("tokenize", "--explain", "日本 the\u0301").stdout.splitlines()
    place = header.index("text")
    for row, text in zip(rows[1:-1], ["日", "本", "the"], strict=True):
        before = row[: row.rindex(text)]
        assert len(before) + sum(each in "日本" for each in before) == place


def test_control_characters_of_a_text_do_not_reach_the_terminal(run, tokenizer):
    assert "\x1b" not in run("tokenize", "--explain", "a \x1b[31m b").stdout
    assert "<U+001B>" in coloured(tokenizer, "a \x1b[31m b")


def test_colours_take_turns_and_leave_the_rest_plain(tokenizer):
    cyan, yellow = (lambda text, bg=bg: click.style(text, fg="black", bg=bg) for bg in ("cyan", "yellow"))
    assert coloured(tokenizer, " Watchings we") == f" {cyan('Watch')}{yellow('ing')}{cyan('s')} {yellow('we')}"
    assert click.unstyle(coloured(tokenizer, "Né \u200b日本!")) == "Né <U+200B>日本!"


class Terminal(io.BytesIO):
    def isatty(self):
        return True


COLOURED = "\x1b[30m\x1b[46ma\x1b[0m \x1b[30m\x1b[43mb\x1b[0m"


def test_colours_on_a_terminal_only(run, tokenizer):
    assert "\x1b" not in run("tokenize", "--explain", "a b").stdout
    terminal = Terminal()
    tokenize.write(terminal, tokenizer, [["a b"]])
    assert terminal.getvalue().decode().startswith(COLOURED)
    pair = Terminal()
    tokenize.write(pair, tokenizer, [["a b"]], ["a b"])
    assert pair.getvalue().decode().startswith(f"{COLOURED}\n{COLOURED}\n")


@pytest.mark.timing
@pytest.mark.slow
def test_colours_of_a_process(start, small_preset, terminal):
    user, stdout = terminal
    start("tokenize", "--preset", small_preset, "--explain", "a b", stdout=stdout)
    assert COLOURED in read_until(r"\[SEP\]", user)


def test_a_second_text_that_is_not_utf_8(fails):
    assert "not UTF-8" in fails("tokenize", "--explain", "a", "--text-pair", "caf\udce9")


def test_into_a_file(run, tmp_path):
    path = tmp_path / "table.txt"
    assert run("tokenize", "--explain", "a b", "--output", path).output == ""
    assert path.read_text("utf-8") == run("tokenize", "--explain", "a b").stdout

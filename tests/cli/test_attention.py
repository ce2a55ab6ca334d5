"""keras-bert attention: what it writes, and what it refuses."""

import sys

import pytest

from keras_bert import BertEncoder, BertPreprocessor
from keras_bert.visualize import attention

from ..support.data import ROOT
from ..support.disks import files_of_at_most

TEXTS = ("the film", "it </script><script>was</script> good")


def test_page(run, small_preset, tmp_path):
    path = tmp_path / "attention.html"
    result = run("attention", *TEXTS, "-o", path, "--layer", "1")
    assert result.stderr == ""
    view = attention(*(cls.from_preset(small_preset) for cls in (BertEncoder, BertPreprocessor)), *TEXTS)
    assert path.read_bytes() == view.rendered(path, layer=1)
    assert result.stdout == f"{path}: 2 layers of 4 heads, {len(view.weights.tokens)} tokens\n"


def test_picture_of_one_head_and_of_all(run, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "attention.png"
    run("attention", TEXTS[0], "--output", path, "--layer", "1", "--head", "3")
    one = path.read_bytes()
    assert one.startswith(b"\x89PNG")
    run("attention", TEXTS[0], "-o", path, "--overwrite")
    assert path.read_bytes() != one


def test_full_disk(fails, tmp_path):
    path = tmp_path / "attention.html"
    with files_of_at_most(1000):
        assert fails("attention", TEXTS[0], "--output", path, exit_code=1) == f"{path}: File too large"


def test_mistakes(fails, tmp_path, monkeypatch):
    def refused(*arguments, name="attention.html"):
        message = fails("attention", *arguments, "--output", tmp_path / name)
        assert not list(tmp_path.iterdir())
        return message

    assert refused("film " * 47).startswith("the text is 49 tokens long, 2 special tokens included")
    assert refused("a", "--head", "4") == "head is 4, but this model has the heads 0 to 3"
    assert "vocab.txt" in refused("a", "--preset", ROOT / "tests/golden/tiny-bert")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert refused("a", name="attention.png").startswith("this needs matplotlib: pip install")

"""The same files by a pipeline."""

import json
import sys

import pytest

from keras_bert.embedding import embed_files
from keras_bert.embedding.beam_embedding import embed_files_with_beam
from keras_bert.embedding.work import NOTES


def files_of(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_pipeline(tmp_path, shards, small_preset):
    pytest.importorskip("apache_beam", reason="needs Apache Beam, which holds back numpy and protobuf")
    alone, piped = tmp_path / "alone", tmp_path / "piped"
    counts = embed_files(shards, alone, small_preset)
    assert embed_files_with_beam(shards, piped, small_preset) == counts
    assert files_of(piped) == files_of(alone)
    (piped / "a.jsonl").write_bytes(b"left alone")
    for embed in (embed_files, embed_files_with_beam):  # nothing is left to do
        assert embed(shards, piped, small_preset) == counts
    assert files_of(piped) == files_of(alone) | {"a.jsonl": b"left alone"}


def test_a_pipeline_that_fails(tmp_path, shards, small_preset):
    """A bad row is told before any is embedded; what goes on is either function."""
    pytest.importorskip("apache_beam", reason="needs Apache Beam, which holds back numpy and protobuf")
    bad, directory = tmp_path / "bad.jsonl", tmp_path / "vectors"
    bad.write_text('{"text": "good"}\n{"text": 5}\n')
    with pytest.raises(Exception, match="bad.jsonl, line 2: text is 5, which is not a text"):
        embed_files_with_beam([*shards, bad], directory, small_preset)
    assert [path.name for path in directory.iterdir()] == [NOTES]
    bad.write_text('{"text": "good"}\n')
    assert embed_files([*shards, bad], directory, small_preset)["rows"] == 45
    assert all(json.loads((directory / NOTES).read_text())["files"].values())


def test_without_beam(tmp_path, shards, small_preset, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(ImportError, match=r"needs Apache Beam: pip install 'keras-bert-models\[beam\]'"):
        embed_files_with_beam(shards, tmp_path, small_preset)

"""The same files by a pipeline."""

import json

import pytest

from keras_bert.embedding import embed_files
from keras_bert.embedding.file_embedding import NOTES

pytest.importorskip("apache_beam", reason="needs Apache Beam, which holds back numpy and protobuf")
from apache_beam.options.pipeline_options import PipelineOptions

from ..support.messages import error_names


def files_of(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_pipeline(tmp_path, shards, small_preset):
    alone, piped = tmp_path / "alone", tmp_path / "piped"
    counts = embed_files(shards, alone, small_preset)
    assert embed_files(shards, piped, small_preset, pipeline_options=PipelineOptions()) == counts
    assert files_of(piped) == files_of(alone)
    (piped / "a.jsonl").write_bytes(b"left alone")
    for options in (None, PipelineOptions()):  # nothing is left to do
        assert embed_files(shards, piped, small_preset, pipeline_options=options) == counts
    assert files_of(piped) == files_of(alone) | {"a.jsonl": b"left alone"}


def test_a_pipeline_that_fails(tmp_path, shards, small_preset):
    """A bad row is told before any is embedded; either way goes on."""
    bad, directory = tmp_path / "bad.jsonl", tmp_path / "vectors"
    bad.write_text('{"text": "good"}\n{"text": 5}\n')
    with error_names(Exception, bad, "line 2", "text is 5"):
        embed_files([*shards, bad], directory, small_preset, pipeline_options=PipelineOptions())
    assert [path.name for path in directory.iterdir()] == [NOTES]
    bad.write_text('{"text": "good"}\n')
    assert embed_files([*shards, bad], directory, small_preset)["rows"] == 45
    assert all(json.loads((directory / NOTES).read_text())["files"].values())

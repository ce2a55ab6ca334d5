"""keras-bert project: what TensorBoard's own reader makes of it, one text a line, all or nothing."""

import numpy as np
import pytest

from keras_bert import BertSentenceEncoder
from keras_bert.cli import streams
from keras_bert.embedding.projector import write_projector

TEXTS = ["a cat", "", "tab\there", "  spaces \u2028 and \x0b more ", "Zoë 🦒"]
SHOWN = ["a cat", "(empty)", "tab here", "spaces and more", "Zoë 🦒"]


@pytest.fixture
def written(run, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "TEXTS_AT_A_TIME", 2)
    result = run("project", "--output", str(tmp_path / "out"), input="".join(f"{text}\n" for text in TEXTS).encode())
    assert result.stderr == ""
    assert result.stdout == f"5 texts; to see them: tensorboard --logdir {tmp_path / 'out'}\n"
    return tmp_path / "out"


def test_a_line_for_each_text(written, small_preset):
    vectors = BertSentenceEncoder.from_preset(small_preset).encode(TEXTS)
    assert (written / "metadata.tsv").read_bytes().decode() == "".join(f"{text}\n" for text in SHOWN)
    found = np.loadtxt(written / "vectors.tsv", dtype=np.float32, delimiter="\t")
    np.testing.assert_allclose(found, vectors, rtol=0, atol=1e-5)
    assert {path.name for path in written.iterdir()} == {"vectors.tsv", "metadata.tsv", "projector_config.pbtxt"}


def test_what_tensorboard_reads(written):
    text_format = pytest.importorskip("google.protobuf.text_format")
    plugin = pytest.importorskip("tensorboard.plugins.projector.projector_plugin")
    pb2 = pytest.importorskip("tensorboard.plugins.projector.projector_config_pb2")
    config = text_format.Parse((written / "projector_config.pbtxt").read_text(), pb2.ProjectorConfig())
    (embedding,) = config.embeddings
    assert plugin._read_tensor_tsv_file(str(written / embedding.tensor_path)).shape == (5, 32)
    assert (written / embedding.metadata_path).is_file()


def test_nothing_is_replaced_unasked(run, fails, tmp_path):
    output = tmp_path / "out"
    assert run("project", "--output", output, input=b"a\n").stdout.startswith("1 text;")
    assert fails("project", "--output", output, input=b"b\n").endswith(
        "exists; pass overwrite to replace it, or choose another name"
    )
    run("project", "--output", output, "--overwrite", input=b"b\n")
    assert (tmp_path / "out" / "metadata.tsv").read_text() == "b\n"


@pytest.mark.parametrize(("data", "message"), [(b"", "there are no texts"), (b"a\n\xff\n", "standard input, line 2")])
def test_what_fails_leaves_nothing(fails, tmp_path, data, message):
    assert fails("project", "--output", tmp_path / "out", input=data).startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_blocks_are_written_as_they_come(tmp_path):
    def blocks():
        for row in range(3):
            yield [str(row)], np.float32([[row, 0]])
        (unfinished,) = tmp_path.iterdir()
        assert {path.name for path in unfinished.iterdir()} == {"vectors.tsv", "metadata.tsv"}

    assert write_projector(tmp_path / "out", blocks()) == 3

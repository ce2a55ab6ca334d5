"""`--precision` of the commands that compute answers."""

import json

import numpy as np
import pytest

from keras_bert import BertSentenceEncoder
from keras_bert.inference import onednn

pytestmark = pytest.mark.skipif(not onednn.has_int8(), reason="no oneDNN")
TEXTS = ["the cat sat on the mat", "a very long story about a river", "good"]


@pytest.fixture(autouse=True)
def _a_model_for_each_command(monkeypatch):
    """A precision stays with its model, which the other tests share."""
    monkeypatch.setattr(BertSentenceEncoder, "from_preset", BertSentenceEncoder.from_preset.__wrapped__)


def test_encode_and_embed(run, tmp_path):
    for precision in ("float32", "int8"):
        result = run("encode", *TEXTS, "--precision", precision, "--output", str(tmp_path / f"{precision}.npy"))
        assert result.exit_code == 0, result.output
        assert ("a few built-in sentences" in result.stderr) == (precision == "int8")
    exact, lower = (np.load(tmp_path / f"{precision}.npy") for precision in ("float32", "int8"))
    assert 0.97 < (exact * lower).sum(axis=1).min() < 0.9999
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    assert run("embed", str(texts), "--precision", "int8", "--output", str(tmp_path / "vectors")).exit_code == 0
    rows = [json.loads(line)["vector"] for line in (tmp_path / "vectors" / "texts.jsonl").read_text().splitlines()]
    np.testing.assert_allclose(rows, lower, atol=1e-6)
    again = run("embed", str(texts), "--output", str(tmp_path / "vectors"))  # would mix two precisions
    assert again.exit_code == 2
    assert "with other preset" in again.stderr


def test_own_texts(run, tmp_path):
    given = tmp_path / "given.txt"
    given.write_text("\n".join(TEXTS * 5))
    result = run("encode", *TEXTS, "--precision", "int8", "--calibration", str(given))
    assert result.exit_code == 0
    assert "built-in" not in result.stderr
    assert run("encode", *TEXTS, "--precision", "int8").stdout != result.stdout


@pytest.mark.parametrize(
    ("content", "precision", "message"),
    [
        ("a text", "bfloat16", "--calibration is for --precision int8"),
        ("\n\n", "int8", "is empty"),
        (None, "int8", "No such file"),
    ],
)
def test_bad_calibration(run, tmp_path, content, precision, message):
    given = tmp_path / "given.txt"
    if content is not None:
        given.write_text(content)
    result = run("encode", "a", "--precision", precision, "--calibration", str(given))
    assert result.exit_code == 2
    assert message in result.stderr

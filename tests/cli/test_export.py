"""keras-bert export: what it writes, what it says, and what it refuses."""

import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertEncoder, BertPreprocessor, BertSentenceEncoder
from keras_bert.text import WordPieceTokenizer

from .test_processes import HANGS, start  # noqa: F401 (a fixture)

TEXT = tf.constant(["I love pizza"])


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """A small model with a vocabulary: what takes long here is TensorFlow, not its size."""
    directory = tmp_path_factory.mktemp("preset")
    tokenizer = WordPieceTokenizer.from_preset("all-MiniLM-L6-v2")
    preprocessor = BertPreprocessor(tokenizer, sequence_length=None)
    BertSentenceEncoder(BertEncoder(BertConfig.tiny()), preprocessor).save_preset(directory)
    return str(directory)


@pytest.mark.slow
def test_preprocessor(run, preset, tmp_path):
    for options, length in (((), 128), (("--sequence-length", "7"), 7), (("--sequence-length", "0"), 5)):
        result = run("export", "preprocessor", "--preset", preset, "--output", str(tmp_path / str(length)), *options)
        assert result.stdout.startswith(f"{tmp_path / str(length)}: ")
        loaded = tf.saved_model.load(tmp_path / str(length))
        assert loaded(TEXT)["input_word_ids"].shape == (1, length)
        assert loaded(TEXT)["input_word_ids"].numpy()[0, :5].tolist() == [101, 1045, 2293, 10733, 102]


def test_encoder(run, preset, tmp_path):
    result = run("export", "encoder", "--preset", preset, "--output", str(tmp_path / "a"))
    assert result.stdout == f"{tmp_path / 'a'}: {size(tmp_path / 'a'):.1f} MB\n"
    run("export", "encoder", "--preset", preset, "--output", str(tmp_path / "b"), "--dtype", "float16")
    assert size(tmp_path / "b") < 0.6 * size(tmp_path / "a")
    inputs = BertPreprocessor.from_preset(preset)(TEXT)
    expected = BertEncoder.from_preset(preset)(inputs)["pooled_output"]
    for name, tolerance in (("a", 1e-6), ("b", 1e-2)):
        outputs = tf.saved_model.load(tmp_path / name)(inputs)
        np.testing.assert_allclose(outputs["pooled_output"], expected, rtol=0, atol=tolerance)


def size(directory):
    return sum(each.stat().st_size for each in directory.rglob("*") if each.is_file()) / 1e6


def test_serving_and_check(run, fails, preset, tmp_path):
    for options, version in (((), "1"), ((), "2"), (("--version", "7"), "7")):
        result = run("export", "serving", "--preset", preset, "--output", str(tmp_path), *options)
        assert result.stdout.startswith(f"{tmp_path / version}: ")
    signature = tf.saved_model.load(tmp_path / "7").signatures["serving_default"]
    expected = BertSentenceEncoder.from_preset(preset)(TEXT)
    np.testing.assert_allclose(signature(text=TEXT)["embedding"], expected, rtol=0, atol=1e-6)
    message = fails("export", "serving", "--preset", preset, "--output", str(tmp_path), "--version", "7")
    assert message.endswith("exists; pass --overwrite to replace it, or choose another name")

    assert "each on disk once" in run("export", "--check", str(tmp_path)).stdout
    (tmp_path / "7" / "saved_model.pb").write_bytes(b"nonsense")
    assert "damaged" in fails("export", "--check", str(tmp_path), exit_code=1)


def test_what_is_there_stays(run, fails, preset, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    message = fails("export", "preprocessor", "--preset", preset, "--output", str(tmp_path), "--overwrite")
    assert "will not be replaced" in message
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say what to export"),
        (["--check", "x", "encoder", "--output", "y"], "--check stands alone"),
        (["encoder", "--preset", "nowhere", "--output", "y"], "neither a directory nor a known preset"),
        (["preprocessor", "--output", "y", "--sequence-length", "2"], "sequence_length is 2"),
        (["preprocessor", "--output", "y", "--sequence-length", "1000"], "sequence_length is 1000"),
    ],
)
def test_mistakes(fails, arguments, message):
    assert message in fails("export", *arguments)


@pytest.mark.slow
def test_an_interrupt_leaves_nothing(start, preset, tmp_path):  # noqa: F811
    process = start("export", "serving", "--preset", preset, "--output", str(tmp_path / "model"))
    while not list(tmp_path.glob("model/.1.*.new/variables/*")):  # in the middle of writing
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(HANGS) == 130
    assert list((tmp_path / "model").iterdir()) == []

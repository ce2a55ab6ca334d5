"""Ranges of int8: what they are found with, which blocks are left out, and how a preset keeps them."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_bert import BertClassifier, BertQuestionAnswerer, BertSentenceEncoder
from keras_bert.inference import onednn, precision, read_ranges, set_precision
from keras_bert.inference.calibration import SAMPLE_TEXTS, block_losses, mean_cosine
from keras_bert.inference.ranges import FILE

from ..support import small
from ..support.encoders import random_encoder, random_inputs
from ..support.messages import error_names, warning_names

pytestmark = pytest.mark.skipif(not onednn.has_int8(), reason="no oneDNN")
TEXTS = ["the cat sat on the mat", "a very long story about a river, a bank and the money in it", "good", "bad film!"]
OTHERS = ["great music, great story", "dull, not good, cold", "hate it", "love the plot"]


def vectors(model):
    return np.asarray(model.encode(TEXTS, progress=False))


@pytest.fixture
def model():
    return BertSentenceEncoder(small.encoder(), small.preprocessor())


def test_a_preset_keeps_the_ranges(model, tmp_path):
    model.set_precision("int8", TEXTS)
    expected = vectors(model)
    model.set_precision("float32")
    model.save_preset(tmp_path)
    assert read_ranges(tmp_path).is_built_in is False
    loaded = BertSentenceEncoder.from_preset(tmp_path, precision="int8")
    np.testing.assert_array_equal(vectors(loaded), expected)
    loaded.set_precision("int8", OTHERS)
    assert np.abs(vectors(loaded) - expected).max() > 1e-4
    built_in = BertSentenceEncoder(small.encoder(), small.preprocessor())
    built_in.set_precision("int8")
    assert np.abs(vectors(built_in) - expected).max() > 1e-4
    assert built_in.encoder.inference.ranges.is_built_in


def test_ranges_of_other_weights_are_not_used(model, tmp_path):
    model.set_precision("int8", TEXTS)
    model.save_preset(tmp_path / "kept")
    ranges = read_ranges(tmp_path / "kept")
    model.set_precision("float32")
    kernel = model.encoder.blocks[0].intermediate.kernel
    kernel.assign(kernel * 1.5)
    with error_names(ValueError, "int8 ranges", "other weights", "calibrate again"):
        set_precision(model.encoder, "int8", ranges=ranges)
    model.save_preset(tmp_path / "kept", overwrite=True)
    assert not (tmp_path / "kept" / FILE).exists()
    model.set_precision("int8")
    assert model.encoder.inference.ranges.is_built_in
    # Another program has written weights beside the ranges.
    model.save_preset(tmp_path / "other")
    (tmp_path / "other" / FILE).unlink()
    fresh = BertSentenceEncoder(small.encoder(), small.preprocessor())
    fresh.set_precision("int8", TEXTS)
    fresh.save_preset(tmp_path / "fresh")
    (tmp_path / "fresh" / FILE).rename(tmp_path / "other" / FILE)
    with warning_names(tmp_path / "other" / FILE, "other weights"):
        BertSentenceEncoder.from_preset(tmp_path / "other")


def test_a_damaged_file_is_refused(model, tmp_path):
    model.set_precision("int8", TEXTS)
    model.save_preset(tmp_path)
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[:200])
    with error_names(ValueError, tmp_path / FILE, "damaged", "remove it", "calibrate again"):
        BertSentenceEncoder.from_preset(tmp_path)
    (tmp_path / FILE).write_bytes(whole)
    tensors = load_file(tmp_path / FILE)
    tensors["block_0/qkv/limit"][:] = np.nan
    save_file(tensors, tmp_path / FILE, {"weights": "", "blocks": "2", "built_in": "False"})
    with error_names(ValueError, tmp_path / FILE, "block_0/qkv", "positive"):
        read_ranges(tmp_path)


def test_a_block_that_loses_too_much_is_left_out(monkeypatch):
    """Large values in a few columns of one block's GELU leave no precision to the others."""
    encoder = random_encoder(num_layers=3, hidden_size=24, intermediate_size=40)
    bias = encoder.blocks[1].intermediate.bias
    bias.assign(np.where(np.arange(40) < 2, 3000.0, np.asarray(bias)))
    kernel = np.asarray(encoder.blocks[1].output_dense.kernel).copy()
    kernel[:2] *= 1e-3
    encoder.blocks[1].output_dense.kernel.assign(kernel)
    batches = [random_inputs(seed=seed) for seed in (2, 3)]
    monkeypatch.setattr(precision, "_LEAST_COSINE", 0.97)
    set_precision(encoder, "int8", batches)
    assert encoder.inference.ranges.float_blocks == [1]
    monkeypatch.setattr(precision, "_LEAST_COSINE", 0.0)
    inputs = random_inputs(seed=4)
    exact, chosen = (np.asarray(each(inputs)["sequence_output"]) for each in (encoder_of(encoder), encoder))
    set_precision(encoder, "int8", batches)
    assert encoder.inference.ranges.float_blocks == []
    everything = np.asarray(encoder(inputs)["sequence_output"])
    assert np.square(chosen - exact).mean() < 0.5 * np.square(everything - exact).mean()


def encoder_of(encoder):
    """The same weights in float32."""
    return lambda inputs: encoder.run(inputs, encoder.blocks)


def test_the_choice_is_kept(monkeypatch, model, tmp_path):
    monkeypatch.setattr(precision, "_LEAST_COSINE", 1.1)  # never reached: no block is int8
    model.set_precision("int8", TEXTS)
    assert model.encoder.inference.ranges.float_blocks == list(range(model.encoder.config.num_layers))
    model.save_preset(tmp_path)
    loaded = BertSentenceEncoder.from_preset(tmp_path, precision="int8")
    np.testing.assert_array_equal(vectors(loaded), vectors(model))


def test_pairs():
    model = small.task(BertQuestionAnswerer, text={"stride": 8})
    model.set_precision("int8", (TEXTS, OTHERS))
    pairs = model.encoder.inference.ranges
    model.set_precision("int8", (TEXTS, TEXTS))
    assert pairs.blocks[0]["qkv"].limit != model.encoder.inference.ranges.blocks[0]["qkv"].limit
    model = small.task(BertQuestionAnswerer, text={"stride": 8})
    model.set_precision("int8")  # built-in pairs
    assert model.encoder.inference.ranges.is_built_in


def test_texts_of_another_task_are_refused():
    model = small.task(BertQuestionAnswerer, text={"stride": 8})
    with error_names(ValueError, "question and context", "a tuple of two lists", "not a list"):
        model.set_precision("int8", TEXTS)
    with error_names(ValueError, "4 first", "3 second"):
        model.set_precision("int8", (TEXTS, OTHERS[:3]))
    with error_names(ValueError, "reads text", "a list of texts", "not a tuple"):
        small.task(BertClassifier, labels=["a", "b"]).set_precision("int8", (TEXTS, OTHERS))


def test_windows():
    model = small.task(BertClassifier, labels=["a", "b"])
    encoder = model.encoder
    preprocessor = small.preprocessor(sequence_length=6, stride=3)
    model = BertClassifier(encoder, preprocessor, labels=["a", "b"])
    model.set_precision("int8", TEXTS)
    assert model.classify(TEXTS)


@pytest.mark.slow
def test_other_backends():
    pytest.importorskip("jax")
    code = (
        "from keras_bert import BertConfig, BertEncoder\n"
        "from keras_bert.inference import set_precision\n"
        "set_precision(BertEncoder(BertConfig.tiny()), 'int8')"
    )
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    last = result.stderr.strip().splitlines()[-1]
    assert last == "ValueError: precision='int8' needs Keras's TensorFlow backend, not jax"


def test_losses_are_means_over_the_tokens_of_all_batches():
    """Whatever batches they are in; a text of two words counts less than one of nine."""
    exact, other = small.encoder(seed=0), small.encoder(seed=1)
    texts = ["good film", "she loved the plot and hated the music not"]
    whole, parts = ([small.preprocessor()(each) for each in batches] for batches in ([texts], [texts[:1], texts[1:]]))
    of_texts = [mean_cosine(exact, other.blocks, None, [part]) for part in parts]
    tokens = [int(np.sum(part["input_mask"])) for part in parts]
    expected = np.average(of_texts, weights=tokens)
    assert abs(expected - np.mean(of_texts)) > 1e-3
    for batches in (whole, parts):
        assert mean_cosine(exact, other.blocks, None, batches) == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(*(block_losses(exact, other.blocks, each) for each in (whole, parts)), atol=1e-5)


def test_texts_that_are_too_few_are_warned_of():
    """Of real weights: with the range of one word, hidden states of other texts are clipped."""
    model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.set_precision("int8", SAMPLE_TEXTS[::2])
    with pytest.warns(UserWarning, match=r"too few.* cosine to float32 is 0\.[789]"):
        model.set_precision("int8", ["no"])

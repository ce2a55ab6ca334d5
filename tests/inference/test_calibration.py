"""Ranges of int8: what they are found with, which blocks are left out, and how a preset keeps them."""

import shutil
import warnings

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_bert import BertClassifier, BertQuestionAnswerer, BertSentenceEncoder
from keras_bert.formats.model_files import INT8_RANGES
from keras_bert.formats.weight_files import write_checked
from keras_bert.inference import precision, read_ranges, set_precision
from keras_bert.inference.calibration import SAMPLE_TEXTS, block_errors, mean_cosine
from keras_bert.tasks.base import low_precision

from ..support import small
from ..support.encoders import random_encoder, random_inputs
from ..support.messages import error_names, warning_names
from ..support.precisions import needs_int8

pytestmark = [pytest.mark.slow, needs_int8]
TEXTS = ["the cat sat on the mat", "a very long story about a river, a bank and the money in it", "good", "bad film!"]
OTHERS = ["great music, great story", "dull, not good, cold", "hate it", "love the plot"]


def vectors(model):
    return np.asarray(model.encode(TEXTS, progress=False))


def sentence_encoder():
    return BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor())


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A preset with the ranges of TEXTS, and what it computes with them."""
    model, directory = sentence_encoder(), tmp_path_factory.mktemp("kept")
    model.set_precision("int8", TEXTS)
    expected = vectors(model)
    model.set_precision("float32")
    model.save_preset(directory)
    return directory, expected


@pytest.fixture
def copied(kept, tmp_path):
    return shutil.copytree(kept[0], tmp_path / "copied")


def test_a_preset_keeps_the_ranges(kept):
    directory, expected = kept
    assert read_ranges(directory).is_built_in is False
    assert {"block_0/qkv/limit", "block_0/qkv/divisors"} <= load_file(
        directory / INT8_RANGES
    ).keys()  # as in older presets
    loaded = BertSentenceEncoder.from_preset(directory, precision="int8")
    np.testing.assert_array_equal(vectors(loaded), expected)
    loaded.set_precision("int8", OTHERS)
    assert np.abs(vectors(loaded) - expected).max() > 1e-4


def test_ranges_of_other_weights_are_not_used(copied):
    model, ranges = BertSentenceEncoder.from_preset(copied), read_ranges(copied)
    model.save_preset(copied, overwrite=True)
    assert (copied / INT8_RANGES).exists()  # the weights are still those of the ranges
    kernel = model.encoder.blocks[0].intermediate.kernel
    kernel.assign(kernel * 1.5)
    with error_names(ValueError, "int8 ranges", "other weights", "calibrate again"):
        set_precision(model.encoder, "int8", ranges=ranges)
    content = (copied / INT8_RANGES).read_bytes()
    model.save_preset(copied, overwrite=True)
    assert not (copied / INT8_RANGES).exists()
    model.set_precision("int8")
    assert model.encoder.inference.ranges.is_built_in
    (copied / INT8_RANGES).write_bytes(content)  # as if another program had written the weights
    with warning_names(copied / INT8_RANGES, "other weights"):
        BertSentenceEncoder.from_preset(copied)


def test_a_damaged_file_is_refused(copied):
    whole = (copied / INT8_RANGES).read_bytes()
    (copied / INT8_RANGES).write_bytes(whole[:200])
    with error_names(ValueError, copied / INT8_RANGES, "damaged", "remove it", "calibrate again"):
        BertSentenceEncoder.from_preset(copied)
    (copied / INT8_RANGES).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with error_names(ValueError, copied / INT8_RANGES, "damaged", "checksum", "calibrate again"):
        BertSentenceEncoder.from_preset(copied)
    (copied / INT8_RANGES).write_bytes(whole)
    tensors = load_file(copied / INT8_RANGES)
    tensors["block_0/qkv/limit"][:] = np.nan
    settings = {"weights": "", "blocks": "1", "built_in": "False"}
    save_file(tensors, copied / INT8_RANGES, settings)
    with error_names(ValueError, copied / INT8_RANGES, "damaged", "checksum"):
        read_ranges(copied)
    write_checked(copied / INT8_RANGES, tensors, settings)
    with error_names(ValueError, copied / INT8_RANGES, "block_0/qkv", "positive"):
        read_ranges(copied)


def test_a_block_that_loses_too_much_is_left_out(monkeypatch):
    """Large values in a few columns of one block's GELU leave no precision to the others."""
    encoder = random_encoder(num_layers=3, hidden_size=24, intermediate_size=40)
    bias = encoder.blocks[1].intermediate.bias
    bias.assign(np.where(np.arange(40) < 2, 3000.0, np.asarray(bias)))
    kernel = np.asarray(encoder.blocks[1].output_dense.kernel).copy()
    kernel[:2] *= 1e-3
    encoder.blocks[1].output_dense.kernel.assign(kernel)
    batches = [random_inputs(seed=seed) for seed in (2, 3)]
    monkeypatch.setattr(precision, "_MIN_CALIBRATION_COSINE", 0.97)
    set_precision(encoder, "int8", batches)
    assert encoder.inference.ranges.float_blocks == [1]
    monkeypatch.setattr(precision, "_MIN_CALIBRATION_COSINE", 0.0)
    inputs = random_inputs(seed=4)
    exact, chosen = (np.asarray(each(inputs)["sequence_output"]) for each in (encoder_of(encoder), encoder))
    set_precision(encoder, "int8", batches)
    assert encoder.inference.ranges.float_blocks == []
    everything = np.asarray(encoder(inputs)["sequence_output"])
    assert np.square(chosen - exact).mean() < 0.5 * np.square(everything - exact).mean()


def test_the_order_of_batches_is_of_no_account():
    encoder, batches = random_encoder(), [random_inputs(seed=seed) for seed in (2, 3)]
    set_precision(encoder, "int8", batches)
    before = encoder.inference.ranges.blocks[0]
    set_precision(encoder, "int8", batches[::-1])
    for name, found in encoder.inference.ranges.blocks[0].items():
        np.testing.assert_array_equal(found.smoothing_scales, before[name].smoothing_scales)


def encoder_of(encoder):
    """The same weights in float32."""
    return lambda inputs: encoder.run(inputs, encoder.blocks)


def test_the_choice_is_kept(monkeypatch, tmp_path):
    model = sentence_encoder()
    monkeypatch.setattr(precision, "_MIN_CALIBRATION_COSINE", 1.1)  # never reached: no block is int8
    model.set_precision("int8", TEXTS)
    assert model.encoder.inference.ranges.float_blocks == list(range(model.encoder.config.num_layers))
    model.save_preset(tmp_path)
    loaded = BertSentenceEncoder.from_preset(tmp_path, precision="int8")
    np.testing.assert_array_equal(vectors(loaded), vectors(model))


def test_both_texts_of_a_pair_calibrate_in_windows_too():
    model = small.task(BertQuestionAnswerer, text={"stride": 8}, config={"num_layers": 1})
    limits = []
    for contexts in (OTHERS, TEXTS):
        model.set_precision("int8", (TEXTS, contexts))
        limits.append(model.encoder.inference.ranges.blocks[0]["qkv"].limit)
    assert limits[0] != limits[1]


def test_texts_of_another_task_are_refused():
    model = small.task(BertQuestionAnswerer, text={"stride": 8})
    with error_names(ValueError, "question and context", "a tuple of two lists", "not a list"):
        model.set_precision("int8", TEXTS)
    with error_names(ValueError, "4 first", "3 second"):
        model.set_precision("int8", (TEXTS, OTHERS[:3]))
    with error_names(ValueError, "reads text", "a list of texts", "not a tuple"):
        small.task(BertClassifier, labels=["a", "b"]).set_precision("int8", (TEXTS, OTHERS))


def test_other_backends_are_refused(monkeypatch):
    encoder = small.encoder(num_layers=1)
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with error_names(ValueError, "precision='int8'", "TensorFlow backend", "not jax"):
        set_precision(encoder, "int8")


def test_errors_are_means_over_the_tokens_of_all_batches(untraced):
    """Whatever batches they are in; a text of two words counts less than one of nine."""
    exact, other = (small.encoder(seed=seed, num_layers=1) for seed in (0, 1))
    texts = ["good film", "she loved the plot and hated the music not"]
    whole, parts = ([small.preprocessor()(each) for each in batches] for batches in ([texts], [texts[:1], texts[1:]]))
    of_texts = [mean_cosine(exact, other.blocks, None, [part]) for part in parts]
    tokens = [int(np.sum(part["input_mask"])) for part in parts]
    expected = np.average(of_texts, weights=tokens)
    assert abs(expected - np.mean(of_texts)) > 1e-3
    for batches in (whole, parts):
        assert mean_cosine(exact, other.blocks, None, batches) == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(*(block_errors(exact, other.blocks, each) for each in (whole, parts)), atol=1e-5)


def test_inputs_without_a_mask_have_no_padding(untraced):
    exact, other = (small.encoder(seed=seed, num_layers=1) for seed in (0, 1))
    masked = small.preprocessor()(["she loved the plot"])
    bare = {name: each for name, each in masked.items() if name != "input_mask"}
    found, expected = (mean_cosine(exact, other.blocks, None, [each]) for each in (bare, masked))
    assert found == pytest.approx(expected, abs=1e-5)


def test_a_low_cosine_to_float32_is_warned_of(monkeypatch):
    monkeypatch.setattr(low_precision, "_MIN_UNSEEN_COSINE", 1.1)  # never reached
    with warning_names("too few", "cosine to float32", "without texts"):
        sentence_encoder().set_precision("int8", TEXTS)


def test_texts_that_are_too_few_are_warned_of():
    """Of real weights: with the range of one word, hidden states of other texts are clipped."""
    model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.set_precision("int8", SAMPLE_TEXTS[::2])
    with pytest.warns(UserWarning, match=r"too few.* cosine to float32 is 0\.[789]"):
        model.set_precision("int8", ["no"])

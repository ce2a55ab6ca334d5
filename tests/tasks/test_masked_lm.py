"""BertMaskedLM against numpy, and as a citizen of Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertEncoder
from keras_bert.tasks import BertMaskedLM

from ..golden import make_golden_export as golden
from ..support import small


@pytest.fixture(scope="module")
def model(small_preset):
    return BertMaskedLM.from_preset(small_preset)


@pytest.fixture(scope="module")
def inputs():
    packed = small.preprocessor(sequence_length=golden.SEQUENCE_LENGTH)(small.TEXTS)
    return {**packed, "masked_lm_positions": golden.POSITIONS}


def test_equals_the_papers_arithmetic(model, inputs):
    logits = model(inputs)
    assert logits.shape == (5, 3, len(small.VOCABULARY))
    np.testing.assert_allclose(logits, golden.expected()["mlm_logits"], rtol=0, atol=1e-5)


def test_it_predicts_at_the_positions(model, inputs):
    length = golden.SEQUENCE_LENGTH
    everywhere = np.asarray(model({**inputs, "masked_lm_positions": np.tile(np.arange(length), (5, 1))}))
    generator = np.random.default_rng(0)
    for dtype in ("int32", "int64"):
        positions = generator.integers(0, length, (5, 7)).astype(dtype)  # in any order, some twice
        picked = model({**inputs, "masked_lm_positions": positions})
        np.testing.assert_allclose(picked, np.take_along_axis(everywhere, positions[:, :, None], 1), atol=1e-5)
    assert model({**inputs, "masked_lm_positions": np.zeros((5, 0), "int32")}).shape == (5, 0, len(small.VOCABULARY))


def test_mask_and_types_may_be_left_out(model, inputs):
    ids = inputs["input_word_ids"][:1, :8]  # has no padding
    positions = np.array([[2, 5]])
    short = model({"input_word_ids": ids, "masked_lm_positions": positions})
    full = {name: inputs[name][:1, :8] for name in ("input_word_ids", "input_mask", "input_type_ids")}
    np.testing.assert_allclose(short, model({**full, "masked_lm_positions": positions}), atol=1e-6)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (None, "masked_lm_positions is missing; expected an integer tensor"),
        (np.array([1, 2]), r"masked_lm_positions is int64 of shape \(2,\); expected an integer tensor \[batch, pred"),
        (np.array([[1.0]]), r"masked_lm_positions is float32 of shape \(1, 1\)"),
        (np.zeros((1, 1, 1), "int32"), r"masked_lm_positions is int32 of shape \(1, 1, 1\)"),
    ],
)
def test_bad_positions(model, positions, message):
    given = {"input_word_ids": np.array([[2, 4, 3]])}
    if positions is not None:
        given["masked_lm_positions"] = positions
    with pytest.raises(ValueError, match=message):
        model(given)


def test_the_encoder_names_its_own_bad_inputs(model):
    with pytest.raises(ValueError, match="input_word_ids"):
        model({"masked_lm_positions": np.array([[1]])})


def test_a_preset_without_a_head(tmp_path):
    small.encoder(num_layers=1).save_preset(tmp_path)
    with pytest.raises(ValueError, match="has no masked language modeling head"):
        BertMaskedLM.from_preset(tmp_path)


def test_weights_file(model, inputs, tmp_path):
    model.save_weights(tmp_path / "model.weights.h5")
    other = BertMaskedLM(BertEncoder(small.CONFIG))
    assert np.abs(other(inputs) - model(inputs)).max() > 0.1
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(other(inputs), model(inputs))


def test_the_table_is_the_encoders(model):
    head = {weight.path.split("masked_lm_head/")[1] for weight in model.head.weights}
    assert head == {"bias", "norm/beta", "norm/gamma", "transform/bias", "transform/kernel"}
    assert len(model.weights) == len(model.encoder.weights) + 5


def targets_of(inputs):
    return np.take_along_axis(inputs["input_word_ids"].numpy(), golden.POSITIONS, 1)


def test_the_table_learns_of_tokens_that_stand_in_no_text(model, inputs):
    """Through the head, which pushes down what is not the answer."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with tf.GradientTape() as tape:
        value = loss(targets_of(inputs), model(inputs, training=True))
    variables = [each.value for each in (*model.head.weights, model.encoder.embeddings.word_embeddings.embeddings)]
    *of_head, of_table = (np.asarray(tf.convert_to_tensor(each)) for each in tape.gradient(value, variables))
    assert all(np.abs(each).max() > 1e-6 for each in of_head)
    unused = np.delete(of_table, np.unique(inputs["input_word_ids"]), axis=0)
    assert np.abs(unused).max() > 1e-4


@pytest.mark.slow
def test_it_learns(inputs):
    model = BertMaskedLM(small.encoder(scale=0.1, num_layers=1))
    model.compile(keras.optimizers.Adam(1e-2), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(inputs, targets_of(inputs), epochs=20, batch_size=5, verbose=0).history["loss"]
    assert history[-1] < 0.5 * history[0]


@pytest.mark.slow
def test_in_a_function_with_xla(model, inputs):
    compiled = tf.function(model, jit_compile=True)
    given = {name: tf.constant(value) for name, value in inputs.items()}
    np.testing.assert_allclose(compiled(given), model(inputs), atol=1e-4)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", pytest.param("mixed_float16", marks=pytest.mark.slow)])
def test_mixed_precision(small_preset, model, inputs, dtype):
    logits = np.asarray(BertMaskedLM.from_preset(small_preset, dtype=dtype)(inputs)).astype("float32")
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(logits, model(inputs), atol=0.5 if dtype == "mixed_bfloat16" else 0.1)


def test_dropout_only_when_training(model, inputs):
    np.testing.assert_array_equal(model(inputs), model(inputs, training=False))
    assert np.abs(model(inputs, training=True) - model(inputs)).max() > 0.01


@pytest.mark.parametrize("format", ["hugging_face", "tf1", "garden"])
def test_saved_and_read_again(model, tmp_path, format):
    model.save_checkpoint(tmp_path, format)
    again = BertMaskedLM.from_preset(tmp_path)
    for ours, theirs in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(FileExistsError, match="pass overwrite"):
        model.save_checkpoint(tmp_path, format)


def test_an_encoder_saved_for_others(model, tmp_path):
    model.encoder.save_checkpoint(tmp_path, "tf1")
    names = {name for name, _ in tf.train.list_variables(str(tmp_path / "bert_model.ckpt"))}
    assert "bert/encoder/layer_0/attention/self/query/kernel" in names  # google-research/bert, modeling.py
    again = BertEncoder.from_preset(tmp_path)
    for ours, theirs in zip(again.get_weights(), model.encoder.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="format is 'onnx'"):
        model.encoder.save_checkpoint(tmp_path, "onnx")

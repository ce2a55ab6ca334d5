"""BertMaskedLM against numpy and against transformers, and as a citizen of Keras."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertEncoder, BertPreprocessor
from keras_bert.tasks import BertMaskedLM

from ..golden import make_golden_export as golden
from ..golden.texts import TEXTS

BERT_TINY_MLM = Path(__file__).parents[3] / "shared/data/bert-tiny-mlm"


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tiny-bert")
    golden.write_preset(directory)
    return directory


@pytest.fixture(scope="module")
def model(preset):
    return BertMaskedLM.from_preset(preset)


@pytest.fixture(scope="module")
def inputs(preset):
    preprocessor = BertPreprocessor.from_preset(preset, sequence_length=golden.SEQUENCE_LENGTH)
    return {**preprocessor(golden.TEXTS), "masked_lm_positions": golden.POSITIONS}


def test_equals_the_papers_arithmetic(model, inputs):
    logits = model(inputs)
    assert logits.shape == (5, 3, len(golden.VOCABULARY))
    np.testing.assert_allclose(logits, golden.expected()["mlm_logits"], rtol=0, atol=1e-5)


def test_it_predicts_at_the_positions(model, inputs):
    length = golden.SEQUENCE_LENGTH
    everywhere = np.asarray(model({**inputs, "masked_lm_positions": np.tile(np.arange(length), (5, 1))}))
    generator = np.random.default_rng(0)
    for dtype in ("int32", "int64"):
        positions = generator.integers(0, length, (5, 7)).astype(dtype)  # in any order, some twice
        picked = model({**inputs, "masked_lm_positions": positions})
        np.testing.assert_allclose(picked, np.take_along_axis(everywhere, positions[:, :, None], 1), atol=1e-5)
    assert model({**inputs, "masked_lm_positions": np.zeros((5, 0), "int32")}).shape == (5, 0, len(golden.VOCABULARY))


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


def test_a_preset_without_a_head():
    with pytest.raises(ValueError, match="all-MiniLM-L6-v2 has no masked-language head"):
        BertMaskedLM.from_preset("all-MiniLM-L6-v2")


def test_keras_file(model, inputs, tmp_path):
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(inputs), model(inputs))
    assert [weight.path for weight in loaded.weights] == [weight.path for weight in model.weights]


def test_weights_file(model, inputs, tmp_path):
    model.save_weights(tmp_path / "model.weights.h5")
    other = BertMaskedLM(BertEncoder(golden.CONFIG))
    assert np.abs(other(inputs) - model(inputs)).max() > 0.1
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(other(inputs), model(inputs))


def test_the_table_is_the_encoders(model):
    head = {weight.path.split("masked_lm_head/")[1] for weight in model.head.weights}
    assert head == {"bias", "norm/beta", "norm/gamma", "transform/bias", "transform/kernel"}
    assert len(model.weights) == len(model.encoder.weights) + 5


def test_it_learns(preset, inputs):
    """Through the head, the table learns of pieces that stand in no text."""
    keras.utils.set_random_seed(0)
    model = BertMaskedLM.from_preset(preset)
    table = model.encoder.embeddings.word_embeddings.embeddings
    before = table.numpy()
    model.compile(keras.optimizers.Adam(1e-2), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    targets = np.take_along_axis(inputs["input_word_ids"].numpy(), golden.POSITIONS, 1)
    history = model.fit(inputs, targets, epochs=20, batch_size=5, verbose=0).history["loss"]
    assert history[-1] < 0.5 * history[0]
    unused = [i for i in range(len(before)) if i not in np.unique(inputs["input_word_ids"])]
    assert np.abs(table.numpy() - before)[unused].max() > 1e-3  # the head pushes down what is not the answer


def test_in_a_function_with_xla(model, inputs):
    compiled = tf.function(model, jit_compile=True)
    given = {name: tf.constant(value) for name, value in inputs.items()}
    np.testing.assert_allclose(compiled(given), model(inputs), atol=1e-4)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(preset, model, inputs, dtype):
    logits = np.asarray(BertMaskedLM.from_preset(preset, dtype=dtype)(inputs)).astype("float32")
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(logits, model(inputs), atol=0.5 if dtype == "mixed_bfloat16" else 0.1)


def test_dropout_only_when_training(model, inputs):
    np.testing.assert_array_equal(model(inputs), model(inputs, training=False))
    assert np.abs(model(inputs, training=True) - model(inputs)).max() > 0.01


@pytest.mark.parity
@pytest.mark.parametrize("which", ["tiny-bert", "bert-tiny-mlm"])
def test_the_same_as_transformers(preset, which):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    directory = preset if which == "tiny-bert" else BERT_TINY_MLM
    if not directory.is_dir():
        pytest.skip(f"bert-tiny-mlm is not part of this repository; looked for it in {directory}")
    texts = golden.TEXTS if which == "tiny-bert" else TEXTS
    packed = BertPreprocessor.from_preset(directory, sequence_length=24)(texts)
    theirs = transformers.BertForMaskedLM.from_pretrained(directory).eval()
    names = {"input_ids": "input_word_ids", "attention_mask": "input_mask", "token_type_ids": "input_type_ids"}
    with torch.no_grad():
        want = theirs(**{name: torch.tensor(packed[ours].numpy()) for name, ours in names.items()}).logits.numpy()
    everywhere = np.tile(np.arange(24), (len(texts), 1))
    got = np.asarray(BertMaskedLM.from_preset(directory)({**packed, "masked_lm_positions": everywhere}))
    real = packed["input_mask"].numpy().astype(bool)
    # Logits are sums of a size of 10 and more: hence relative.
    np.testing.assert_allclose(got[real], want[real], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("format", ["hugging_face", "tf1", "garden"])
def test_saved_and_read_again(model, inputs, tmp_path, format):
    model.save_checkpoint(tmp_path, format)
    again = BertMaskedLM.from_preset(tmp_path)
    for ours, theirs in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    if format == "hugging_face":
        np.testing.assert_array_equal(again(inputs), model(inputs))
    with pytest.raises(FileExistsError, match="overwrite=True"):
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

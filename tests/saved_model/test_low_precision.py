"""SavedModels of models in bfloat16 and int8."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertEncoder, BertMaskedLM, BertSentenceEncoder
from keras_bert.inference import onednn
from keras_bert.saved_model import export_encoder, export_serving
from keras_bert.saved_model.check import check_serving

from ..support import small
from ..support.messages import error_names

TEXTS = ["a good film", "bad", "the weather is fine"]
needs_int8 = pytest.mark.skipif(not onednn.has_int8(), reason="no oneDNN")


def size(directory):
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


@pytest.mark.slow
@needs_int8
def test_it_answers_in_a_fresh_process_without_its_float_weights(tmp_path):
    model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
    in_float = export_serving(model, tmp_path / "float32")
    assert not (in_float / "README.md").exists()
    model.set_precision("int8", TEXTS * 4)
    version = export_serving(model, tmp_path / "int8")
    assert size(version) < 0.3 * size(in_float)
    served = tf.saved_model.load(version).signatures["serving_default"](text=tf.constant(TEXTS))["embedding"]
    np.testing.assert_allclose(served, model(TEXTS), atol=1e-6)
    assert "needs oneDNN's operations" in (version / "README.md").read_text()
    operations, _, answers = check_serving(version)
    assert "of oneDNN: TF Serving has those of oneDNN in builds for x86 only" in operations
    assert "answered" in answers


@needs_int8
def test_after_a_call_in_this_process(tmp_path):
    """A call traces graphs with the model's own variables, which the SavedModel must not use."""
    model = small.task(BertClassifier, labels=["blame", "praise"])
    model.set_precision("int8", TEXTS)
    expected = model.classify(TEXTS)
    model.encoder(model.preprocessor(TEXTS))
    signature = tf.saved_model.load(export_serving(model, tmp_path)).signatures["serving_default"]
    labels = [each.decode() for each in signature(text=tf.constant(TEXTS))["label"].numpy()]
    assert labels == [each["label"] for each in expected]


PACKED = {
    "input_word_ids": tf.constant([[2, 75, 76, 3], [2, 77, 3, 0]]),
    "input_mask": tf.constant([[1, 1, 1, 1], [1, 1, 1, 0]]),
    "input_type_ids": tf.constant([[0, 0, 1, 1], [0, 0, 0, 0]]),
}
# Runs an encoder's SavedModel without this package.
PLAIN = """
import sys, numpy as np, tensorflow as tf
encoder = tf.saved_model.load(sys.argv[1])
inputs = {name: tf.constant(value) for name, value in np.load(sys.argv[2]).items()}
np.save(sys.argv[3], encoder(inputs, training=False)["sequence_output"])
assert not any(name.startswith("keras_bert") for name in sys.modules)
"""


@pytest.fixture(params=[pytest.param("bfloat16", marks=pytest.mark.slow), pytest.param("int8", marks=needs_int8)])
def lower(request):
    if request.param == "bfloat16" and not onednn.has_bfloat16():
        pytest.skip("no AVX-512")
    tokenizer = small.tokenizer(special_tokens_in_text=True)
    model = BertMaskedLM(small.encoder(), small.preprocessor(tokenizer=tokenizer))
    model.set_precision(request.param, TEXTS)
    return model


@pytest.mark.slow
def test_an_encoder(tmp_path, lower):
    export_encoder(lower.encoder, tmp_path / "lower")
    loaded, expected = tf.saved_model.load(tmp_path / "lower"), lower.encoder(PACKED)
    given = loaded(PACKED)
    assert len(given["encoder_outputs"]) == len(expected["encoder_outputs"])
    for name in ("pooled_output", "sequence_output"):
        assert given[name].dtype == tf.float32
        np.testing.assert_allclose(given[name], expected[name], atol=1e-6)
    assert not loaded.trainable_variables
    assert sorted(variable.name.split(":")[0].split("/")[0] for variable in loaded.variables) == sorted(
        ["embeddings"] * 4 + ["pooler"] * 2
    )
    with error_names(tf.errors.InvalidArgumentError, lower.precision, "cannot be trained", "float32"):
        loaded(PACKED, training=True)
    operations, _, answers = check_serving(tmp_path / "lower")
    assert "of oneDNN" in operations
    assert "1 request of ids answered by a process that has never seen keras_bert" in answers
    assert "no float weights" in (tmp_path / "lower" / "README.md").read_text()
    with error_names(ValueError, "bfloat16 or int8", "without float weights"):
        BertEncoder.from_preset(tmp_path / "lower")


def test_an_encoder_with_its_masked_language_head(tmp_path, lower):
    export_encoder(lower, tmp_path / "lower")
    loaded = tf.saved_model.load(tmp_path / "lower")
    inputs = {**PACKED, "masked_lm_positions": tf.constant([[1], [2]])}
    np.testing.assert_allclose(loaded.mlm(inputs)["mlm_logits"], lower(inputs), atol=1e-5)


@pytest.mark.slow
@needs_int8
def test_an_encoder_in_a_plain_process(tmp_path):
    model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2", precision="int8")
    export_encoder(model.encoder, tmp_path / "int8")
    assert size(tmp_path / "int8") < 30e6  # of 91 MB
    inputs = model.preprocessor(TEXTS)
    np.savez(tmp_path / "inputs.npz", **{name: value.numpy() for name, value in inputs.items()})
    files = [str(tmp_path / name) for name in ("int8", "inputs.npz", "outputs.npy")]
    subprocess.run([sys.executable, "-c", PLAIN, *files], check=True, cwd=tmp_path)
    np.testing.assert_allclose(np.load(files[2]), model.encoder(inputs)["sequence_output"], atol=1e-6)

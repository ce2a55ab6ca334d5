"""SavedModels of models in bfloat16 and int8."""

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
    model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2", precision="int8")
    version = export_serving(model, tmp_path / "int8")
    assert size(version) < 0.3 * 4 * model.count_params()
    served = tf.saved_model.load(version).signatures["serving_default"](text=tf.constant(TEXTS))["embedding"]
    np.testing.assert_allclose(served, model(TEXTS), atol=1e-6)
    assert "needs oneDNN's operations" in (version / "README.md").read_text()
    operations, _, answers = check_serving(version)
    assert "of oneDNN: TF Serving has those of oneDNN in builds for x86 only" in operations
    assert "answered" in answers


@needs_int8
def test_after_a_call_in_this_process(tmp_path):
    """A call traces graphs with the model's own variables, which the SavedModel must not use."""
    model = small.task(BertClassifier, labels=["blame", "praise"], config={"num_layers": 1})
    model.set_precision("int8")
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


@pytest.fixture(
    scope="module", params=[pytest.param("bfloat16", marks=pytest.mark.slow), pytest.param("int8", marks=needs_int8)]
)
def lower(request, tmp_path_factory):
    """A model with its masked language head, and its export."""
    if request.param == "bfloat16" and not onednn.has_bfloat16():
        pytest.skip("no AVX-512")
    tokenizer = small.tokenizer(special_tokens_in_text=True)
    model = BertMaskedLM(small.encoder(num_layers=1), small.preprocessor(tokenizer=tokenizer))
    model.set_precision(request.param)
    directory = tmp_path_factory.mktemp("lower") / request.param
    export_encoder(model, directory)
    return model, directory


def test_an_encoder_with_its_masked_language_head(lower):
    model, directory = lower
    loaded, expected = tf.saved_model.load(directory), model.encoder(PACKED)
    found = loaded(PACKED)
    assert len(found["encoder_outputs"]) == len(expected["encoder_outputs"])
    for name in ("pooled_output", "sequence_output"):
        assert found[name].dtype == tf.float32
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6)
    inputs = {**PACKED, "masked_lm_positions": tf.constant([[1], [2]])}
    np.testing.assert_allclose(loaded.mlm(inputs)["mlm_logits"], model(inputs), atol=1e-5)
    assert not loaded.trainable_variables
    parts = [variable.name.partition("/")[0] for variable in loaded.variables]
    assert sorted(parts) == ["embeddings"] * 4 + ["pooler"] * 2
    with error_names(tf.errors.InvalidArgumentError, model.precision, "cannot be trained", "float32"):
        loaded(PACKED, training=True)
    assert "no float weights" in (directory / "README.md").read_text()
    with error_names(ValueError, "bfloat16 or int8", "without float weights"):
        BertEncoder.from_preset(directory)


@pytest.mark.slow
@pytest.mark.parametrize("lower", [pytest.param("int8", marks=needs_int8)], indirect=True)
def test_an_encoder_answers_in_a_fresh_process(lower):
    operations, _, answers = check_serving(lower[1])
    assert "of oneDNN" in operations
    assert "1 request of ids answered by a process that has never seen keras_bert" in answers

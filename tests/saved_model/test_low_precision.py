"""SavedModels of models in bfloat16 and int8."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertEncoder, BertMaskedLM, BertSentenceEncoder, HubLayer, processors
from keras_bert.inference import precision
from keras_bert.saved_model import export_encoder, export_serving
from keras_bert.saved_model.check import check_serving
from keras_bert.server.errors import ServingError
from keras_bert.server.saved_model import SavedModel

from ..support import small
from ..support.messages import assert_names, error_names
from ..support.precisions import needs_bfloat16, needs_int8
from ..support.processes import run_python

TEXTS = ["a good film", "bad", "the weather is fine"]


def size(directory):
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


@pytest.mark.slow
@needs_int8
def test_it_answers_in_a_fresh_process_without_its_float_weights(tmp_path):
    model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2", precision="int8")
    version = export_serving(model, tmp_path / "int8")
    assert size(version) < 0.3 * 4 * model.count_params()
    served = tf.saved_model.load(version).signatures["serving_default"](text=tf.constant(TEXTS))["embedding"]
    np.testing.assert_allclose(served, model(TEXTS), atol=1e-5)
    assert "needs oneDNN's operations" in (version / "README.md").read_text()
    operations, _, answers = check_serving(version)
    assert "of oneDNN: TF Serving has those of oneDNN in builds for x86 only" in operations
    assert "6 warm-up requests answered by a process that has never seen keras_bert" in answers


@pytest.mark.slow
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
    scope="module",
    params=[pytest.param("bfloat16", marks=[pytest.mark.slow, needs_bfloat16]), pytest.param("int8", marks=needs_int8)],
)
def lower(request, tmp_path_factory):
    """A model with its masked language head, and its export."""
    tokenizer = small.tokenizer(special_tokens_in_text=True)
    model = BertMaskedLM(small.encoder(num_layers=1), small.preprocessor(tokenizer=tokenizer))
    model.set_precision(request.param)
    directory = tmp_path_factory.mktemp("lower") / request.param
    export_encoder(model, directory)
    return model, directory


@pytest.mark.slow
def test_an_encoder_with_its_masked_language_head(lower):
    model, directory = lower
    loaded, expected = tf.saved_model.load(directory), model.encoder(PACKED)
    found = loaded(PACKED)
    assert len(found["encoder_outputs"]) == len(expected["encoder_outputs"])
    for name in ("pooled_output", "sequence_output"):
        assert found[name].dtype == tf.float32
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5)
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


@pytest.fixture(scope="module")
def in_bfloat16(tmp_path_factory):
    """The exports of a model in bfloat16: for TF Hub, and for TF Serving. Tracing them needs no AVX-512."""
    directory = tmp_path_factory.mktemp("in_bfloat16")
    model = small.task(BertClassifier, labels=["blame", "praise"], config={"num_layers": 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processors, "has_bfloat16", lambda: True)
        model.set_precision("bfloat16")
    export_encoder(model.encoder, directory / "encoder")
    return directory / "encoder", export_serving(model, directory / "serving")


REFUSING = {
    "a check": lambda encoder, version: check_serving(version),
    "a check of an encoder": lambda encoder, version: check_serving(encoder),
    "the server": lambda encoder, version: SavedModel(version, ""),
    "HubLayer": lambda encoder, version: HubLayer(encoder),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSING)
def test_without_bfloat16_an_export_in_it_is_refused(name, in_bfloat16, monkeypatch):
    """Before its first product, which would end the process."""
    monkeypatch.setattr(processors, "has_bfloat16", lambda: False)
    with error_names((ValueError, ServingError), "bfloat16", "AVX-512", "int8 or float32"):
        REFUSING[name](*in_bfloat16)


@pytest.mark.slow
@needs_int8
@pytest.mark.parametrize("least_cosine", [0.0, 1.1], ids=["all blocks", "no block"])
def test_int8_needs_no_bfloat16(least_cosine, monkeypatch, tmp_path):
    """So any x86 processor can serve it, whichever exported it; nor do the blocks that are left out of int8."""
    model = small.task(BertClassifier, labels=["blame", "praise"], config={"num_layers": 1})
    monkeypatch.setattr(precision, "_MIN_CALIBRATION_COSINE", least_cosine)
    model.set_precision("int8")
    monkeypatch.setattr(processors, "has_bfloat16", lambda: False)
    SavedModel(export_serving(model, tmp_path), "").close()


OLD = """
import sys
from click.testing import CliRunner
from keras_bert.cli.__main__ import main
encoder, version = sys.argv[1:]
for command in (["export", "--check", version], ["inspect", encoder], ["serve", str(version.rpartition("/")[0])]):
    result = CliRunner().invoke(main, command)
    print(result.exit_code, result.output.strip().replace(chr(10), " | "))
"""


@pytest.mark.slow
@pytest.mark.timing
def test_commands_name_bfloat16_on_an_old_processor(in_bfloat16):
    """As oneDNN sees it: what would run it refuses, else the process dies; `inspect` runs nothing."""
    lines = run_python(OLD, *in_bfloat16, ONEDNN_MAX_CPU_ISA="AVX2").splitlines()
    assert [line[:1] for line in lines] == ["1", "0", "1"]
    for line in lines:
        assert_names(line, "bfloat16")


@pytest.mark.slow
@pytest.mark.parametrize("lower", [pytest.param("int8", marks=needs_int8)], indirect=True)
def test_an_encoder_answers_in_a_fresh_process(lower):
    operations, _, answers = check_serving(lower[1])
    assert "of oneDNN" in operations
    assert "1 request of ids answered by a process that has never seen keras_bert" in answers

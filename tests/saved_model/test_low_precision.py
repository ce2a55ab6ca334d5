"""SavedModels of models in bfloat16 and int8."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertSentenceEncoder
from keras_bert.inference import onednn
from keras_bert.saved_model import export_serving
from keras_bert.saved_model.check import check_serving

from ..support import small

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

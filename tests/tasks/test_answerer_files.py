"""BertQuestionAnswerer, saved, read again and served."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertQuestionAnswerer
from keras_bert.saved_model import export_serving
from keras_bert.saved_model.check import check_serving

from ..support import small
from ..support.answering import CONTEXTS, QUESTIONS, new


def test_files(tmp_path):
    model = new(no_answer_threshold=-1.5, max_answer_length=4)
    preset = tmp_path / "preset"
    model.save_preset(preset)
    model.save(tmp_path / "model.keras")
    assert json.loads((preset / "config.json").read_text())["architectures"] == ["BertForQuestionAnswering"]
    for again in (BertQuestionAnswerer.from_preset(preset), keras.models.load_model(tmp_path / "model.keras")):
        assert small.same(again, model)
        assert (again.no_answer_threshold, again.max_answer_length, again.dropout_rate) == (-1.5, 4, 0.0)
        assert (again.preprocessor.max_sequence_length, again.preprocessor.stride) == (24, 5)
    other = BertQuestionAnswerer.from_preset(preset, sequence_length=30, no_answer_threshold=2.0, max_answer_length=7)
    assert (other.preprocessor.max_sequence_length, other.preprocessor.stride) == (30, 5)
    assert (other.no_answer_threshold, other.max_answer_length) == (2.0, 7)
    other = BertQuestionAnswerer.from_preset(preset, stride=3, dropout=0.2)
    assert (other.preprocessor.max_sequence_length, other.preprocessor.stride, other.dropout_rate) == (24, 3, 0.2)
    with pytest.raises(ValueError, match="sequence_length is 49, but this model has 48 positions"):
        BertQuestionAnswerer.from_preset(preset, sequence_length=49)
    with pytest.raises(ValueError, match="stride is 0"):
        BertQuestionAnswerer.from_preset(preset, stride=0)
    with pytest.raises(FileExistsError, match="pass overwrite"):
        model.save_preset(preset)


def test_a_preset_without_a_head(tmp_path):
    """What a classifier saved of itself is not for us."""
    text = {"sequence_length": 12, "stride": 3, "max_sequence_length": 40}
    classifier = small.task(BertClassifier, ["a", "b"], text=text, config={"num_layers": 1, "max_positions": 500})
    classifier.save_preset(tmp_path)
    model = BertQuestionAnswerer.from_preset(tmp_path)
    assert (model.preprocessor.max_sequence_length, model.preprocessor.stride) == (384, 128)
    assert model.preprocessor.sequence_length is None
    assert model.max_answer_length == 30


def test_a_preset_of_fewer_positions(small_preset):
    preprocessor = BertQuestionAnswerer.from_preset(small_preset).preprocessor
    assert (preprocessor.max_sequence_length, preprocessor.stride) == (48, 128)


@pytest.mark.slow
def test_a_server_answers_the_same(tmp_path):
    model = new(no_answer_threshold=-0.5)
    export_serving(model, tmp_path)
    signature = tf.saved_model.load(tmp_path / "1").signatures["serving_default"]
    asked = {"question": tf.constant(QUESTIONS), "context": tf.constant(CONTEXTS)}
    served, want = signature(**asked), model.serve(**asked)
    assert served.pop("answer").numpy().tolist() == want.pop("answer").numpy().tolist()
    for name, values in want.items():
        np.testing.assert_allclose(served[name], values, atol=1e-4)
    nothing = signature(question=tf.constant(["", "Who?"]), context=tf.constant(["", ""]))
    assert nothing["answer"].numpy().tolist() == [b"", b""]
    assert signature(question=tf.constant([], tf.string), context=tf.constant([], tf.string))["answer"].shape == (0,)
    assert "TF Serving has all of them" in check_serving(tmp_path)[0]

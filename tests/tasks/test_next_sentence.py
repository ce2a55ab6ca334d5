"""BertNextSentence: which label says that it follows, on every way in and out."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier
from keras_bert.saved_model import export_serving
from keras_bert.saved_model.check import check_serving
from keras_bert.tasks import BertNextSentence
from keras_bert.training import evaluate, fine_tune

from ..support import small

A = ["The film was good.", "", "She loved it", "the bank"]
B = ["It was very good!", "plot", "", "He hated the acting, the story and the music."]


def new(**settings):
    return small.task(BertNextSentence, config={"num_layers": 1}, **settings)


@pytest.fixture(scope="module")
def model():
    return new()


def test_label_0_is_that_it_follows(model):
    logits = np.asarray(model((A, B)))
    assert logits.shape == (4, 2)
    assert logits.dtype == np.float32
    pooled = model.encoder(model.preprocessor((A, B)))["pooled_output"]
    np.testing.assert_allclose(model.head(pooled), logits, atol=1e-5)
    scores = model.score(A, B)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(logits[:, 1] - logits[:, 0])), atol=1e-5)
    served = model.serve(tf.constant(A), tf.constant(B))
    np.testing.assert_allclose(served["probability"], scores, atol=1e-5)
    assert np.ptp(scores) > 0.01
    assert np.abs(model.score(B, A) - scores).max() > 0.01  # the order matters
    assert model.score([], []).shape == (0,)
    one = model.score(A[0], B[0])
    assert isinstance(one, float)
    assert one == pytest.approx(float(scores[0]), abs=1e-6)


@pytest.mark.parametrize(
    ("a", "b", "error", "message"),
    [
        ("a", ["b"], TypeError, "single str"),
        (["a"], "b", TypeError, "single str"),
        (["a", "b"], ["c"], ValueError, "2 first texts, but 1 second"),
        (["a", "b"], ["c", 5], TypeError, "text 1 is 5"),
    ],
)
def test_bad_texts(model, a, b, error, message):
    with pytest.raises(error, match=message):
        model.score(a, b)


def test_texts_alone(model):
    with pytest.raises(ValueError, match="takes pairs"):
        model(tf.constant(["a", "b"]))


def test_no_windows():
    with pytest.raises(ValueError, match="stride is 3"):
        new(text={"stride": 3})


@pytest.mark.slow
def test_it_learns():
    model = new(scale=0.1)
    follows = [0, 1, 0, 1]
    fine_tune(model, ((A, B), follows), epochs=20, learning_rate=1e-2, progress=False)
    np.testing.assert_array_equal(model.score(A, B) < 0.5, follows)
    assert evaluate(model, (A, B), follows) == {"accuracy": 1.0}
    assert evaluate(model, (A, B), [0, 1, 0, 0]) == {"accuracy": 0.75}


def test_files(model, tmp_path):
    model.save(tmp_path / "model.keras")
    model.save_preset(tmp_path / "preset")
    config = json.loads((tmp_path / "preset" / "config.json").read_text())
    assert config["architectures"] == ["BertForNextSentencePrediction"]
    for again in (keras.models.load_model(tmp_path / "model.keras"), BertNextSentence.from_preset(tmp_path / "preset")):
        assert small.same(again, model)


def test_a_preset_without_the_head(model, small_preset, tmp_path):
    with pytest.raises(ValueError, match="no next-sentence head"):
        BertNextSentence.from_preset(small_preset)
    BertClassifier(model.encoder, model.preprocessor, ["a", "b"], pairs=True).save_preset(tmp_path)
    with pytest.raises(ValueError, match="no next-sentence head"):
        BertNextSentence.from_preset(tmp_path)


@pytest.mark.slow
def test_a_server_answers_the_same(model, tmp_path):
    export_serving(model, tmp_path)
    assert "TF Serving has all of them" in check_serving(tmp_path)[0]
    signature = tf.saved_model.load(tmp_path / "1").signatures["serving_default"]
    served = signature(text=tf.constant(A), text_pair=tf.constant(B))
    np.testing.assert_allclose(served["probability"], model.score(A, B), atol=1e-5)

"""BertNextSentence: which label says that it follows, on every way in and out."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier
from keras_bert.tasks import BertNextSentence
from keras_bert.training import evaluate, fine_tune

from ..support import small
from ..support.messages import error_names

A = ["The film was good.", "", "She loved it", "the bank"]
B = ["It was very good!", "plot", "", "He hated the acting, the story and the music."]


def new(**settings):
    return small.task(BertNextSentence, config={"num_layers": 1}, **settings)


@pytest.fixture(scope="module")
def model():
    return new()


def test_label_0_is_that_it_follows(model, untraced):
    logits = np.asarray(model((A, B)))
    assert (logits.shape, logits.dtype) == ((4, 2), np.float32)
    pooled = model.encoder(model.preprocessor((A, B)))["pooled_output"]
    np.testing.assert_allclose(model.head(pooled), logits, atol=1e-5)
    scores = model.score(A, B)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(logits[:, 1] - logits[:, 0])), atol=1e-5)
    assert np.ptp(scores) > 0.01
    assert np.abs(model.score(B, A) - scores).max() > 0.01  # the order matters
    assert isinstance(model.score(A[0], B[0]), float)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda model: model.score("a", ["b"]), TypeError, ("str",)),
    (lambda model: model.score(["a"], "b"), TypeError, ("str",)),
    (lambda model: model.score(["a", "b"], ["c"]), ValueError, ("2 first", "1 second")),
    (lambda model: model(tf.constant(["a", "b"])), ValueError, ("pairs",)),
    (lambda model: new(text={"stride": 3}), ValueError, ("stride", "3")),
])  # fmt: skip
def test_what_are_no_pairs_of_texts_is_refused(model, call, error, words):
    with error_names(error, *words):
        call(model)


@pytest.mark.slow
def test_it_learns():
    model = new(scale=0.1)
    follows = [0, 1, 0, 1]
    fine_tune(model, ((A, B), follows), epochs=20, learning_rate=1e-2, progress=False)
    np.testing.assert_array_equal(model.score(A, B) < 0.5, follows)
    assert evaluate(model, (A, B), follows) == {"accuracy": 1.0}
    assert evaluate(model, (A, B), [0, 1, 0, 0]) == {"accuracy": 0.75}


def test_a_preset_without_the_head_is_refused(model, small_preset, tmp_path):
    BertClassifier(model.encoder, model.preprocessor, ["a", "b"], pairs=True).save_preset(tmp_path)
    for preset in (small_preset, tmp_path):
        with error_names(ValueError, "no next-sentence head"):
            BertNextSentence.from_preset(preset)

"""Classifiers on an encoder in a SavedModel of Keras 2: which are read, as what, and what is said of others."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import formats
from keras_bert.convert import convert
from keras_bert.saved_model import export_encoder, export_preprocessor
from keras_bert.tasks.registry import load_task
from keras_bert.text import load_tokenizer

from ..support import small
from ..support.data import TF_HUB
from ..support.hub import save_classifier

TEXTS = [*small.TEXTS, "good " * 40]  # the last one is longer than a row


def dense(units, activation=None, output="pooled_output", dropout=True, **arguments):
    def layers(library, outputs):
        hidden = library.layers.Dropout(0.1)(outputs[output]) if dropout else outputs[output]
        return library.layers.Dense(units, activation, name="classifier", **arguments)(hidden)

    return layers


def hidden(library, outputs):
    layer = library.layers.Dense(16, "relu", name="between")(outputs["pooled_output"])
    return library.layers.Dense(2, name="classifier")(layer)


def mean(library, outputs):
    return library.layers.Dense(2, name="classifier")(
        library.layers.GlobalAveragePooling1D()(outputs["sequence_output"])
    )


def two(library, outputs):
    return [library.layers.Dense(2, name=name)(outputs["pooled_output"]) for name in ("good", "long")]


def scaled(library, outputs):
    return dense(2)(library, outputs) * 2.0


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    directory = tmp_path_factory.mktemp("ours")
    export_encoder(small.encoder(num_layers=1), directory / "encoder")
    export_preprocessor(small.preprocessor(sequence_length=24), directory / "preprocessor")
    return {name: str(directory / name) for name in ("encoder", "preprocessor")}


SLOW = pytest.mark.slow
SINGLE, SEVERAL = "single_label_classification", "multi_label_classification"


@pytest.mark.parametrize(
    ("layers", "problem", "labels", "read"),
    [
        pytest.param(dense(1), SINGLE, 2, lambda logits: logits[:, 1:] - logits[:, :1], marks=SLOW),
        pytest.param(dense(3, "sigmoid"), SEVERAL, 3, tf.sigmoid, marks=SLOW),
        pytest.param(dense(1, "sigmoid"), SINGLE, 2, lambda logits: tf.nn.softmax(logits)[:, 1:], marks=SLOW),
        pytest.param(dense(3, "softmax", dropout=False), SINGLE, 3, tf.nn.softmax, marks=SLOW),
        pytest.param(dense(2), SINGLE, 2, tf.identity, marks=SLOW),
    ],
    ids=["logit", "sigmoids", "sigmoid", "softmax", "logits"],
)
def test_a_dense_layer_on_pooled_output(layers, problem, labels, read, ours, tmp_path):
    # An optimizer's variables are no weights.
    old = save_classifier(tmp_path / "old", ours, layers, include_optimizer=read is tf.identity)
    with formats.open_checkpoint(tmp_path / "old") as checkpoint:
        assert (checkpoint.heads, checkpoint.unexpected, checkpoint.remarks) == ({"sequence"}, [], [])
    done = convert(tmp_path / "old", tmp_path / "new")
    assert (done.unexpected, done.has_vocabulary) == ([], True)
    model = load_task(tmp_path / "new")
    assert (model.problem_type, len(model.labels)) == (problem, labels)
    assert small.same(load_task(tmp_path / "old"), model)
    np.testing.assert_allclose(read(model(TEXTS, training=False)), old(tf.constant(TEXTS)), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_a_dense_layer_on_each_token(ours, tmp_path):
    old = save_classifier(tmp_path / "old", ours, dense(3, "softmax", "sequence_output"))
    model = load_task(tmp_path / "old")
    assert model.preprocessor.tokenizer.lowercase
    packed = model.preprocessor(TEXTS)
    logits, expected = model(packed, training=False), old(tf.constant(TEXTS))[:, : packed["input_mask"].shape[1]]
    difference = np.abs(tf.nn.softmax(logits) - expected)[packed["input_mask"] == 1]  # ours are zero at padding
    assert difference.max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "said"),
    [
        (hidden, "the Dense layer classifier (no activation) reads the Dense layer between (Relu)"),
        pytest.param(mean, "reads neither pooled_output nor each token of sequence_output", marks=SLOW),
        pytest.param(two, "only one can be a head", marks=SLOW),
        pytest.param(dense(2, "relu"), "the Dense layer classifier has the activation Relu", marks=SLOW),
        pytest.param(dense(2, use_bias=False), "has no bias", marks=SLOW),
        pytest.param(scaled, "the output is not that of a Dense layer", marks=SLOW),
    ],
    ids=["hidden", "mean", "two", "relu", "no bias", "scaled"],
)
def test_what_is_not_one_dense_layer_stays_listed(layers, said, ours, tmp_path):
    save_classifier(tmp_path / "old", {"encoder": ours["encoder"]}, layers)
    done = convert(tmp_path / "old", tmp_path / "new")
    assert done.heads == []
    assert any(name.endswith("/kernel") for name in done.unexpected)
    assert said in " ".join(done.remarks)


@pytest.mark.slow
def test_without_a_preprocessor_in_the_graph_there_is_no_vocabulary(ours, tmp_path):
    save_classifier(tmp_path / "old", {"encoder": ours["encoder"]}, dense(3))
    done = convert(tmp_path / "old", tmp_path / "new")
    assert (done.heads, done.has_vocabulary) == (["sequence"], False)


@pytest.mark.slow
def test_the_graph_says_that_text_is_not_lower_cased(ours, tmp_path):
    preprocessor = small.preprocessor(tokenizer=small.tokenizer(lowercase=False))
    export_preprocessor(preprocessor, tmp_path / "preprocessor")
    save_classifier(tmp_path / "old", {**ours, "preprocessor": tmp_path / "preprocessor"}, dense(2))
    again = load_tokenizer(tmp_path / "old")
    assert (again.lowercase, again.vocabulary) == (False, preprocessor.tokenizer.vocabulary)


def test_the_tutorial_of_tf_hub(shared_data, tmp_path):
    save_classifier(tmp_path / "old", TF_HUB, dense(1), include_optimizer=False)
    done = convert(tmp_path / "old", tmp_path / "new")
    assert (done.heads, done.unexpected, done.has_vocabulary) == (["masked_lm", "sequence"], [], True)
    texts = ["a fine film", "dull, and far too long", "good " * 200]
    logits = load_task(tmp_path / "new")(texts, training=False)
    old = tf.saved_model.load(tmp_path / "old").signatures["serving_default"](text=tf.constant(texts))["classifier"]
    np.testing.assert_allclose(logits[:, 1:] - logits[:, :1], old, rtol=0, atol=1e-5)

"""The check of what TF Serving can serve: it passes what is well, and names what is not."""

import os
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.saved_model import check, replay, serving
from keras_bert.saved_model.check import check_serving

from ..support.messages import assert_names, error_names


@pytest.fixture
def copy(exported, tmp_path):
    return shutil.copytree(exported("serving"), tmp_path / "1")


@pytest.fixture
def replayed_here(monkeypatch):
    """The requests are answered in this process: a new one takes most of the time of these tests."""

    def run(command, **settings):
        try:
            return subprocess.CompletedProcess(command, 0, f"{replay.replay(command[-1])} answered", "")
        except (SystemExit, OSError, ValueError, tf.errors.OpError) as error:
            return subprocess.CompletedProcess(command, 1, "", str(error))

    monkeypatch.setattr(check.subprocess, "run", run)


def save(directory, function, **attributes):
    """A SavedModel with warm-up requests for two signatures that do the same."""
    parse = tf.function(lambda examples: function(examples), input_signature=[tf.TensorSpec([None], tf.string)])
    root = tf.Module()
    for name, value in attributes.items():
        setattr(root, name, value)
    tf.saved_model.save(root, str(directory), {"serving_default": function, "serialized_examples": parse})
    requests = serving.ServedTexts(("text",), function).requests(["serving_default", "serialized_examples"])
    serving.write_warmup(directory, requests)
    return directory


def strings(function):
    return tf.function(function, input_signature=[tf.TensorSpec([None], tf.string, "text")])


@pytest.mark.slow
def test_what_export_serving_writes(replayed_here, exported):
    operations, variables, answers = check_serving(exported("serving").parent)  # the highest version
    assert "TF Serving has all of them, none needs Python" in operations
    assert variables == "0.1 MB of variables, each on disk once"  # 25,184 float32 weights
    assert "6 answered" in answers


def in_python(text):
    return {"length": tf.numpy_function(lambda x: np.float32([len(each) for each in x]), [text], tf.float32)}


def of_tf_text(text):
    phrases = tf_text.PhraseTokenizer(["<UNK>", "hello"], unknown_token="<UNK>", token_out_type=tf.int32)
    return {"count": tf.cast(phrases.tokenize(text).row_lengths(), tf.float32)}


@pytest.mark.parametrize(
    ("function", "words"),
    [
        pytest.param(in_python, ["Python", "PyFunc"], id="Python"),
        pytest.param(of_tf_text, ["TF Serving", "PhraseTokenize"], id="operations"),
        pytest.param(
            lambda text: {"x": tf.fill(tf.shape(text), float("nan"))},
            ["warm-up requests", "output x", "not finite"],
            id="not finite",
        ),
        pytest.param(lambda text: {"x": tf.zeros([3])}, ["{1} rows", "output x", 3], id="rows"),
    ],
)
def test_what_tf_serving_cannot_serve_is_named(replayed_here, tmp_path, function, words):
    with error_names(ValueError, tmp_path / "1", *words):
        check_serving(save(tmp_path / "1", strings(function)))


def test_variables_on_disk_twice_are_named(replayed_here, tmp_path):
    first, second = (tf.Variable(tf.range(8.0)) for _ in range(2))
    answer = strings(lambda text: {"x": tf.cast(tf.strings.length(text), tf.float32) * tf.reduce_sum(first * second)})
    _, note, answers = check_serving(save(tmp_path / "1", answer, first=first, second=second))
    assert_names(note, "note:", "more than once", "first", "second")
    assert "answered" in answers


@pytest.mark.slow
def test_without_warm_up_requests_there_is_a_note(replayed_here, copy):
    shutil.rmtree(copy / "assets.extra")
    operations, _, note = check_serving(copy)
    assert "TF Serving has all of them" in operations
    assert note.startswith("note: there are no warm-up requests")


GRAPH, INDEX, DATA = "saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"


@pytest.mark.parametrize(
    ("damage", "error", "words"),
    [
        (lambda path: os.truncate(path / GRAPH, 5000), ValueError, [GRAPH, "not a SavedModel"]),
        (lambda path: os.truncate(path / GRAPH, 0), ValueError, [GRAPH, "no graph"]),
        (lambda path: (path / GRAPH).unlink(), FileNotFoundError, [GRAPH, "variables"]),
        (lambda path: (path / INDEX).unlink(), ValueError, ["variables.index", "not the index", "could not answer"]),
        (
            lambda path: os.truncate(path / DATA, 50_000),
            ValueError,
            ["variables.index", "cannot read", "fetch the files again", "could not answer"],
        ),
        (shutil.rmtree, FileNotFoundError, ["no directory"]),
    ],
)
def test_a_damaged_export_is_refused(replayed_here, copy, damage, error, words):
    damage(copy)
    with error_names(error, copy, *words):
        check_serving(copy)

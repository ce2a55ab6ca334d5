"""The check of what TF Serving can serve: it passes what is well, and names what is not."""

import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.saved_model import check, replay, serving
from keras_bert.saved_model.check import check_serving


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
    serving.write_warmup(directory, ("text",))
    return directory


def strings(function):
    return tf.function(function, input_signature=[tf.TensorSpec([None], tf.string, "text")])


@pytest.mark.slow
def test_what_export_serving_writes(exported):
    operations, variables, answers = check_serving(exported("serving").parent)  # the highest version
    assert "TF Serving has all of them, none needs Python" in operations
    assert variables == "0.1 MB of variables, each on disk once"  # 25,184 float32 weights
    assert "4 warm-up requests answered by a process that has never seen keras_bert" in answers


@pytest.mark.slow
def test_python_functions(tmp_path):
    """Only a process of its own can tell: this one has the function."""
    with pytest.raises(ValueError, match=r"calls back into Python \(PyFunc\).*could not answer"):
        check_serving(save(tmp_path / "1", strings(in_python)))


def in_python(text):
    return {"length": tf.numpy_function(lambda x: np.float32([len(each) for each in x]), [text], tf.float32)}


def of_tf_text(text):
    phrases = tf_text.PhraseTokenizer(["<UNK>", "hello"], unknown_token="<UNK>", token_out_type=tf.int32)
    return {"count": tf.cast(phrases.tokenize(text).row_lengths(), tf.float32)}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (in_python, r"calls back into Python \(PyFunc\)"),
        (of_tf_text, "TF Serving does not have its operations PhraseTokenize"),
        (lambda text: {"x": tf.fill(tf.shape(text), float("nan"))}, "could not answer .*its output x is not finite"),
        (lambda text: {"x": tf.zeros([3])}, r"was sent \{1\} rows, and its output x has 3"),
    ],
    ids=["Python", "operations", "not finite", "rows"],
)
def test_what_tf_serving_cannot_serve(replayed_here, tmp_path, function, message):
    with pytest.raises(ValueError, match=message):
        check_serving(save(tmp_path / "1", strings(function)))


def test_variables_on_disk_twice(replayed_here, tmp_path):
    first, second = (tf.Variable(tf.range(8.0)) for _ in range(2))
    answer = strings(lambda text: {"x": tf.cast(tf.strings.length(text), tf.float32) * tf.reduce_sum(first * second)})
    with pytest.raises(ValueError, match=r"more than once: .*first.* = .*second"):
        check_serving(save(tmp_path / "1", answer, first=first, second=second))


def test_damaged_files(copy):
    whole = (copy / "saved_model.pb").read_bytes()
    (copy / "saved_model.pb").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"saved_model.pb is not a SavedModel, or is damaged"):
        check_serving(copy)
    (copy / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ValueError, match=r"saved_model.pb is damaged: it holds no graph"):
        check_serving(copy)
    (copy / "saved_model.pb").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no saved_model.pb; it holds .*variables"):
        check_serving(copy)


def test_missing_variables(replayed_here, copy):
    (copy / "variables" / "variables.index").unlink()
    with pytest.raises(ValueError, match=r"variables.index is not the index of .*could not answer"):
        check_serving(copy)


def test_truncated_variables(replayed_here, copy):
    data = copy / "variables" / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:50_000])
    with pytest.raises(ValueError, match=r"variables.index: cannot read .*; fetch the files again.*could not answer"):
        check_serving(copy)


def test_no_warm_up_requests(copy):
    shutil.rmtree(copy / "assets.extra")
    with pytest.raises(ValueError, match="no warm-up requests"):
        check_serving(copy)


def test_no_directory(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        check_serving(tmp_path / "nowhere")

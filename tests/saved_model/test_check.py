"""The check of what TF Serving can serve: it passes what is well, and names what is not."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert import BertConfig, BertEncoder, BertPreprocessor, BertSentenceEncoder
from keras_bert.saved_model import export_serving, warmup
from keras_bert.saved_model.check import check_serving
from keras_bert.text import WordPieceTokenizer


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    preprocessor = BertPreprocessor(WordPieceTokenizer.from_preset("all-MiniLM-L6-v2"), sequence_length=None)
    model = BertSentenceEncoder(BertEncoder(BertConfig.tiny()), preprocessor)
    return export_serving(model, tmp_path_factory.mktemp("check") / "model")


@pytest.fixture
def copy(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "1")


def save(directory, function, **attributes):
    """A SavedModel with warm-up requests for two signatures that do the same."""
    parse = tf.function(lambda examples: function(examples), input_signature=[tf.TensorSpec([None], tf.string)])
    root = tf.Module()
    for name, value in attributes.items():
        setattr(root, name, value)
    tf.saved_model.save(root, str(directory), {"serving_default": function, "serialized_examples": parse})
    warmup.write(directory, ("text",))
    return directory


def strings(function):
    return tf.function(function, input_signature=[tf.TensorSpec([None], tf.string, "text")])


def test_what_export_serving_writes(exported):
    operations, variables, answers = check_serving(exported)
    assert "TF Serving has them all, none needs Python" in operations
    assert variables == "17.5 MB of variables, each on disk once"  # 4,385,920 float32 weights
    assert "4 warm-up requests answered" in answers
    assert check_serving(exported.parent) == [operations, variables, answers]  # the highest version


def test_python_functions(tmp_path):
    def answer(text):
        return {"length": tf.numpy_function(lambda x: np.float32([len(each) for each in x]), [text], tf.float32)}

    with pytest.raises(ValueError, match=r"calls back into Python \(PyFunc\).*could not answer"):
        check_serving(save(tmp_path / "1", strings(answer)))


@pytest.mark.slow
def test_operations_that_tf_serving_lacks(tmp_path):
    phrases = tf_text.PhraseTokenizer(["<UNK>", "hello"], unknown_token="<UNK>", token_out_type=tf.int32)
    answer = strings(lambda text: {"count": tf.cast(phrases.tokenize(text).row_lengths(), tf.float32)})
    with pytest.raises(ValueError, match="TF Serving does not have its operations PhraseTokenize"):
        check_serving(save(tmp_path / "1", answer))


def test_variables_on_disk_twice(tmp_path):
    first, second = (tf.Variable(tf.range(8.0)) for _ in range(2))
    answer = strings(lambda text: {"x": tf.cast(tf.strings.length(text), tf.float32) * tf.reduce_sum(first * second)})
    with pytest.raises(ValueError, match=r"more than once: .*first.* = .*second"):
        check_serving(save(tmp_path / "1", answer, first=first, second=second))


@pytest.mark.slow
def test_answers_that_are_no_numbers(tmp_path):
    answer = strings(lambda text: {"x": tf.cast(tf.strings.length(text), tf.float32) * float("nan")})
    with pytest.raises(ValueError, match="its output x is not finite"):
        check_serving(save(tmp_path / "1", answer))


@pytest.mark.slow
def test_answers_of_another_length(tmp_path):
    with pytest.raises(ValueError, match=r"was sent \{1\} rows, and its output x has 3"):
        check_serving(save(tmp_path / "1", strings(lambda text: {"x": tf.zeros([3])})))


def test_damaged_files(copy):
    whole = (copy / "saved_model.pb").read_bytes()
    (copy / "saved_model.pb").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"saved_model.pb is damaged"):
        check_serving(copy)
    (copy / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ValueError, match=r"saved_model.pb is damaged: it holds no graph"):
        check_serving(copy)
    (copy / "saved_model.pb").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no saved_model.pb; it holds .*variables"):
        check_serving(copy)


@pytest.mark.slow
def test_missing_variables(copy):
    (copy / "variables" / "variables.index").unlink()
    with pytest.raises(ValueError, match=r"variables is missing or damaged.*could not answer"):
        check_serving(copy)


def test_truncated_variables(copy):
    data = copy / "variables" / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:1_000_000])
    with pytest.raises(ValueError, match=r"variables is missing or damaged.*could not answer"):
        check_serving(copy)


def test_no_warm_up_requests(copy):
    shutil.rmtree(copy / "assets.extra")
    with pytest.raises(ValueError, match="no warm-up requests"):
        check_serving(copy)


def test_no_directory(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        check_serving(tmp_path / "nowhere")

"""What is no text, no label or no id fails before it is read, with a message that names the argument and what to do."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from keras_bert import (
    BertClassifier,
    BertMaskedLM,
    BertMultiVectorEncoder,
    BertNextSentence,
    BertQuestionAnswerer,
    BertReranker,
    BertSentenceEncoder,
    BertSparseEncoder,
    BertTokenClassifier,
)
from keras_bert.tasks.kinds.classes import Numbers, Several
from keras_bert.training import evaluate, fine_tune

from ..support import small
from ..support.messages import error_names
from ..support.tasks import CASES

TABLE = pd.DataFrame({"text": ["good", "bad"], "label": ["a", "b"]})
NESTED = "expected a str|not a str|each a str|got strings of shape"
# What a user may pass by mistake, and the error. Generators are made anew, since they can be read only once.
BAD = {
    "None": (None, "is None|got None|takes pairs"),
    "a number": (3, "is 3|got int32"),
    "bytes": (b"good", "is a single bytes"),
    "a path": (Path("good.txt"), r"good\.txt"),
    "a function": (len, "is <built-in function len>"),
    "an array without dimensions": (np.array("good"), r"shape \(\)|without dimensions"),
    "a tensor without dimensions": (tf.constant("good"), r"shape \(\)|without dimensions"),
    "an array of two dimensions": (np.array([["good", "bad"]]), r"shape \(1, 2\)"),
    "a ragged tensor": (tf.ragged.constant([["good"], ["bad", "film"]]), r"shape \(2, None\)"),
    "a table": (TABLE, r"columns 'text', 'label'; pass one column, such as table\['text'\]"),
    "a dict": ({"text": ["good", "bad"]}, r"columns 'text'; pass one column, such as table\['text'\]"),
    "a set": ({"good", "bad"}, "which has no order; pass a list"),
    "numbers": ([1, 2], "1|got int32"),
    "None inside": (["good", None], "1 .*is None|'good'; expected a list of words"),
    "NaN inside": (pd.Series(["good", np.nan], dtype=object), "1 .*is nan|'good'; expected a list of words"),
    "pairs": ([("good", "bad"), ("film", "plot")], NESTED),
    "columns": ((["good", "bad"], ["film", "plot"]), NESTED),
    "a dataset of batches": (tf.data.Dataset.from_tensors(["good", "bad"]), r"use its unbatch\(\) or map"),
}


@pytest.fixture(scope="module")
def encoder():
    return small.encoder(num_layers=1)


@pytest.fixture(scope="module")
def models(encoder):
    ours, with_mask = small.preprocessor(), small.preprocessor(tokenizer=small.tokenizer(special_tokens_in_text=True))
    labels = ["a", "b"]
    return {
        "classifier": BertClassifier(encoder, ours, labels),
        "pairs": BertClassifier(encoder, ours, labels, pairs=True),
        "several labels": BertClassifier(encoder, ours, labels, Several.PROBLEM_TYPE),
        "numbers": BertClassifier(encoder, ours, ["a"], Numbers.PROBLEM_TYPE),
        "sentences": BertSentenceEncoder(encoder, ours, prompts={"query": "you ask: "}),
        "words": BertTokenClassifier(encoder, ours, ["O", "B-x"]),
        "questions": BertQuestionAnswerer(encoder, small.preprocessor(stride=5)),
        "masks": BertMaskedLM(encoder, with_mask),
        "reranker": BertReranker(encoder, ours),
        "next sentence": BertNextSentence(encoder, ours),
        "sparse": BertSparseEncoder(encoder, ours),
        "tokens": BertMultiVectorEncoder(encoder, ours),
    }


VERBS = {
    "encode": lambda models, x: models["sentences"].encode(x),
    "encode_counted": lambda models, x: models["sentences"].encode_counted(x),
    "classify": lambda models, x: models["classifier"].classify(x),
    "classify pairs": lambda models, x: models["pairs"].classify(["good", "bad"], x),
    "tag": lambda models, x: models["words"].tag(x),
    "entities": lambda models, x: models["words"].entities(x),
    "answer": lambda models, x: models["questions"].answer(["good", "bad"], x),
    "fill": lambda models, x: models["masks"].fill(x),
    "score": lambda models, x: models["reranker"].score(x, ["good", "bad"]),
    "rank": lambda models, x: models["reranker"].rank("good", x),
    "next sentence": lambda models, x: models["next sentence"].score(["good", "bad"], x),
    "sparse": lambda models, x: models["sparse"].encode(x),
    "encode tokens": lambda models, x: models["tokens"].encode(x),
    "predict": lambda models, x: models["classifier"].predict(x, verbose=0),
    "fine_tune": lambda models, x: fine_tune(models["classifier"], (x, ["a", "b"]), progress=False),
    "evaluate": lambda models, x: evaluate(models["classifier"], x, ["a", "b"]),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("verb", VERBS)
def test_what_is_no_text_is_refused_by_every_verb(models, verb, case, untraced):
    given, message = BAD[case]
    if case == "a dataset of batches" and verb == "predict":
        return  # Keras reads it
    if case == "columns" and verb in ("predict", "fine_tune", "evaluate"):
        message = "takes single texts"
    if verb == "tag" and case in ("pairs", "columns"):  # two sentences
        assert len(models["words"].tag(given)) == 2
        return
    with pytest.raises((TypeError, ValueError), match=message) as raised:
        VERBS[verb](models, given)
    assert not re.search("not iterable|unsized|has no len|not subscriptable|ambiguous|zip\\(\\)", str(raised.value))


GOOD = {
    "a column whose index begins anywhere": pd.Series(["good", "bad"], index=[7, 3]),
    "an array": np.array(["good", "bad"]),
    "an array of NumPy's strings": np.array(["good", "bad"], np.dtypes.StringDType()),
    "a tuple": ("good", "bad"),
    "values of a dict": {"first": "good", "second": "bad"}.values(),
}


@pytest.mark.parametrize("case", GOOD)
def test_other_columns_are_read_as_lists_are(models, case, untraced):
    texts, expected = GOOD[case], models["sentences"].encode(["good", "bad"])
    np.testing.assert_array_equal(models["sentences"].encode(texts), expected)
    assert [answer["word"] for answer in models["words"].tag(texts)] == ["good", "bad"]
    assert len(models["words"].entities(texts)) == len(models["reranker"].rank("good", texts)) == 2
    if not isinstance(texts, tuple):  # columns
        np.testing.assert_allclose(models["sentences"].predict(texts, verbose=0), expected, atol=1e-5)


def test_a_text_is_counted_from_the_first_of_all(models, monkeypatch, untraced):
    monkeypatch.setattr("keras_bert.answers.by_length._TEXTS_AT_A_TIME", 2)
    with error_names(TypeError, "text 4", None):
        models["sentences"].encode(["good", "bad", "film", "plot", None])


def test_predict_gives_no_rows_for_no_texts(models, untraced):
    assert models["sentences"].predict([], verbose=0).shape == (0, 32)
    assert models["classifier"].predict(np.array([]), verbose=0).shape == (0, 2)
    assert models["pairs"].predict(([], []), verbose=0).shape == (0, 2)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case not in ("masks", "weights of tokens", "vectors of tokens")]
)
def test_nothing_is_learned_or_measured_without_examples(case, untraced):
    model = CASES[case].model()
    x = tuple([] for _ in CASES[case].x) if isinstance(CASES[case].x, tuple) else []
    y = None if CASES[case].y is None else []
    model.compile("sgd", model.training_loss())
    for call in (
        lambda: model.fit(x, y, verbose=0),
        lambda: model.evaluate(x, y, verbose=0),
        lambda: fine_tune(model, (x, y), progress=False),
        lambda: evaluate(model, x, y),
    ):
        with error_names(ValueError, "no examples"):
            call()


TWO = ["good", "bad"]
BAD_LABELS = {
    "too few": ("classifier", TWO, ["a"], ("2", "1")),
    "a str": ("classifier", TWO, "ab", ("labels", "str", "list")),
    "a number": ("classifier", TWO, 3, ("labels", "3")),
    "a dict": ("classifier", TWO, {"a": 1}, ("labels", "dict")),
    "a set": ("classifier", TWO, {"a", "b"}, ("labels", "set", "order")),
    "a generator": ("classifier", TWO, (label for label in "ab"), ("labels", "generator", "length")),
    "a table of one column": ("classifier", TWO, TABLE[["label"]], ("labels", "DataFrame", "table['label'")),
    "a string tensor": ("classifier", TWO, tf.constant(["a", "b"]), ("labels", "tensor", "list")),
    "rows of names": ("classifier", TWO, [["a"], ["b"]], ("row 0", "'a'")),
    "NaN": ("classifier", TWO, pd.Series(["a", np.nan], dtype=object), ("nan", "labels")),
    "str for several": ("several labels", TWO, ["a", "b"], ("labels[0", "'a'", "list")),
    "numbers for several": ("several labels", TWO, [0, 1], ("labels[0", "0", "list")),
    "rows of 0 and 1": ("several labels", TWO, [[1, 0], [0, 1]], ("np.array(labels",)),
    "too many columns": ("several labels", TWO, np.eye(2, 3), ("(2, 3", "(2, 2")),
    "another order": ("several labels", TWO, pd.DataFrame({"b": [1, 0], "a": [0, 1]}), ("table[model.labels",)),
    "no numbers": ("numbers", TWO, ["a", "b"], ("labels", "numbers", "row 0", "'a'")),
    "rows of three": ("numbers", TWO, np.ones((2, 3)), ("(2, 3", "(2, 1")),
    "uneven rows": ("numbers", TWO, [[1], [1, 2]], ("each row",)),
    "a str for words": ("words", [["good"]], ["O"], ("labels[0", "'O'", "list")),
    "None for words": ("words", [["good"]], [None], ("labels[0", None, "list")),
    "answers without a start": ("questions", (TWO, TWO), ["good", "bad"], ("(text, start",)),
    "SQuAD's answers": ("questions", (TWO, TWO), [{"text": ["good"], "answer_start": [0]}] * 2, ("(text, start",)),
    "text as a start": ("questions", (TWO, TWO), [[("good", "0")], []], ("(text, start",)),
    "names for scores": ("reranker", (TWO, TWO), ["a", "b"], ("numbers",)),
    "2 for sentences": ("next sentence", (TWO, TWO), [0, 2], ("label 1", "2", "0")),
    "words for sentences": ("sentences", (TWO, TWO), ["a", "b"], ("scores", "numbers")),
    "columns that differ": ("sentences", (TWO, ["good"]), None, ("1 text", "2 texts")),
    "none": ("classifier", TWO, None, ("labels",)),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_what_is_no_label_is_refused(models, case, untraced):
    task, x, y, words = BAD_LABELS[case]
    model = models[task]
    model.compile("sgd", model.training_loss())
    for call in (
        lambda: model.fit(x, y, verbose=0),
        lambda: fine_tune(model, (x, y), progress=False),
        lambda: evaluate(model, x, y),
    ):
        with error_names((TypeError, ValueError), *words):
            call()


def vectors(models, **settings):
    return BertSentenceEncoder(models["sentences"].encoder, small.preprocessor(), **settings)


@pytest.mark.parametrize(("call", "words"), [
    (lambda models: models["classifier"]({"text": TWO}), ("texts", "dict", "'text'", "table['text'")),
    (lambda models: models["classifier"](np.array("good")), ("texts", "ndarray", "dimensions", "list")),
    (
        lambda models: models["classifier"].predict({"input_word_ids": np.array([2, 3])}, verbose=0),
        ("x['input_word_ids'", "(2,", "[batch, seq_length"),
    ),
    (
        lambda models: models["masks"]({"input_word_ids": np.array([[2, 3]]), "masked_lm_positions": np.array([[9]])}),
        ("masked_lm_positions", "9", "0 to 1"),
    ),
    (lambda models: vectors(models, prompts=["a"]), ("dict", "text")),
    (lambda models: vectors(models, prompts={"query": 3}), ("prompts", "'query'", "3")),
    (lambda models: vectors(models, prompts={"q": "a"}, default_prompt=["q"]), ("prompt", "['q'", "list", "name")),
    (lambda models: vectors(models, prompts={"q": "a"}, column_prompts="q"), ("column_prompts", "'q'", "list")),
    (lambda models: vectors(models, dense="tanh"), ("dense", "'tanh'", "dict", "units, activation, use_bias")),
    (lambda models: vectors(models, truncate_dim="8"), ("truncate_dim", "'8'", "32")),
    (lambda models: BertClassifier.from_preset("preset", num_labels=2), ("num_labels", "names", "labels=[...]")),
    (lambda models: vectors(models, prompts={1: "a"}).encode("good", prompt="q"), ("'q'", "1")),
    (lambda models: vectors(models, prompts={1: "a"}).encode("good", prompt=["q"]), ("['q'", "list", "name", "1")),
])  # fmt: skip
def test_inputs_and_settings_of_another_type_are_refused(models, call, words, untraced):
    with error_names((TypeError, ValueError), *words):
        call(models)


@pytest.mark.parametrize("case", CASES)
def test_a_task_is_made_of_an_encoder_and_a_preprocessor(models, case):
    kind, settings, encoder = CASES[case].kind, CASES[case].settings, models["sentences"].encoder
    with error_names(TypeError, "preprocessor", "3", "BertPreprocessor"):
        kind(encoder, 3, **settings)
    with error_names(TypeError, "encoder", "'bert'", "BertEncoder"):
        kind("bert", small.preprocessor(**CASES[case].text), **settings)

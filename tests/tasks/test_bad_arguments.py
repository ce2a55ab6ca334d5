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
    BertNextSentence,
    BertQuestionAnswerer,
    BertReranker,
    BertSentenceEncoder,
    BertSparseEncoder,
    BertTokenClassifier,
)
from keras_bert.tasks.classifier_losses import MultiLabel, Regression
from keras_bert.training import evaluate, fine_tune

from ..support import small

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
WORDS = ("pairs", "columns")  # two sentences for `tag`


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
        "several labels": BertClassifier(encoder, ours, labels, MultiLabel.NAME),
        "numbers": BertClassifier(encoder, ours, ["a"], Regression.NAME),
        "sentences": BertSentenceEncoder(encoder, ours, prompts={"query": "you ask: "}),
        "words": BertTokenClassifier(encoder, ours, ["O", "B-x"]),
        "questions": BertQuestionAnswerer(encoder, small.preprocessor(stride=5)),
        "masks": BertMaskedLM(encoder, with_mask),
        "reranker": BertReranker(encoder, ours),
        "next sentence": BertNextSentence(encoder, ours),
        "sparse": BertSparseEncoder(encoder, ours),
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
    if verb == "tag" and case in WORDS:
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
        np.testing.assert_allclose(models["sentences"].predict(texts, verbose=0), expected, atol=1e-6)


def test_a_text_is_counted_from_the_first_of_all(models, monkeypatch, untraced):
    monkeypatch.setattr("keras_bert.tasks.by_length._TEXTS_AT_A_TIME", 2)
    with pytest.raises(TypeError, match="text 4 is None"):
        models["sentences"].encode(["good", "bad", "film", "plot", None])


def test_none_gives_no_answers(models, untraced):
    assert models["sentences"].encode([]).shape == models["sentences"].predict([], verbose=0).shape == (0, 32)
    assert models["classifier"].predict(np.array([]), verbose=0).shape == (0, 2)
    assert models["pairs"].predict(([], []), verbose=0).shape == (0, 2)
    assert models["reranker"].score([], []).shape == models["next sentence"].score([], []).shape == (0,)
    for answers in (
        models["classifier"].classify(()),
        models["words"].tag([]),
        models["words"].entities([]),
        models["questions"].answer([], []),
        models["masks"].fill([]),
        models["reranker"].rank("good", []),
        models["sparse"].encode([]),
    ):
        assert answers == []


NOTHING = {"classifier": ([], []), "pairs": (([], []), []), "words": ([], []), "questions": (([], []), []),
           "sentences": (([], []), None), "reranker": (([], []), []), "next sentence": (([], []), [])}  # fmt: skip


@pytest.mark.parametrize("task", NOTHING)
def test_nothing_is_learned_or_measured_without_examples(models, task, untraced):
    model, examples = models[task], NOTHING[task]
    model.compile("sgd", model.training_loss())
    for call in (
        lambda: model.fit(*examples, verbose=0),
        lambda: model.evaluate(*examples, verbose=0),
        lambda: fine_tune(model, examples, progress=False),
        lambda: evaluate(model, *examples),
    ):
        with pytest.raises(ValueError, match="there are no examples to"):
            call()


TWO = ["good", "bad"]
BAD_LABELS = {
    "none": ("classifier", TWO, None, "no labels|labels of 0"),
    "too few": ("classifier", TWO, ["a"], "2 .*1"),
    "a str": ("classifier", TWO, "ab", r"labels is a single str; pass a list"),
    "a number": ("classifier", TWO, 3, "labels is 3"),
    "a dict": ("classifier", TWO, {"a": 1}, "labels is a dict"),
    "a set": ("classifier", TWO, {"a", "b"}, "labels is a set, which has no order"),
    "a generator": ("classifier", TWO, (label for label in "ab"), "labels is a generator, whose length is unknown"),
    "a table of one column": ("classifier", TWO, TABLE[["label"]], r"labels is a DataFrame .* table\['label'\]"),
    "a string tensor": ("classifier", TWO, tf.constant(["a", "b"]), "labels are a string tensor; pass a list"),
    "rows of names": ("classifier", TWO, [["a"], ["b"]], r"row 0 \(from 0\) is \['a'\]"),
    "NaN": ("classifier", TWO, pd.Series(["a", np.nan], dtype=object), "nan is not one of the labels"),
    "str for several": ("several labels", TWO, ["a", "b"], r"labels\[0\] is 'a'; expected a list"),
    "numbers for several": ("several labels", TWO, [0, 1], r"labels\[0\] is 0; expected a list"),
    "rows of 0 and 1": ("several labels", TWO, [[1, 0], [0, 1]], r"pass np\.array\(labels\)"),
    "too many columns": ("several labels", TWO, np.eye(2, 3), r"shape \(2, 3\); expected \(2, 2\)"),
    "another order": ("several labels", TWO, pd.DataFrame({"b": [1, 0], "a": [0, 1]}), r"pass table\[model\.labels\]"),
    "no numbers": ("numbers", TWO, ["a", "b"], r"labels must be numbers.*row 0 \(from 0\) is 'a'"),
    "rows of three": ("numbers", TWO, np.ones((2, 3)), r"shape \(2, 3\); expected \(2, 1\)"),
    "uneven rows": ("numbers", TWO, [[1], [1, 2]], "as many in each row"),
    "a str for words": ("words", [["good"]], ["O"], r"labels\[0\] is 'O'; expected a list"),
    "None for words": ("words", [["good"]], [None], r"labels\[0\] is None; expected a list"),
    "answers without a start": ("questions", (TWO, TWO), ["good", "bad"], r"expected \[\(text, start\), \.\.\.\]"),
    "SQuAD's answers": ("questions", (TWO, TWO), [{"text": ["good"], "answer_start": [0]}] * 2, r"expected \[\(text"),
    "text as a start": ("questions", (TWO, TWO), [[("good", "0")], []], r"expected \[\(text, start\), \.\.\.\]"),
    "names for scores": ("reranker", (TWO, TWO), ["a", "b"], "must be numbers"),
    "2 for sentences": ("next sentence", (TWO, TWO), [0, 2], r"label 1 \(from 0\) is 2; expected 0"),
    "words for sentences": ("sentences", (TWO, TWO), ["a", "b"], "scores must be numbers"),
    "columns that differ": ("sentences", (TWO, ["good"]), None, "1 and 2 texts"),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_what_is_no_label_is_refused(models, case, untraced):
    task, x, y, message = BAD_LABELS[case]
    model = models[task]
    model.compile("sgd", model.training_loss())
    for call in (
        lambda: model.fit(x, y, verbose=0),
        lambda: fine_tune(model, (x, y), progress=False),
        lambda: evaluate(model, x, y),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()


def test_inputs_that_are_not_packed_are_refused(models, untraced):
    model = models["classifier"]
    with pytest.raises(TypeError, match=r"texts is a dict with the columns 'text'; .* table\['text'\]"):
        model({"text": TWO})
    with pytest.raises(TypeError, match="texts is a single ndarray without dimensions; pass a list"):
        model(np.array("good"))
    with pytest.raises(ValueError, match=r"x\['input_word_ids'\] has shape \(2,\); expected \[batch, seq_length\]"):
        model.predict({"input_word_ids": np.array([2, 3])}, verbose=0)
    with pytest.raises(ValueError, match="masked_lm_positions holds 9, but the sequences have the positions 0 to 1"):
        models["masks"]({"input_word_ids": np.array([[2, 3]]), "masked_lm_positions": np.array([[9]])})


@pytest.mark.parametrize(("settings", "message"), [
    ({"prompts": ["a"]}, "expected a dict: name -> text"),
    ({"prompts": {"query": 3}}, "prompts have 'query': 3"),
    ({"prompts": {"query": "a"}, "default_prompt": ["query"]}, r"prompt is \['query'\] \(list\); expected a name"),
    ({"prompts": {"query": "a"}, "column_prompts": "query"}, "column_prompts are 'query'; expected a list"),
    ({"dense": "tanh"}, "dense is 'tanh'; expected a dict of units, activation, use_bias"),
    ({"truncate_dim": "8"}, "truncate_dim is '8', but this model's vectors have 32 values"),
])  # fmt: skip
def test_bad_settings_of_sentence_vectors(encoder, settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        BertSentenceEncoder(encoder, small.preprocessor(), **settings)


def test_names_of_prompts_are_str(encoder):
    model = BertSentenceEncoder(encoder, small.preprocessor(), prompts={1: "a"})
    assert model.prompts == {"1": "a"}  # as a preset has them
    with pytest.raises(ValueError, match="there is no prompt 'q'; this model has 1"):
        model.encode("good", prompt="q")
    with pytest.raises(TypeError, match=r"prompt is \['q'\] \(list\); expected a name; this model has 1"):
        model.encode("good", prompt=["q"])


@pytest.mark.parametrize(
    "kind",
    [
        BertClassifier,
        BertNextSentence,
        BertQuestionAnswerer,
        BertReranker,
        BertSentenceEncoder,
        BertSparseEncoder,
        BertTokenClassifier,
    ],
)
def test_a_task_is_made_of_an_encoder_and_a_preprocessor(encoder, kind):
    labels = {"labels": ["a", "b"]} if kind in (BertClassifier, BertTokenClassifier) else {}
    with pytest.raises(TypeError, match="preprocessor is None; expected a BertPreprocessor"):
        kind(encoder, None, **labels)
    with pytest.raises(TypeError, match="encoder is 'bert'; expected a BertEncoder"):
        kind("bert", small.preprocessor(), **labels)

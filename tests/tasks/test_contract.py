"""What every task keeps to: one text or many, lists of str in Keras's methods, files, serving, precisions."""

import functools
import json
import re

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from keras_bert import (
    BertMaskedLM,
    BertMultipleChoice,
    BertMultiVectorEncoder,
    BertNextSentence,
    BertQuestionAnswerer,
    BertReranker,
    BertSentenceEncoder,
    BertSparseEncoder,
    BertTokenClassifier,
)
from keras_bert.saved_model import check, export_serving
from keras_bert.task_table import TASKS
from keras_bert.tasks.registry import task_of
from keras_bert.training import evaluate, score

from ..support import small
from ..support.messages import error_names
from ..support.precisions import needs_bfloat16, needs_int8
from ..support.tasks import ASKED, CASES, LISTS, NETWORKS, PAIR, SPANS, TEXTS

# A family that no file format knows: the configuration alone decides its network.
FREE = {
    "family": "lexbert", "rope_theta": 50.0, "gated": True, "norm_bias": False, "sequence_activation": "relu",
    "masked_lm_activation": "silu",
}  # fmt: skip


UNMEASURED = (BertMaskedLM, BertMultiVectorEncoder, BertSparseEncoder)  # nothing to compare their answers with
QUICK = ("classes", "words of a CRF", "questions", "vectors")  # for `make test`


def marked(names):
    return [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in names]


# With outputs of each shape and type, and one text or two: the rest is the same for all in a program without Python.
IN_C = ("classes", "words of a CRF", "questions", "masks", "vectors of tokens")
IN_INT8 = ("classes", "words", "questions", "masks")  # it is calibrated with texts, words, two texts, masks
of_each_network = pytest.mark.parametrize("case", marked(NETWORKS), indirect=True, scope="module")


@pytest.fixture(scope="module", params=marked(CASES))
def case(request):
    return CASES[request.param]


@pytest.fixture(scope="module")
def model(case):
    """Tests must not change it."""
    return case.model()


@pytest.fixture(scope="module")
def answers(case, model):
    return case.ask(model)


@pytest.fixture(scope="module")
def preset(model, tmp_path_factory):
    directory = tmp_path_factory.mktemp("preset")
    model.save_preset(directory)
    return directory


def assert_alike(found, expected, atol=1e-5):
    """Answers of the same shape, with the same names and nearly the same numbers."""
    tf.nest.assert_same_structure(found, expected, check_types=False)
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        assert np.shape(one) == np.shape(other)
        if isinstance(one, str):
            assert one == other
        else:
            np.testing.assert_allclose(one, other, atol=atol, rtol=1e-5)


def test_there_is_a_case_of_each_task():
    assert {case.kind.__name__ for case in CASES.values()} == {task.model for task in TASKS}


def test_a_verb_takes_one_text_or_many(case, model, answers, untraced):
    assert len(answers) == len(case.columns[0])
    for i in (0, len(answers) - 1):
        assert_alike(case.ask(model, *(column[i] for column in case.columns)), answers[i])
    none = case.ask(model, *([] for _ in case.columns))
    assert type(none) is type(answers)
    assert np.shape(none) == (0, *np.shape(answers)[1:]) if isinstance(answers, np.ndarray) else none == []


def test_other_texts_need_no_other_graph(case, model, answers, monkeypatch):
    traced, call = [], model.encoder.call
    monkeypatch.setattr(model.encoder, "call", lambda *args, **kwargs: traced.append(1) or call(*args, **kwargs))
    more = case.ask(model, *((*column[::-1], column[0]) for column in case.columns))
    assert not traced
    assert_alike(list(more), [*answers[::-1], answers[0]])


def test_fit_evaluate_and_predict_take_lists_of_str(case, untraced):
    model = case.model_without_dropout()
    model.compile(keras.optimizers.SGD(1e-3), case.loss or model.training_loss(), run_eagerly=True)
    (before,) = model.fit(case.x, case.y, verbose=0).history["loss"]  # of one step
    assert model.evaluate(case.x, case.y, verbose=0) < before
    np.testing.assert_allclose(model.predict(case.x, verbose=0), model(model.arrays(case.x, None)[0]), atol=1e-5)


def column(values):
    """As a split of a shuffled table has them."""
    if isinstance(values, tuple):
        return tuple(map(column, values))
    return pd.Series(list(values), index=np.arange(7, 7 + len(values))[::-1]) if isinstance(values, list) else values


def tensors(values):
    """The arrays and tensors of a structure, in order, each as a list."""
    return [np.asarray(each).tolist() for each in tf.nest.flatten(values, expand_composites=True)]


def test_columns_of_a_table_are_read_as_lists_are(case, model, monkeypatch, untraced):
    """Whatever goes on to Keras, or to training, is the same; and so are measures."""
    given, read = [], []
    for name in ("fit", "evaluate", "predict"):

        @functools.wraps(getattr(keras.Model, name))
        def record(self, **arguments):
            given.extend(list(each) if isinstance(each, tf.data.Dataset) else each for each in arguments.values())

        monkeypatch.setattr(keras.Model, name, record)
    has_measures = case.kind not in UNMEASURED
    for x, y in ((case.x, case.y), (column(case.x), column(case.y))):
        model.fit(x, y, validation_data=(x, y), shuffle=False)
        model.evaluate(x, y)
        model.predict(x)
        tokens = tuple(model.examples(x, y)) if has_measures else ()
        read.append((tensors(given), tensors(tokens), evaluate(model, x, y) if has_measures else {}))
        given.clear()
    assert read[0] == read[1]
    assert len(read[0][0]) > 4


# Examples with other measures than those of the case.
MORE_EXAMPLES = {
    "vectors": [
        (PAIR, [0, 1, 1, 0]), (PAIR, [0.5, 0, 3, 4]), (PAIR, np.ones((4, 2, 6))), ((*PAIR, TEXTS), [[1, 2]] * 4),
        ((*PAIR, TEXTS), None),
    ],
    "scores": [((*PAIR, TEXTS), None), ((*PAIR, TEXTS), [[2, 1]] * 4), ((*PAIR, TEXTS), [0.5, 0, 3, 4])],
    "questions": [(ASKED, [SPANS[0], SPANS[1], [("is", 3)], SPANS[3]])],
}  # fmt: skip


def test_the_names_of_measures_are_known_before_the_answers(request, case, model):
    if case.kind in UNMEASURED:
        pytest.skip("has no measures")
    name = request.node.callspec.params["case"]
    for x, y in [(case.x, case.y), *MORE_EXAMPLES.get(name, ())]:
        kind, found = model.kind, score(model, x, y)
        right = kind.score(kind.right_answers(model.columns(x), kind.plain(y)), kind.plain(y))
        assert [*right.measures, *right.details] == [*found.measures, *found.details]
        if name != "vectors":
            first = next(iter(found.measures))
            assert right.measures[first] >= found.measures[first]


def test_a_model_whose_weights_are_not_numbers_is_refused(case, untraced):
    """Else it would answer with the first label, or search for the best mask forever."""
    model = case.model()
    for weight in model.encoder.weights:
        weight.assign(tf.fill(weight.shape, np.nan))
    with error_names(ValueError, "not finite", "2 of 2" if case.kind is BertMultipleChoice else "1 of 1"):
        case.ask(model, *(column[-1] for column in case.columns))
    calls = [lambda: case.ask(model)]
    calls += [lambda: evaluate(model, case.x, case.y)] * (case.kind not in UNMEASURED)
    for call in calls:
        with error_names(ValueError, "not finite", "diverged", "learning_rate"):
            call()


def test_the_model_card_shows_how_to_ask_the_model(case, preset, untraced):
    """Its program runs; the Hub gets the names of the task and of the library that reads the files."""
    card = (preset / "README.md").read_text()
    program = re.findall(r"^    (.*)$", card.partition("or with")[0], re.MULTILINE)
    assert program[0] == f"from keras_bert import {case.kind.__name__}"
    exec("\n".join(program).replace("this directory", str(preset)), {})
    (task,) = (each for each in TASKS if each.model == case.kind.__name__)
    if task.pipeline:
        assert f"\npipeline_tag: {task.pipeline}\n" in card
    theirs = "sentence-transformers" if case.kind.LIBRARY else "transformers"
    unread = case.settings.get("crf") or case.config.get("pooling")
    assert f"\nlibrary_name: {'keras_bert' if unread else theirs}\n" in card
    if "labels" in case.settings:
        assert f"| labels | {', '.join(case.settings['labels'])} |" in card


@pytest.mark.filterwarnings("error::UserWarning")
def test_files_keep_weights_settings_and_answers(case, model, answers, preset, tmp_path, untraced):
    assert json.loads((preset / "config.json").read_text())["architectures"] == [case.head]
    is_pretrained = case.kind in (BertMaskedLM, BertNextSentence)  # nothing says that it was trained for this task
    assert task_of(preset) is (BertSentenceEncoder if is_pretrained else case.kind)
    with error_names(FileExistsError, "overwrite"):
        model.save_preset(preset)
    model.save(tmp_path / "model.keras")
    for again in (case.kind.from_preset(preset), keras.models.load_model(tmp_path / "model.keras")):
        assert small.same(again, model)
        assert {name: again.settings()[name] for name in case.settings} == case.settings
        text = {name: value for name, value in case.text.items() if name != "tokenizer"}
        assert {name: getattr(again.preprocessor, name) for name in text} == text
        assert_alike(case.ask(again), answers)


# How long texts fit -> the tasks that refuse it when they load.
LONG_TEXT = {
    "truncate": {BertQuestionAnswerer},
    "head_tail": {BertQuestionAnswerer, BertTokenClassifier},
    "windows": {
        *(BertMaskedLM, BertMultipleChoice, BertMultiVectorEncoder, BertNextSentence, BertReranker, BertSparseEncoder),
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("long_text", LONG_TEXT)
@of_each_network
def test_what_cannot_be_done_with_long_texts_is_refused_when_the_model_is_loaded(case, preset, long_text, untraced):
    load = functools.partial(case.kind.from_preset, preset, long_text=long_text, sequence_length=8)
    if case.kind in LONG_TEXT[long_text]:
        with error_names(ValueError, "long_text", long_text):
            load()
    else:
        times = 1 if case.kind is BertMaskedLM else 4  # its masks must lie in the row
        assert len(case.ask(load(), *([each * times for each in column] for column in case.columns))) == 4


def rows_of(served):
    """The outputs of a serving signature, as a dict for each text."""

    def plain(value):
        if isinstance(value, list):
            return [plain(each) for each in value]
        return value.decode() if isinstance(value, bytes) else value

    columns = [plain(each.numpy().tolist()) for each in served.values()]
    return [dict(zip(served, row, strict=True)) for row in zip(*columns, strict=True)]


def texts_of(case):
    """The columns as tensors; words, and choices, are one text."""
    return [
        tf.constant([each if isinstance(each, str) else " ".join(each) for each in column]) for column in case.columns
    ]


def served_texts(case):
    """The columns as a server gets them: a choice is a row."""
    if case.kind is BertMultipleChoice:
        return [tf.repeat(TEXTS, len(LISTS[0])), tf.reshape(LISTS, [-1])]
    return texts_of(case)


def assert_answers(case, served, answers):
    """The outputs of a serving signature make the answers of the verb."""
    if case.kind is BertMultipleChoice:
        served = {"logit": tf.reshape(served["logit"], np.shape(LISTS)), "choice": tf.constant(LISTS)}
    found = [case.served(row) for row in rows_of(served)]
    assert_alike(found, answers.tolist() if isinstance(answers, np.ndarray) else answers)


def test_it_serves_what_the_verb_answers(case, model, answers, untraced):
    assert_answers(case, model.serve(*served_texts(case)), answers)


@pytest.fixture(scope="module")
def version(model, tmp_path_factory):
    """The directory of its export."""
    pytest.importorskip("tensorflow_serving.apis")
    return export_serving(model, tmp_path_factory.mktemp("served"))


@pytest.mark.slow
@of_each_network
def test_a_server_answers_what_the_verb_answers(case, model, version, answers, monkeypatch):
    if case.kind is not BertQuestionAnswerer:  # with most in its graph
        monkeypatch.setattr(check, "_check_answers", lambda *_: "not asked in a process of its own")
    assert "TF Serving has all of them" in check.check_serving(version)[0]
    signature = tf.saved_model.load(version).signatures["serving_default"]
    assert_answers(case, signature(**dict(zip(model.text_names, served_texts(case), strict=True))), answers)
    for texts in ([], [""]):
        served = signature(**{name: tf.constant(texts, tf.string) for name in model.text_names})
        assert {len(each) for each in served.values()} == {len(texts)}


@pytest.mark.slow
@pytest.mark.parametrize("case", IN_C, indirect=True, scope="module")
def test_a_program_in_c_answers_what_the_verb_answers(case, model, version, answers, in_c):
    texts = [column.numpy().astype(str).tolist() for column in served_texts(case)]
    assert_answers(case, in_c(version, dict(zip(model.text_names, texts, strict=True))), answers)


@pytest.mark.parametrize(("case", "precision"), [
    *(pytest.param(*each.values, "bfloat16", marks=[*each.marks, needs_bfloat16]) for each in marked(NETWORKS)),
    *(pytest.param(each, "int8", marks=[pytest.mark.slow, needs_int8]) for each in IN_INT8),
], indirect=["case"], scope="module")  # fmt: skip
def test_a_low_precision_gives_nearly_the_same(case, model, preset, precision):
    lower, packed = case.kind.from_preset(preset, precision=precision), packed_inputs(case, model)
    assert lower.precision == precision
    exact, found = (np.asarray(each(packed)) for each in (model, lower))
    exact, found = exact[exact > -1e6], found[exact > -1e6]  # lower ones are of padding
    cosine = exact @ found / np.linalg.norm(exact) / np.linalg.norm(found)
    assert {"bfloat16": 0.999, "int8": 0.97}[precision] < cosine < 1 - 1e-9
    lower.set_precision("float32")
    np.testing.assert_allclose(lower(packed), model(packed), atol=1e-5)


def packed_inputs(case, model):
    if case.kind is BertMaskedLM:
        return case.x
    texts = texts_of(case)
    return model.preprocessor(texts[0] if len(texts) == 1 else tuple(texts))


@of_each_network
def test_it_learns_in_mixed_precision(case, preset, untraced):
    model = case.kind.from_preset(preset, dtype="mixed_bfloat16")
    assert {each.dtype for each in model.trainable_weights} == {"float32"}
    outputs = model(packed_inputs(case, model))
    assert outputs.dtype == ("bfloat16" if case.kind is BertMaskedLM else "float32")
    model.compile(keras.optimizers.SGD(1e-3), case.loss or model.training_loss(), run_eagerly=True)
    assert np.isfinite(model.fit(case.x, case.y, epochs=2, verbose=0).history["loss"]).all()
    assert np.isfinite(np.float32(model(packed_inputs(case, model)))).all()


@of_each_network
def test_a_family_that_no_format_knows_is_kept_in_keras_files_only(case, tmp_path):
    model = case.model(**FREE)
    model.save(tmp_path / "model.keras")
    assert small.same(keras.saving.load_model(tmp_path / "model.keras"), model)
    with error_names(ValueError, "family", "'lexbert'", "Keras's"):
        model.save_preset(tmp_path / "preset")


@of_each_network
def test_special_tokens_in_texts_are_read_on_request_and_afterwards(case, preset, tmp_path, untraced):
    model = case.kind.from_preset(preset, special_tokens_in_text=True)
    model.save_preset(tmp_path)
    again = case.kind.from_preset(tmp_path)
    for each in (model, again):
        ids = each.preprocessor(["good [SEP] film"])["input_word_ids"].numpy().ravel()
        assert [small.VOCABULARY[i] for i in ids[:5]] == ["[CLS]", "good", "[SEP]", "film", "[SEP]"]
    if case.kind is BertMaskedLM:
        with error_names(ValueError, "special_tokens_in_text", "masks"):
            case.kind.from_preset(tmp_path, special_tokens_in_text=False)
    else:
        plain = case.kind.from_preset(tmp_path, special_tokens_in_text=False)
        assert not plain.preprocessor.tokenizer.special_tokens_in_text

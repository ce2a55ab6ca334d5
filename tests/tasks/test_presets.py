"""Tasks saved and read again; which head a task has whose labels are given: the preset's, or a new one."""

import dataclasses
import json
import shutil
import warnings

import numpy as np
import pytest

from keras_bert import (
    BertClassifier,
    BertEncoder,
    BertMaskedLM,
    BertPreprocessor,
    BertQuestionAnswerer,
    BertReranker,
    BertSentenceEncoder,
    BertTokenClassifier,
    formats,
)
from keras_bert.pretraining.pretrainer import BertPretrainer
from keras_bert.tasks.base.storable import UntrainedWarning
from keras_bert.training import fine_tune

from ..support import small
from ..support.checkpoints import CONFIGS, random_weights
from ..support.keras_hub import TOKENS, write_weights, write_wordpiece
from ..support.messages import assert_names, error_names

TASKS = [BertClassifier, BertTokenClassifier]
FIRST = ["A", "B", "C"]
WINDOWS = {"sequence_length": 8, "stride": 3}


def new(kind, labels=FIRST, **settings):
    return small.task(kind, labels, config={"num_layers": 1}, **settings)


@pytest.fixture(scope="module", params=TASKS, ids=lambda task: task.HEAD)
def saved(request, tmp_path_factory):
    """A task, the directory of one with the labels of FIRST, and its head's kernel."""
    directory = tmp_path_factory.mktemp("preset")
    model = new(request.param)
    model.save_preset(directory)
    return request.param, directory, model.head.logits.kernel.numpy()


def changed(directory, copy, **changes):
    shutil.copytree(directory, copy)
    values = json.loads((copy / "config.json").read_text()) | changes
    (copy / "config.json").write_text(json.dumps({k: v for k, v in values.items() if v is not None}))
    return copy


# -- Settings


@pytest.mark.parametrize(("part", "change", "words"), [
    ("model", {"fancy": 1}, ("keras_bert.model", "fancy", "dropout")),
    ("model", {"dropout": "x"}, ("keras_bert.model", "'x'", "dropout", "number")),
    ("model", {"dropout": 2**70}, ("dropout", "probability")),
    ("preprocessor", {"fancy": 1}, ("keras_bert.preprocessor", "fancy", "sequence_length")),
    ("preprocessor", {"sequence_length": 2**70}, ("sequence_length", 2**70, "3")),
    ("preprocessor", {"max_sequence_length": 2**70}, ("preprocessor.max_sequence_length", "48 positions")),
    ("preprocessor", {"truncation": "q"}, ("truncation", "'q'", "one of")),
    ("preprocessor", {"stride": "4"}, ("'4'", "keras_bert.preprocessor.stride", "whole number")),
    (None, {"id2label": ["A", "B", "C"]}, ("id2label", "object")),
    (None, {"id2label": {"0": "A", "1": None, "2": "C"}}, ("id2label.1", "string")),
    (None, {"id2label": {"1": "A", "2": "B", "3": "C"}}, ("id2label", "1, 2, 3", "0 to 2")),
    (None, {"problem_type": ["x"]}, ("problem_type", "string")),
    (None, {"keras_bert": []}, ("keras_bert", "object")),
])  # fmt: skip
def test_settings_that_no_task_has_are_named_with_their_file(saved, part, change, words, tmp_path):
    kind, directory, _ = saved
    values = json.loads((directory / "config.json").read_text())["keras_bert"]
    if part:
        values[part] |= change
    copy = changed(directory, tmp_path / "copy", **({"keras_bert": values} if part else change))
    with error_names(ValueError, copy / "config.json", *words):
        kind.from_preset(copy)


def test_too_few_labels_are_not_the_fault_of_the_preset(tmp_path):
    new(BertClassifier).save_preset(tmp_path)
    with pytest.raises(ValueError, match=r"^labels are \['a'\].* at least 2"):
        BertClassifier.from_preset(tmp_path, labels=["a"])


def test_settings_given_to_from_preset_replace_the_saved_ones(tmp_path):
    new(BertClassifier, text=WINDOWS, pairs=True, window_pooling="max", dropout=0.3).save_preset(tmp_path / "a")
    chosen = {"window_pooling": "mean", "dropout": 0.1, "pairs": False, "long_text": "truncate"}
    other = BertClassifier.from_preset(tmp_path / "a", **chosen)
    found = other.window_pooling, other.dropout_rate, other.pairs, other.preprocessor.stride
    assert found == ("mean", 0.1, False, None)
    new(BertTokenClassifier, text=WINDOWS).save_preset(tmp_path / "b")
    settings = {"long_text": "windows", "sequence_length": 12, "dropout": 0.2}
    others = BertTokenClassifier.from_preset(tmp_path / "b", labels=["D", "E"], **settings)
    assert (others.labels, others.preprocessor.stride, others.dropout_rate) == (["D", "E"], 6, 0.2)
    with error_names(ValueError, "head_tail"):
        BertTokenClassifier.from_preset(tmp_path / "b", long_text="head_tail")


def test_another_task_takes_the_encoder_only(tmp_path):
    """Its encoder and its tokenizer serve; not its head, labels, lengths and settings."""
    new(BertClassifier, text=WINDOWS).save_preset(tmp_path / "classifier")
    with error_names(ValueError, "no head"):
        BertTokenClassifier.from_preset(tmp_path / "classifier")
    tagger = BertTokenClassifier.from_preset(tmp_path / "classifier", labels=["O", "B-x"])
    assert (tagger.labels, tagger.preprocessor.stride) == (["O", "B-x"], None)
    assert BertSentenceEncoder.from_preset(tmp_path / "classifier").pooling == "mean"
    tagger.save_preset(tmp_path / "tagger")
    with error_names(ValueError, "no head"):
        BertClassifier.from_preset(tmp_path / "tagger")
    assert BertClassifier.from_preset(tmp_path / "tagger", labels=["O", "B-x"]).preprocessor.sequence_length is None


def test_a_preset_of_keras_hub(untraced, tmp_path):
    weights = write_weights(tmp_path, "bert", ["sequence"])
    tokens = [*TOKENS, *(f"token{i}" for i in range(CONFIGS["bert"].vocab_size - len(TOKENS)))]
    write_wordpiece(tmp_path, tokens=tokens, lowercase=True)
    model = BertClassifier.from_preset(tmp_path, labels=FIRST)
    np.testing.assert_array_equal(model.head.logits.kernel, weights["sequence"]["logits/kernel"])
    assert model.preprocessor(["Cafe b"])["input_word_ids"].numpy().tolist() == [[2, 7, 10, 3]]
    model.save_preset(tmp_path / "ours")
    again = BertClassifier.from_preset(tmp_path / "ours")
    assert again.preprocessor.tokenizer.tokenize(["Cafe b"]).to_list() == [[7, 10]]
    sentence_encoder = BertSentenceEncoder.from_preset(tmp_path)
    assert small.same(again, model)
    assert small.same(sentence_encoder.encoder, model.encoder)


# -- Labels


@pytest.mark.parametrize(("names", "labels"), [
    ({"0": "A", "1": "B", "2": "C"}, ["A", "C", "B"]),  # nor one whose answers are exchanged
    ({"0": "A", "1": "B", "2": "C"}, ["A", "B"]),
    (None, ["A", "B"]),
])  # fmt: skip
def test_a_head_for_other_labels_is_left_out_with_a_warning(saved, tmp_path, names, labels):
    task, directory, kernel = saved
    directory = changed(directory, tmp_path / "preset", id2label=names)
    model, warned = warned_of(task, directory, labels=labels)
    assert_names("".join(warned), "head", "A, B, C" if names else "LABEL_0, LABEL_1, LABEL_2", ", ".join(labels), "new")
    assert model.labels == labels
    assert model.head.logits.kernel.shape == (small.CONFIG.hidden_size, len(labels))
    assert not np.isin(model.head.logits.kernel, kernel).any()


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("names", [None, {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}])
def test_a_head_without_names_is_used_for_as_many_labels(saved, tmp_path, names):
    task, directory, kernel = saved
    directory = changed(directory, tmp_path / "preset", id2label=names)
    model = task.from_preset(directory, labels=["x", "y", "z"])
    np.testing.assert_array_equal(model.head.logits.kernel, kernel)
    assert model.labels == ["x", "y", "z"]
    sorted_as_texts = changed(directory, tmp_path / "sorted", id2label={"2": "C", "0": "A", "1": "B"})
    assert task.from_preset(sorted_as_texts).labels == ["A", "B", "C"]
    if names is None:
        with error_names(ValueError, "no names", "3 labels", "labels="):
            task.from_preset(directory)


def warned_of(task, directory, **settings):
    """A model, and the messages of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = task.from_preset(directory, **settings)
    caught = [each for each in caught if issubclass(each.category, UserWarning)]
    assert {each.filename for each in caught} <= {__file__}
    return model, [str(each.message) for each in caught]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The directories of models for each task, without a new head."""
    folder = tmp_path_factory.mktemp("models")
    shape, windows = {"config": {"num_layers": 1}}, {"text": {"stride": 4}}
    dense = {"units": 5, "activation": "tanh", "use_bias": True}
    for name, model in {
        "classes": small.task(BertClassifier, FIRST, **shape),
        "words": small.task(BertTokenClassifier, FIRST, **shape),
        "answers": small.task(BertQuestionAnswerer, **shape, **windows),
        "score": small.task(BertReranker, **shape),
        "vectors": BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor()),
        "dense": BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor(), dense=dense),
        "masks": BertMaskedLM(small.encoder(num_layers=1)),
    }.items():
        model.save_preset(folder / name)
        small.tokenizer().save_preset(folder / name, overwrite=True)
    return folder


# Name -> the task that uses its trained part, and what the part is called.
PARTS = {
    "classes": (BertClassifier, "head for texts"), "words": (BertTokenClassifier, "head for words"),
    "answers": (BertQuestionAnswerer, "head for answers to questions"), "score": (BertReranker, "head for texts"),
    "dense": (BertSentenceEncoder, "Dense layer"), "vectors": (None, None), "masks": (None, None),
}  # fmt: skip
MISFITS = {("score", BertClassifier): ("LABEL_0", "A, B, C"), ("classes", BertReranker): ("A, B, C", "one score")}


@pytest.mark.parametrize("task", [*TASKS, BertQuestionAnswerer, BertReranker, BertSentenceEncoder])
def test_trained_parts_that_a_model_leaves_out_and_heads_that_it_lacks_are_named(models, task):
    """Nobody asks for a new head but with labels. A pre-trained model is there to start from."""
    labels = {"labels": FIRST} if task in TASKS else {}
    for name, (owner, part) in PARTS.items():
        _, warned = warned_of(task, models / name, **labels)
        expected = []
        if (name, task) in MISFITS:
            expected.append(("trained", "new", *MISFITS[name, task]))
        elif owner not in (None, task):
            expected.append((f"trained {part}", "not use", task.__name__))
        needs_no_head = labels or task is BertSentenceEncoder or owner is task or (name, task) in MISFITS
        if not needs_no_head and name != "masks":
            expected.append(("no head", task.__name__, "new", "randomly"))
        assert len(warned) == len(expected), (name, warned)
        for message, words in zip(warned, expected, strict=True):
            assert_names(message, *words)


def test_a_dense_layer_of_other_units_is_left_out_with_a_warning(models):
    (warned,) = warned_of(BertSentenceEncoder, models / "dense", dense={"units": 7})[1]
    assert_names(warned, "trained dense layer", "5", "7")
    assert warned_of(BertSentenceEncoder, models / "vectors", dense={"units": 7})[1] == []  # it was asked for


@pytest.mark.parametrize(("task", "ask", "x", "y"), [
    (BertReranker, lambda model: model.score("a film", "good"), (["a", "b"], ["c", "d"]), [0, 1]),
    (BertQuestionAnswerer, lambda model: model.answer("who?", "a film"), (["who?"], ["a film"]), [[("film", 2)]]),
])  # fmt: skip
def test_a_new_head_of_a_pre_trained_model_warns_with_its_first_answer_if_it_was_not_trained(
    models, task, ask, x, y, untraced
):
    (model, warned), (trained, _) = (warned_of(task, models / "masks") for _ in range(2))
    assert warned == []
    with pytest.warns(UntrainedWarning) as warned:
        ask(model)
    assert_names(str(warned[0].message), "new", "randomly", "trained")
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", UntrainedWarning)
        ask(model)  # once is enough
        fine_tune(trained, (x, y), epochs=1, progress=False)
        ask(trained)


@pytest.mark.parametrize("task", TASKS)
def test_a_preset_without_a_head(small_preset, task):
    with error_names(ValueError, "no head", "labels="):
        task.from_preset(small_preset)


def test_fields_of_the_configuration(small_preset):
    """`from_preset` of every task takes them, and a dtype."""
    fields = {"hidden_dropout": 0.0, "attention_dropout": 0.25, "dtype": "mixed_bfloat16"}
    for task, settings in ((BertClassifier, {"labels": FIRST}), (BertSentenceEncoder, {})):
        model = task.from_preset(small_preset, **settings, **fields)
        config = model.encoder.config
        assert (config.hidden_dropout, config.attention_dropout) == (0.0, 0.25)
        assert model.encoder.dtype_policy.name == "mixed_bfloat16"
    with error_names(TypeError, "hiden_dropout", "pooling", "fields"):
        BertSentenceEncoder.from_preset(small_preset, hiden_dropout=0.0)


# -- Poolers


@pytest.fixture(scope="module")
def without_pooler(tmp_path_factory):
    """The directory of a masked language model, which has no pooler in any file of transformers."""
    directory = tmp_path_factory.mktemp("masked_lm")
    BertMaskedLM(small.encoder(num_layers=1, pooler=False)).save_preset(directory)
    small.tokenizer().save_preset(directory)
    return directory


@pytest.mark.parametrize(("kind", "settings"), [
    (BertClassifier, {"labels": FIRST}), (BertReranker, {}), (BertPretrainer, {"pairs": True, "sequence_length": 16}),
])  # fmt: skip
def test_a_new_head_that_reads_the_pooler_gets_one(without_pooler, kind, settings, tmp_path):
    model = kind.from_preset(without_pooler, **settings)
    assert model.encoder.config.pooler
    trained = {variable.path for variable in model.trainable_variables}
    assert {variable.path for variable in model.encoder.pooler.variables} <= trained
    model.save_preset(tmp_path)
    assert small.same(kind.from_preset(tmp_path), model)
    kernels = [kind.from_preset(without_pooler, **settings).encoder.pooler.kernel, model.encoder.pooler.kernel]
    assert not np.array_equal(*kernels)  # drawn at random


def test_heads_of_tokens_need_no_pooler(without_pooler):
    assert BertTokenClassifier.from_preset(without_pooler, labels=FIRST).encoder.pooler is None
    assert BertEncoder.from_preset(without_pooler).pooler is None
    assert BertEncoder.from_preset(without_pooler, pooler=True).pooler is not None
    assert BertClassifier.from_preset(without_pooler, labels=FIRST).encoder.pooler is not None


def test_a_head_without_the_pooler_that_it_reads_is_refused(without_pooler, tmp_path):
    words = "'sequence'", "bert", "pooler=True"
    with error_names(ValueError, *words):
        BertClassifier.from_preset(without_pooler, labels=FIRST, pooler=False)
    with error_names(ValueError, *words):
        BertReranker(BertEncoder.from_preset(without_pooler), small.preprocessor())
    config = dataclasses.replace(CONFIGS["bert"], pooler=False)
    for form in formats.FORMATS[:2]:
        with error_names(ValueError, *words):
            formats.write(tmp_path, config, random_weights(config, "sequence"), form)
    assert not any(tmp_path.iterdir())
    for family in ("distilbert", "electra", "modernbert"):
        with error_names(ValueError, family, "no pooler"):
            BertEncoder(dataclasses.replace(CONFIGS[family], pooler=True))


def test_an_open_preset_stays_open_until_its_block_ends(small_preset):
    with formats.Preset.open(small_preset) as preset:
        encoder = BertEncoder.from_preset(preset)
        assert preset.checkpoint.read("encoder").keys()  # the encoder did not close it
        BertPreprocessor.from_preset(preset)
        assert encoder.config == preset.config
    with error_names(ValueError, "closed file"):
        preset.checkpoint.read("encoder")

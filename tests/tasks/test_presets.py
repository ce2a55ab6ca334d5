"""Tasks saved and read again; which head a task has whose labels are given: the preset's, or a new one."""

import dataclasses
import json
import shutil
import warnings

import keras
import numpy as np
import pytest

from keras_bert import (
    BertClassifier,
    BertEncoder,
    BertMaskedLM,
    BertQuestionAnswerer,
    BertReranker,
    BertSentenceEncoder,
    BertTokenClassifier,
    formats,
)
from keras_bert.pretraining.pretrainer import BertPretrainer
from keras_bert.tasks.classifier_losses import MultiLabel
from keras_bert.tasks.storable import UntrainedWarning
from keras_bert.tasks.table import task_of
from keras_bert.training import fine_tune

from ..support import small
from ..support.checkpoints import CONFIGS, random_weights
from ..support.keras_hub import TOKENS, write_weights, write_wordpiece

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
    """A copy with other values in its configuration."""
    shutil.copytree(directory, copy)
    values = json.loads((copy / "config.json").read_text()) | changes
    (copy / "config.json").write_text(json.dumps({k: v for k, v in values.items() if v is not None}))
    return copy


def is_head(model, kernel):
    return np.array_equal(model.head.logits.kernel, kernel)


# -- Settings of a file that has been changed

SETTINGS = [
    ("model", {"fancy": 1}, "keras_bert.model has fancy, which no .* has; known are .*dropout"),
    ("model", {"dropout": "x"}, "keras_bert.model has 'x' in dropout; expected a number or null"),
    ("model", {"dropout": 2**70}, "of .*dropout.*: .*a probability"),
    ("preprocessor", {"fancy": 1}, "keras_bert.preprocessor has fancy, which no .* has; known are sequence_length, "),
    ("preprocessor", {"sequence_length": 2**70}, "sequence_length is 1180591620717411303424; expected 3"),
    (
        "preprocessor",
        {"max_sequence_length": 2**70},
        "preprocessor.max_sequence_length is 11805.*model has 48 positions",
    ),
    ("preprocessor", {"truncation": "q"}, "truncation is 'q'; expected one of"),
]


@pytest.mark.parametrize(("part", "change", "message"), SETTINGS)
def test_settings_that_no_task_has(saved, part, change, message, tmp_path):
    kind, directory, _ = saved
    values = json.loads((directory / "config.json").read_text())["keras_bert"]
    values[part] |= change
    copy = changed(directory, tmp_path / "copy", keras_bert=values)
    with pytest.raises(ValueError, match=message) as raised:
        kind.from_preset(copy)
    assert str(copy / "config.json") in str(raised.value)


# -- There and back


def test_a_classifier(tmp_path):
    model = new(
        BertClassifier, text=WINDOWS, pairs=True, problem_type=MultiLabel.NAME, window_pooling="max", dropout=0.3
    )
    model.save_preset(tmp_path / "preset")
    model.save(tmp_path / "model.keras")
    for again in (BertClassifier.from_preset(tmp_path / "preset"), keras.models.load_model(tmp_path / "model.keras")):
        assert small.same(again, model)
        assert again.labels == FIRST
        assert (again.problem_type, again.window_pooling, again.pairs, again.dropout_rate) == (
            MultiLabel.NAME,
            "max",
            True,
            0.3,
        )
        assert (again.preprocessor.sequence_length, again.preprocessor.stride) == (8, 3)
    config = json.loads((tmp_path / "preset/config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["id2label"] == {"0": "A", "1": "B", "2": "C"}
    with pytest.raises(FileExistsError, match="pass overwrite"):
        model.save_preset(tmp_path / "preset")
    other = BertClassifier.from_preset(
        tmp_path / "preset", window_pooling="mean", dropout=0.1, pairs=False, long_text="truncate"
    )
    assert (other.window_pooling, other.dropout_rate, other.pairs, other.preprocessor.stride) == (
        "mean",
        0.1,
        False,
        None,
    )


def test_a_token_classifier(tmp_path):
    model = new(BertTokenClassifier, text=WINDOWS)
    model.save_preset(tmp_path / "preset")
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    loaded = new(BertTokenClassifier, text=WINDOWS, seed=1)
    assert not small.same(loaded, model)
    loaded.load_weights(tmp_path / "model.weights.h5")
    again = BertTokenClassifier.from_preset(tmp_path / "preset")
    for each in (again, keras.models.load_model(tmp_path / "model.keras"), loaded):
        assert small.same(each, model)
    assert (again.labels, again.dropout_rate, again.preprocessor.stride) == (FIRST, 0.0, 3)
    config = json.loads((tmp_path / "preset/config.json").read_text())
    assert config["architectures"] == ["BertForTokenClassification"]
    assert config["id2label"] == {"0": "A", "1": "B", "2": "C"}
    settings = {"long_text": "windows", "sequence_length": 12, "dropout": 0.2}
    others = BertTokenClassifier.from_preset(tmp_path / "preset", labels=["D", "E"], **settings)
    assert (others.labels, others.preprocessor.stride, others.dropout_rate) == (["D", "E"], 6, 0.2)
    with pytest.raises(FileExistsError, match="pass overwrite"):
        model.save_preset(tmp_path / "preset")
    with pytest.raises(ValueError, match="head_tail"):
        BertTokenClassifier.from_preset(tmp_path / "preset", long_text="head_tail")


def test_another_task_takes_the_encoder_only(tmp_path):
    """Its encoder and its tokenizer serve; not its head, labels, lengths and settings."""
    new(BertClassifier, text=WINDOWS).save_preset(tmp_path / "classifier")
    with pytest.raises(ValueError, match="has no head of this task"):
        BertTokenClassifier.from_preset(tmp_path / "classifier")
    tagger = BertTokenClassifier.from_preset(tmp_path / "classifier", labels=["O", "B-x"])
    assert (tagger.labels, tagger.preprocessor.stride) == (["O", "B-x"], None)
    tagger.save_preset(tmp_path / "tagger")
    with pytest.raises(ValueError, match="has no head of this task"):
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
    for one, other in ((again, model), (sentence_encoder.encoder, model.encoder)):
        for ours, theirs in zip(one.get_weights(), other.get_weights(), strict=True):
            np.testing.assert_array_equal(ours, theirs)


# -- Labels


@pytest.mark.parametrize("names", [None, {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}])
def test_a_head_without_names_is_used_for_as_many_labels(saved, tmp_path, names):
    task, directory, kernel = saved
    directory = changed(directory, tmp_path / "preset", id2label=names)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model = task.from_preset(directory, labels=["x", "y", "z"])
    assert is_head(model, kernel)
    assert model.labels == ["x", "y", "z"]
    if names is None:
        with pytest.raises(ValueError, match=r"has no names for its 3 labels; give the names of your labels: labels="):
            task.from_preset(directory)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id2label": ["A", "B", "C"]}, "has .* in id2label; expected an object or null"),
        ({"id2label": {"0": "A", "1": None, "2": "C"}}, r"has no id2label\.1; expected a string or a whole number"),
        ({"id2label": {"1": "A", "2": "B", "3": "C"}}, "id2label has the keys 1, 2, 3; expected the numbers 0 to 2"),
        ({"problem_type": ["x"]}, "in problem_type; expected a string or null"),
        ({"keras_bert": []}, "in keras_bert; expected an object or null"),
        ({"keras_bert": {"preprocessor": {"stride": "4"}}}, "has '4' in keras_bert.preprocessor.stride; expected a wh"),
    ],
)
def test_settings_of_another_type_are_named(saved, tmp_path, change, message):
    task, directory, _ = saved
    directory = changed(directory, tmp_path / "preset", **change)
    with pytest.raises(ValueError, match=message) as raised:
        task.from_preset(directory)
    assert str(directory / "config.json") in str(raised.value)


def test_a_head_that_is_left_out_is_told(saved):
    task, directory, kernel = saved
    with pytest.warns(UserWarning, match="has a trained head for A, B, C; for A, C, B a new one is drawn") as told:
        model = task.from_preset(directory, labels=["A", "C", "B"])
    assert told[0].filename == __file__
    assert not np.allclose(np.sort(model.head.logits.kernel), np.sort(kernel))  # nor one whose answers are exchanged


@pytest.mark.parametrize("names", [{"0": "A", "1": "B", "2": "C"}, None])
def test_a_head_for_another_number_of_labels_is_told(saved, tmp_path, names):
    task, directory, _ = saved
    directory = changed(directory, tmp_path / "preset", id2label=names)
    known = "A, B, C" if names else "LABEL_0, LABEL_1, LABEL_2"
    with pytest.warns(UserWarning, match=f"has a trained head for {known}; for A, B a new one is drawn") as told:
        model = task.from_preset(directory, labels=["A", "B"])
    assert told[0].filename == __file__
    assert model.labels == ["A", "B"]
    assert model.head.logits.kernel.shape == (small.CONFIG.hidden_size, 2)


def told_of(task, directory, **settings):
    """A model, and the messages of its warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = task.from_preset(directory, **settings)
    told = [each for each in told if issubclass(each.category, UserWarning)]
    assert {each.filename for each in told} <= {__file__}
    return model, [str(each.message).removeprefix(f"{directory} has ") for each in told]


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


UNUSED = {
    "classes": "a trained head for texts",
    "words": "a trained head for words",
    "answers": "a trained head for answers to questions",
    "score": "a trained head for texts",
    "dense": "a trained Dense layer of a sentence encoder",
}
USED = {
    ("classes", BertClassifier), ("words", BertTokenClassifier), ("answers", BertQuestionAnswerer),
    ("score", BertReranker), ("dense", BertSentenceEncoder),
}  # fmt: skip
MISFITS = {
    ("score", BertClassifier): "a trained head for LABEL_0; for A, B, C a new one is drawn at random",
    ("classes", BertReranker): "a trained head for A, B, C; for one score a new one is drawn at random",
}


@pytest.mark.parametrize("task", [BertClassifier, BertTokenClassifier, BertQuestionAnswerer, BertReranker])
def test_what_a_preset_has_and_a_model_does_not_use_is_told_and_what_it_lacks(models, task):
    """Nobody asks for a new head but with labels. A pre-trained model is there to start from."""
    labels = {"labels": FIRST} if task in TASKS else {}
    for name in ("classes", "words", "answers", "score", "vectors", "dense", "masks"):
        _, told = told_of(task, models / name, **labels)
        expected = []
        if (name, task) in MISFITS:
            expected.append(MISFITS[name, task])
        elif name in UNUSED and (name, task) not in USED:
            expected.append(f"{UNUSED[name]}, which a {task.__name__} does not use")
        is_new = (name, task) not in USED | MISFITS.keys() and not labels
        if is_new and name != "masks":
            expected.append(f"no head of a {task.__name__}: a new one is drawn at random, and must be trained")
        assert len(told) == len(expected), (name, told)
        assert all(message.startswith(start) for message, start in zip(told, expected, strict=True)), (name, told)


def test_a_sentence_encoder_tells_of_heads_and_of_a_dense_layer_that_it_does_not_use(models):
    for name in ("classes", "words", "answers", "score"):
        assert told_of(BertSentenceEncoder, models / name)[1] == [
            f"{UNUSED[name]}, which a BertSentenceEncoder does not use"
        ]
    for name in ("vectors", "dense", "masks"):
        assert told_of(BertSentenceEncoder, models / name)[1] == []
    (told,) = told_of(BertSentenceEncoder, models / "dense", dense={"units": 7})[1]
    assert told.startswith("a trained dense layer, {'units': 5,")
    assert told_of(BertSentenceEncoder, models / "vectors", dense={"units": 7})[1] == []  # it was asked for


ASKED = [
    (BertReranker, lambda model: model.score("a film", "good"), (["a", "b"], ["c", "d"]), [0, 1]),
    (BertQuestionAnswerer, lambda model: model.answer("who?", "a film"), (["who?"], ["a film"]), [[("film", 2)]]),
]


@pytest.mark.parametrize(("task", "ask"), [each[:2] for each in ASKED])
def test_a_new_head_of_a_pre_trained_model_is_told_with_its_first_answer(models, task, ask):
    model, told = told_of(task, models / "masks")
    assert told == []
    with pytest.warns(UntrainedWarning, match="a new one is drawn at random, and must be trained") as told:
        ask(model)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", UntrainedWarning)
        ask(model)  # once is enough


@pytest.mark.slow
@pytest.mark.parametrize(("task", "ask", "x", "y"), ASKED)
def test_a_new_head_that_has_been_trained_is_not_told(models, task, ask, x, y):
    model, _ = told_of(task, models / "masks")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UntrainedWarning)
        fine_tune(model, (x, y), epochs=1, progress=False)
        ask(model)


@pytest.mark.parametrize("task", TASKS)
def test_a_preset_without_a_head(small_preset, task):
    with pytest.raises(ValueError, match="has no head of this task; give the names of your labels: labels="):
        task.from_preset(small_preset)


def test_fields_of_the_configuration(small_preset):
    """`from_preset` of every task takes them, and a dtype."""
    fields = {"hidden_dropout": 0.0, "attention_dropout": 0.25, "dtype": "mixed_bfloat16"}
    for task, settings in ((BertClassifier, {"labels": FIRST}), (BertSentenceEncoder, {})):
        model = task.from_preset(small_preset, **settings, **fields)
        config = model.encoder.config
        assert (config.hidden_dropout, config.attention_dropout) == (0.0, 0.25)
        assert model.encoder.dtype_policy.name == "mixed_bfloat16"
    with pytest.raises(TypeError, match="no argument hiden_dropout; it takes .*, pooling, .*, and the fields"):
        BertSentenceEncoder.from_preset(small_preset, hiden_dropout=0.0)


def test_settings_of_another_task(tmp_path):
    """What one task saved of itself is not another's."""
    new(BertClassifier, window_pooling="max", pairs=True).save_preset(tmp_path)
    assert task_of(tmp_path) is BertClassifier
    assert BertSentenceEncoder.from_preset(tmp_path).pooling == "mean"


# -- Poolers


@pytest.fixture(scope="module")
def without_pooler(tmp_path_factory):
    """The directory of a masked language model, which has no pooler in any file of transformers."""
    directory = tmp_path_factory.mktemp("masked_lm")
    BertMaskedLM(small.encoder(num_layers=1, pooler=False)).save_preset(directory)
    small.tokenizer().save_preset(directory)
    return directory


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(BertClassifier, {"labels": FIRST}), (BertReranker, {}), (BertPretrainer, {"pairs": True, "sequence_length": 16})],
)
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
    message = "the head 'sequence' of a bert reads the pooler, but the encoder has none; .* with pooler=True"
    with pytest.raises(ValueError, match=message):
        BertClassifier.from_preset(without_pooler, labels=FIRST, pooler=False)
    with pytest.raises(ValueError, match=message):
        BertReranker(BertEncoder.from_preset(without_pooler), small.preprocessor())
    config = dataclasses.replace(CONFIGS["bert"], pooler=False)
    for form in formats.FORMATS[:2]:
        with pytest.raises(ValueError, match=message):
            formats.write(tmp_path, config, random_weights(config, "sequence"), form)
    assert not any(tmp_path.iterdir())
    for family in ("distilbert", "electra", "modernbert"):
        with pytest.raises(ValueError, match=f"a {family} has no pooler in this layout; make the encoder with pooler"):
            BertEncoder(dataclasses.replace(CONFIGS[family], pooler=True))

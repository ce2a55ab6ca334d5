"""BertClassifier: what it computes, learns and answers, and where it can be taken."""

import functools

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertPreprocessor, BertTokenClassifier
from keras_bert.choices import PROBLEM_TYPES
from keras_bert.loss_table import losses_of
from keras_bert.tasks import FocalLoss
from keras_bert.tasks.heads.long_text import classify_texts
from keras_bert.tasks.kinds.classes import Classes, Numbers, Several
from keras_bert.tasks.kinds.words import WordLabels
from keras_bert.tasks.losses import chosen
from keras_bert.training import fine_tune
from keras_bert.training.adapting import adapting

from ..support import small
from ..support.losses import assert_saved_compiled_and_learned_from
from ..support.messages import assert_names, error_names, warning_names

TEXTS = ["the film plot", "", "dull music", "very good actor (42)"]
LABELS = ["art", "number", "both"]


def new(labels=LABELS, text=None, config=None, kind=BertClassifier, **settings):
    config = {"num_layers": 1, **(config or {})}
    return small.task(kind, labels, text=text or {}, config=config, **settings)


@pytest.fixture(scope="module")
def model():
    return new()


@pytest.fixture(scope="module")
def of_pairs():
    return new(pairs=True)


def probabilities(logits):
    odds = np.exp(logits - logits.max(-1, keepdims=True))
    return odds / odds.sum(-1, keepdims=True)


# -- Logits


def test_logits_are_the_head_on_the_pooled_output(model):
    packed = model.preprocessor(TEXTS)
    pooled = model.encoder(packed)["pooled_output"].numpy()
    expected = pooled @ model.head.logits.kernel.numpy() + model.head.logits.bias.numpy()
    np.testing.assert_allclose(model(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(model(packed), expected, atol=1e-5)


def test_predict_and_a_functional_model_give_the_same(model):
    expected = model(TEXTS).numpy()
    named = tf.data.Dataset.from_tensor_slices((TEXTS, ["both"] * 4)).batch(2)  # whose labels nobody reads
    np.testing.assert_allclose(model.predict(named, verbose=0), expected, atol=1e-5)
    texts = keras.Input(shape=(), dtype="string")
    functional = keras.Model(texts, keras.layers.Softmax()(model(texts)))
    np.testing.assert_allclose(functional(tf.constant(TEXTS)), probabilities(expected), atol=1e-5)


@pytest.mark.parametrize("stride", [None, pytest.param(4, marks=pytest.mark.slow)])
def test_a_head_with_a_dense_layer_takes_the_poolers_place(stride):
    """RoBERTa's; its checkpoints have a pooler all the same, which RobertaForSequenceClassification leaves out."""
    model = new(text={"stride": stride}, config={"family": "roberta", "positions_after_padding": True})
    packed = model.preprocessor(TEXTS[:1])
    flat = {name: tf.reshape(each, [-1, each.shape[-1]]) for name, each in packed.items()}  # of one window
    first = model.encoder(flat)["sequence_output"][:, 0].numpy()
    head = model.head
    hidden = np.tanh(first @ head.transform.kernel.numpy() + head.transform.bias.numpy())
    expected = hidden @ head.logits.kernel.numpy() + head.logits.bias.numpy()
    with tf.GradientTape() as tape:
        logits = model(packed)
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    kept = [variable.path for variable in model.encoder.trainable_variables]
    assert len(kept) - len(model.trainable_variables) + len(head.trainable_variables) == 2  # the pooler's
    # Keras warns of weights without gradients.
    assert None not in tape.gradient(logits, [each.value for each in model.trainable_variables])


@pytest.mark.slow
def test_windows_are_pooled():
    long = "the film plot was very good and not dull music"
    model = new(text={"sequence_length": 6, "stride": 3}, window_pooling="max")
    words = long.split()
    one_row = small.preprocessor(sequence_length=6)
    windows = one_row([*(" ".join(words[i : i + 4]) for i in (0, 3, 6)), "film"])
    *windows, only = model.encoder(windows)["pooled_output"].numpy()
    packed = model.preprocessor([long, "film"])
    for pool, expected in (("mean", np.mean(windows, axis=0)), ("max", np.max(windows, axis=0))):
        got = classify_texts(model.encoder, model.head, packed, pool).numpy()
        np.testing.assert_allclose(got, model.head(np.stack([expected, only])), atol=1e-5)
    np.testing.assert_allclose(model(packed), got, atol=1e-5)


def test_pooled_logits():
    """EuroBERT's: the mean of the logits of all tokens but padding; and of windows."""
    config = {"family": "eurobert", "pooler": False, "pooling": "late"}
    model = new(text={"sequence_length": 6, "stride": 3}, config=config)
    packed = model.preprocessor(["the film plot was very good", "film"])
    expected = []
    for row in range(2):
        windows = [{name: each[row, i : i + 1].numpy() for name, each in packed.items()} for i in range(2)]
        windows = [window for window in windows if window["input_mask"].any()]
        logits = [model.head(model.encoder(window)["sequence_output"])[0].numpy() for window in windows]
        means = [each[window["input_mask"][0] > 0].mean(0) for each, window in zip(logits, windows, strict=True)]
        expected.append(np.mean(means, axis=0))
    np.testing.assert_allclose(model(packed), expected, atol=1e-5)


# -- Answers


def test_classes(model, untraced):
    expected = probabilities(model(TEXTS).numpy())
    served = model.serve(tf.constant(TEXTS))
    assert served["labels"].numpy().tolist() == [[label.encode() for label in LABELS]] * 4
    np.testing.assert_allclose(served["probabilities"], expected, atol=1e-5)
    for answer, row in zip(model.classify(TEXTS, batch_tokens=24), expected, strict=True):
        assert answer["label"] == LABELS[row.argmax()]
        assert answer["probability"] == pytest.approx(row.max(), abs=1e-5)
    with warning_names("texts truncated", "24 tokens", "1"):
        model.classify(["film " * 50, "film"])


def test_the_order_is_that_of_logits_where_probabilities_are_equal():
    nearly_equal, sure = np.float32([[1e-9, 2e-9, 0]]), np.float32([[20, 30, 25]])
    (answer,) = Classes(LABELS).answers(nearly_equal)
    served = Classes(LABELS).serving_outputs(tf.constant(nearly_equal))
    assert (answer["label"], served["label"].numpy()[0].decode()) == ("number", "number")
    assert [each["label"] for each in Several(LABELS).answers(100 + sure)[0]] == ["number", "both", "art"]
    answers = [Classes(LABELS).answers(each - sure.max())[0] for each in (sure * 3, sure * 5, sure * 4)]
    assert Classes(LABELS).score(answers, ["art"] * 3).worst == [1, 2, 0]  # wrong, and ever more probable


def test_several_labels(model, monkeypatch, untraced):
    monkeypatch.setattr(model, "kind", Several(LABELS))
    expected = 1 / (1 + np.exp(-model(TEXTS).numpy()))
    classified = model.classify(TEXTS)
    for answers, row in zip(classified, expected, strict=True):
        assert {answer["label"] for answer in answers} == {LABELS[i] for i in np.flatnonzero(row >= 0.5)}
        values = [answer["probability"] for answer in answers]
        np.testing.assert_allclose(values, sorted(row[row >= 0.5], reverse=True), atol=1e-5)
    assert max(map(len, classified)) > 1
    assert min(map(len, classified)) < 3  # not every text has every label
    served = model.serve(tf.constant(TEXTS))
    assert set(served) == {"labels", "probabilities"}
    np.testing.assert_allclose(served["probabilities"], expected, atol=1e-5)
    np.testing.assert_array_equal(model.targets([["both"], [], ["art", "number"]]), [[0, 0, 1], [0] * 3, [1, 1, 0]])


def test_soft_labels_count_as_they_are_learned():
    kind = Several(LABELS)
    soft = np.float32([[0.9, 0.1, 0.5], [0, 0.4, 1]])
    answers = [[{"label": name, "probability": 1.0} for name in names] for names in (["art", "both"], ["both"])]
    found = kind.score(answers, soft)
    assert (found.measures["micro_f1"], found.measures["accuracy"], found.mistakes) == (1, 1, [])
    assert_names(*kind.warnings(soft), "'art' (1)", "'number' (0)", "'both' (2)")


def test_numbers(model, monkeypatch):
    monkeypatch.setattr(model, "kind", Numbers(LABELS))
    expected = model(TEXTS).numpy()
    for answer, row in zip(model.classify(TEXTS), expected, strict=True):
        assert answer == pytest.approx(dict(zip(LABELS, row, strict=True)), abs=1e-5)
    number = Numbers(["number"])
    assert number.targets([1, 2.5]).tolist() == [[1.0], [2.5]]
    for bad in (float("nan"), float("inf")):
        with error_names(ValueError, "label 1", bad, "finite"):
            number.targets([0.5, bad, float("nan")])


def test_pairs(of_pairs, untraced):
    firsts, seconds = TEXTS, TEXTS[::-1]
    logits = of_pairs((firsts, seconds)).numpy()
    expected = probabilities(logits)
    answers = of_pairs.classify(firsts, seconds)
    np.testing.assert_allclose([answer["probability"] for answer in answers], expected.max(-1), atol=1e-5)
    assert not np.allclose(logits, of_pairs((seconds, firsts)))
    with error_names(ValueError, "4 first", "3 second"):
        of_pairs.classify(firsts, seconds[:3])
    with error_names(TypeError, "str", "list"):
        of_pairs.classify("one", ["two"])


# -- Training


class Counted(BertClassifier):
    traced = 0

    def train_step(self, data):
        self.traced += 1
        return super().train_step(data)


@pytest.mark.parametrize("problem_type", [
    "single_label_classification",
    *(pytest.param(kind, marks=pytest.mark.slow) for kind in (Several.PROBLEM_TYPE, Numbers.PROBLEM_TYPE)),
])  # fmt: skip
def test_it_learns_from_strings(problem_type):
    """And its step is traced once: there is nothing left to make in the first one."""
    kinds = ["film", "number"] * 8
    generator = np.random.default_rng(0)
    words = {"film": ["film", "plot", "music"], "number": ["1", "2", "3"]}
    texts = [" ".join(generator.choice(words[kind], 3)) for kind in kinds]
    numbers = [float(kind == "film") for kind in kinds]
    y = {Several.PROBLEM_TYPE: [[kind] for kind in kinds], Numbers.PROBLEM_TYPE: numbers}.get(problem_type, kinds)
    labels = ["value"] if problem_type == Numbers.PROBLEM_TYPE else list(words)
    model = new(labels, kind=Counted, problem_type=problem_type, scale=0.1)
    model.compile(keras.optimizers.Adam(1e-2), model.training_loss())
    losses = model.fit(texts, y, epochs=12, batch_size=8, verbose=0).history["loss"]
    assert losses[0] > 0.2
    assert losses[-1] < 0.1
    assert model.traced == 1
    assert model.optimizer.iterations == 24
    answers = model.classify(["2 1 1", "plot film music"])
    if problem_type == Numbers.PROBLEM_TYPE:
        assert [round(answer["value"]) for answer in answers] == [0, 1]
    elif problem_type == Several.PROBLEM_TYPE:
        assert [[each["label"] for each in answer] for answer in answers] == [["number"], ["film"]]
    else:
        assert [answer["label"] for answer in answers] == ["number", "film"]


def test_a_subclass_decides_what_is_trained():
    class LastLayer(BertClassifier):
        @property
        def trainable_variables(self):
            return self.head.trainable_variables

    model = new(kind=LastLayer)
    assert [each.path for each in model.trainable_weights] == [each.path for each in model.head.trainable_variables]


@pytest.mark.slow
def test_windows_are_trained_and_classified():
    model = new(["early", "late"], text={"sequence_length": 6, "stride": 4}, window_pooling="max", scale=0.1)
    texts = ["film " * 12 + "plot", "film " * 13] * 4  # the difference is in the last window
    examples = texts, ["late", "early"] * 4
    model.compile(keras.optimizers.Adam(1e-2), model.training_loss())
    history = model.fit(*examples, epochs=15, verbose=0, validation_data=examples).history
    assert history["val_loss"][-1] == pytest.approx(model.evaluate(*examples, verbose=0), abs=1e-5)
    assert [answer["label"] for answer in model.classify(texts)] == ["late", "early"] * 4


LOGITS = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
TARGETS = {
    "single_label_classification": np.array([2, 0, 1, 1]),
    "multi_label_classification": np.float32([[1, 0, 1], [0, 0, 0], [0, 1, 0], [0.5, 1, 0]]),
    "regression": LOGITS[::-1].copy(),
}


@pytest.mark.parametrize("gamma", [0.0, 2.0])
def test_the_focal_loss_is_that_of_keras(gamma):
    of_classes = keras.losses.CategoricalFocalCrossentropy(alpha=1.0, gamma=gamma, from_logits=True)
    of_several = keras.losses.BinaryFocalCrossentropy(gamma=gamma, from_logits=True)
    loss, (classes, several, _) = FocalLoss(gamma), TARGETS.values()
    expected = float(of_classes(np.eye(3)[classes], LOGITS))
    for targets in (classes, classes[:, None]):
        assert float(loss(targets, LOGITS)) == pytest.approx(expected, rel=1e-5)
    assert float(loss(several[:3], LOGITS[:3])) == pytest.approx(float(of_several(several[:3], LOGITS[:3])), rel=1e-5)


@pytest.mark.parametrize(("name", "problem_type"), [(x, each) for each in PROBLEM_TYPES for x in losses_of(each)])
def test_each_loss_with_a_name_can_be_compiled_saved_and_learned_from(name, problem_type):
    assert_saved_compiled_and_learned_from(chosen(name, problem_type), TARGETS[problem_type], LOGITS)


# -- What cannot be


def test_a_label_that_could_not_be_saved(model, small_preset):
    for make in (functools.partial(made, model), functools.partial(BertClassifier.from_preset, small_preset)):
        with error_names(ValueError, "label", "surrogate"):
            make(labels=["a", "b\ud800"])
        with error_names(TypeError, "labels"):
            make(labels={"a", "b"})


@pytest.mark.parametrize("pairs", [False, True])
def test_pairs_and_single_texts_are_not_taken_for_each_other(model, of_pairs, pairs):
    model = of_pairs if pairs else model
    single, both, y = TEXTS, (TEXTS, TEXTS), ["both"] * 4
    x, words = (single, ("pairs", "two lists")) if pairs else (both, ("single texts", "pairs=True"))
    model.compile("adam", model.training_loss(), jit_compile=False)
    for use in (
        lambda: model(x),
        lambda: model.examples(x, y),
        lambda: fine_tune(model, (x, y)),
        lambda: model.fit(x, y, verbose=0),
        lambda: model.classify(single) if pairs else model.classify(*both),
    ):
        with error_names(ValueError, *words):
            use()
    model.examples(both if pairs else single, y)


def test_labels_in_a_dataset_are_numbers(model, monkeypatch):
    numbered = tf.data.Dataset.from_tensor_slices((TEXTS, model.targets(["both"] * 4))).batch(2)
    for name in ("fit", "evaluate"):
        monkeypatch.setattr(keras.Model, name, lambda self, x, y, **settings: (x, y))
        assert getattr(model, name)(numbered) == (numbered, None)
    named = tf.data.Dataset.from_tensor_slices((TEXTS, ["both"] * 4)).batch(2)
    for use in (model.fit, model.evaluate):
        with error_names(ValueError, "labels", "dataset", "strings", "model.targets(names"):
            use(named)


NAN = float("nan")
OTHER_VOCABULARY = BertPreprocessor(type(small.tokenizer())([*small.VOCABULARY, "##zzz"]))
UNORDERED = ("ab", {"a", "b"}, {"a": 0, "b": 1}, 2, [0, 1])


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda model: made(model, labels=["one"]), ValueError, ("2",)),
    (lambda model: made(model, labels=["a", "b", "a"]), ValueError, ("twice", "a")),
    *((lambda model, labels=labels: made(model, labels=labels), TypeError, ("labels",)) for labels in UNORDERED),
    (lambda model: made(model, problem_type="other"), ValueError, ("problem_type", "'other'")),
    (lambda model: made(model, window_pooling="first"), ValueError, ("window_pooling", "'first'")),
    (lambda model: BertClassifier(model.encoder, OTHER_VOCABULARY, LABELS), ValueError, ("vocabulary",)),
    (lambda model: model.targets(["number", "odd"]), ValueError, ("'odd'", "art, number, both")),
    *(
        (lambda model, bad=bad: model.targets([0, bad]), ValueError, (bad, "art, number, both"))
        for bad in (3, 0.5, float("nan"), None)
    ),
    (lambda model: model.targets([0, -1]), ValueError, ("1", "art, number, both")),
    *(
        (lambda model, bad=bad, to=to: Several(LABELS).targets(to([[1, 0, 0.9], [0, bad, 1]])), ValueError, words)
        for bad, words in ((-1, ("label 1", "-1", "0 (no)")), (2, ("label 1", "2", "1 (yes)")), (NAN, ("label 1", NAN)))
        for to in (np.array, tf.constant)
    ),
    (lambda model: Several(LABELS).targets(np.array([[0, 2, 0]])), ValueError, ("label 0", "2", "1 (yes)")),
    (lambda model: model.targets(np.array([[0, 1, NAN]])), ValueError, ("label 0", NAN, "finite")),
    (lambda model: model.targets([[0, 1, NAN]]), ValueError, ("label 0", NAN, "finite")),
    (lambda model: model.targets(np.array([[0, 1]])), ValueError, ("(1, 2)", "(1, 3)")),
    (lambda model: model.targets(np.array([[0], [3]])), ValueError, ("3", "art, number, both")),
    (lambda model: model.targets(tf.constant([0, 3])), ValueError, ("3", "art, number, both")),
    (lambda model: Numbers(["a"]).targets(tf.constant([[0], [NAN]])), ValueError, ("label 1", NAN, "finite")),
    (lambda model: WordLabels(["O", "B-x"]).targets(np.array([[0, -1], [-100, 1]])), ValueError, ("-100", "-1")),
    (lambda model: model.examples(tuple(TEXTS), ["number"] * 4), ValueError, ("tuple of 4", "list of texts")),
    (lambda model: model.examples(tuple(TEXTS[:2]), ["number"] * 2), ValueError, ("tuple of 2", "list of texts")),
    (lambda model: model("film"), TypeError, ("str",)),
])  # fmt: skip
def test_labels_settings_and_texts_that_cannot_be_are_refused(model, call, error, words):
    with error_names(error, *words):
        call(model)


@pytest.mark.parametrize(("labels", "label", "expected"), [
    (["1", "2", "3", "4", "5"], 1, None),  # the index of "2"
    (["1", "2", "3"], 3, None),  # no index at all
    (["1", "2", "3"], 0, 0),  # no name at all
    (["0", "1", "2"], 2, 2),  # the same label by both
    (["2", "1.0"], np.int64(1), 1),
    (["1.0", "2"], 1, None),
    (["01", "02"], 1.0, None),
    (["true", "false"], True, None),
    (["no", "yes"], np.True_, None),
    (["0", "1"], True, None),
    (["False", "True"], True, 1),
    (["good", "bad"], 1.0, 1),
    (["1", "2"], "1", 0),
])  # fmt: skip
def test_a_number_that_could_be_a_name_or_an_index_is_refused(model, labels, label, expected):
    one, several = made(model, labels=labels), made(model, labels=labels, problem_type=Several.PROBLEM_TYPE)
    tagger = small.task(BertTokenClassifier, labels, config={"num_layers": 1})
    readers = [
        lambda: one.targets([label])[0],
        lambda: one.targets(pd.Series([label]))[0],
        lambda: several.targets([[label]])[0].argmax(),
        lambda: one.kind.class_weights({label: 2.0}, None).argmax(),
        lambda: tagger.examples([["film"]], [[label]]).targets.values[0],
    ]
    for read in readers:
        if expected is not None:
            assert read() == expected
            continue
        with error_names(ValueError, str(label), "name", "index", "str", *map(repr, labels)):
            read()


def made(model, **settings):
    return BertClassifier(model.encoder, model.preprocessor, **{"labels": LABELS, **settings})


def test_a_table_of_labels_and_arrays_of_numpy_are_lists(model):
    assert model.targets([tf.constant(1), np.array(2)]).tolist() == [1, 2]  # as of a column in a library's format
    several = made(model, labels=["a", "b"], problem_type=Several.PROBLEM_TYPE)
    table = pd.DataFrame({"a": [1.0, 0, 1, 0], "b": [0.0, 0, 1, 1]}, index=[9, 8, 7, 6])
    np.testing.assert_array_equal(several.targets(table), several.targets([["a"], [], ["a", "b"], ["b"]]))
    x, y = model.arrays(np.array(TEXTS), np.array(["art", "both", "both", "art"]))
    assert (np.asarray(x).tolist(), np.asarray(y).tolist()) == ([text.encode() for text in TEXTS], [0, 2, 2, 0])


# -- A call outside of graphs


def test_a_call_is_one_graph_and_follows_the_weights(monkeypatch):
    model = new()
    traced = []
    call = model.call
    monkeypatch.setattr(model, "call", lambda *args, **kwargs: traced.append(kwargs) or call(*args, **kwargs))
    before = model(TEXTS)
    model(["other texts", "of another", "number"])
    assert len(traced) == 1
    model.head.logits.bias.assign_add([1.0, 0.0, 0.0])
    np.testing.assert_allclose(model(TEXTS), before + tf.constant([1.0, 0.0, 0.0]), atol=1e-5)


@pytest.mark.slow
def test_dropout_gradients_and_changed_layers_follow_too():
    model = new(dropout=0.9)
    assert np.ptp([model(TEXTS, training=True)[0, 0].numpy() for _ in range(4)]) > 1e-3
    exact = model(TEXTS)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(TEXTS))
    np.testing.assert_allclose(tape.gradient(loss, model.head.logits.bias.value), [4, 4, 4], atol=1e-5)
    with adapting(model, frozen_layers=0, lora_rank=2):
        for weight in model.trainable_variables:
            weight.assign_add(0.1 * np.ones(weight.shape))
        changed = model(TEXTS)
    assert np.abs(changed - exact).max() > 1e-3
    np.testing.assert_allclose(model(TEXTS), changed, atol=1e-4)

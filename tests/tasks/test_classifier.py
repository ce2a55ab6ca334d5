"""BertClassifier: what it computes, learns and answers, and where it can be taken."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertPreprocessor
from keras_bert.saved_model import export_serving
from keras_bert.tasks.classifier_losses import MultiLabel, Regression
from keras_bert.tasks.long_text import classify_texts
from keras_bert.training import fine_tune

from ..support import small

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
    model = new(
        text={"sequence_length": 6, "stride": 3}, config={"family": "eurobert", "pooler": False, "pooling": "late"}
    )
    packed = model.preprocessor(["the film plot was very good", "film"])
    expected = []
    for row in range(2):
        windows = [{name: each[row, i : i + 1].numpy() for name, each in packed.items()} for i in range(2)]
        windows = [window for window in windows if window["input_mask"].any()]
        logits = [
            model.head(model.encoder(window)["sequence_output"])[0].numpy()[window["input_mask"][0] > 0].mean(0)
            for window in windows
        ]
        expected.append(np.mean(logits, axis=0))
    np.testing.assert_allclose(model(packed), expected, atol=1e-5)


# -- Answers


def test_classes(model):
    expected = probabilities(model(TEXTS).numpy())
    served = model.serve(tf.constant(TEXTS))
    assert [label.decode() for label in served["label"].numpy()] == [LABELS[i] for i in expected.argmax(-1)]
    assert served["labels"].numpy().tolist() == [[label.encode() for label in LABELS]] * 4
    np.testing.assert_allclose(served["probabilities"], expected, atol=1e-5)
    np.testing.assert_allclose(served["probability"], expected.max(-1), atol=1e-5)
    for answer, row in zip(model.classify(TEXTS, batch_tokens=24), expected, strict=True):
        assert answer["label"] == LABELS[row.argmax()]
        assert answer["probability"] == pytest.approx(row.max(), abs=1e-5)
    assert model.classify([]) == []
    with pytest.warns(UserWarning, match="texts cut to 24 tokens, .*: 1"):
        model.classify(["film " * 50, "film"])


def test_several_labels(model, monkeypatch):
    monkeypatch.setattr(model, "_problem", MultiLabel(LABELS))
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


def test_numbers(model, monkeypatch):
    monkeypatch.setattr(model, "_problem", Regression(LABELS))
    expected = model(TEXTS).numpy()
    for answer, row in zip(model.classify(TEXTS), expected, strict=True):
        assert answer == pytest.approx(dict(zip(LABELS, row, strict=True)), abs=1e-5)
    np.testing.assert_allclose(model.serve(tf.constant(TEXTS))["values"], expected, atol=1e-5)
    number = Regression(["number"])
    assert number.targets([1, 2.5]).tolist() == [[1.0], [2.5]]
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"label 1 \(from 0\) is \[(nan|inf)\], which is not finite"):
            number.targets([0.5, bad, float("nan")])


def test_pairs(of_pairs):
    firsts, seconds = TEXTS, TEXTS[::-1]
    logits = of_pairs((firsts, seconds)).numpy()
    expected = probabilities(logits)
    answers = of_pairs.classify(firsts, seconds)
    np.testing.assert_allclose([answer["probability"] for answer in answers], expected.max(-1), atol=1e-5)
    assert not np.allclose(logits, of_pairs((seconds, firsts)))
    assert of_pairs.classify(firsts[0], seconds[0]) == pytest.approx(answers[0], abs=1e-5)
    with pytest.raises(ValueError, match="there are 4 first texts, but 3 second ones"):
        of_pairs.classify(firsts, seconds[:3])
    with pytest.raises(TypeError, match="got a str and a list"):
        of_pairs.classify("one", ["two"])


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [False, True])
def test_exported(model, of_pairs, tmp_path, pairs):
    model = of_pairs if pairs else model
    version = export_serving(model, tmp_path)
    signature = tf.saved_model.load(version).signatures["serving_default"]
    inputs = {"text": tf.constant(TEXTS)} | ({"text_pair": tf.constant(TEXTS[::-1])} if pairs else {})
    served, expected = signature(**inputs), model.serve(*inputs.values())
    assert served["label"].numpy().tolist() == expected["label"].numpy().tolist()
    np.testing.assert_allclose(served["probability"], expected["probability"], atol=1e-5)
    assert set(served) == set(expected)


# -- Training


class Counted(BertClassifier):
    traced = 0

    def train_step(self, data):
        self.traced += 1
        return super().train_step(data)


@pytest.mark.parametrize(
    "problem_type",
    [
        "single_label_classification",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in (MultiLabel.NAME, Regression.NAME)),
    ],
)
def test_it_learns_from_strings(problem_type):
    """And its step is traced once: there is nothing left to make in the first one."""
    kinds = ["film", "number"] * 8
    generator = np.random.default_rng(0)
    words = {"film": ["film", "plot", "music"], "number": ["1", "2", "3"]}
    texts = [" ".join(generator.choice(words[kind], 3)) for kind in kinds]
    y = {MultiLabel.NAME: [[kind] for kind in kinds], Regression.NAME: [float(kind == "film") for kind in kinds]}
    y = y.get(problem_type, kinds)
    labels = ["value"] if problem_type == Regression.NAME else list(words)
    model = new(labels, kind=Counted, problem_type=problem_type, scale=0.1)
    model.compile(keras.optimizers.Adam(1e-2), model.training_loss())
    losses = model.fit(texts, y, epochs=12, batch_size=8, verbose=0).history["loss"]
    assert losses[0] > 0.2
    assert losses[-1] < 0.1
    assert model.traced == 1
    assert model.optimizer.iterations == 24
    answers = model.classify(["2 1 1", "plot film music"])
    if problem_type == Regression.NAME:
        assert [round(answer["value"]) for answer in answers] == [0, 1]
    elif problem_type == MultiLabel.NAME:
        assert [[each["label"] for each in answer] for answer in answers] == [["number"], ["film"]]
    else:
        assert [answer["label"] for answer in answers] == ["number", "film"]


@pytest.mark.slow
def test_windows_are_trained_and_classified():
    model = new(["early", "late"], text={"sequence_length": 6, "stride": 4}, window_pooling="max", scale=0.1)
    texts = ["film " * 12 + "plot", "film " * 13] * 4  # the difference is in the last window
    examples = texts, ["late", "early"] * 4
    model.compile(keras.optimizers.Adam(1e-2), model.training_loss())
    history = model.fit(*examples, epochs=15, verbose=0, validation_data=examples).history
    assert history["val_loss"][-1] == pytest.approx(model.evaluate(*examples, verbose=0), abs=1e-5)
    assert [answer["label"] for answer in model.classify(texts)] == ["late", "early"] * 4


# -- What cannot be


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"labels": ["one"]}, "at least 2"),
        ({"labels": ["a", "b", "a"]}, "occur twice: a"),
        ({"problem_type": "other"}, "problem_type is 'other'"),
        ({"window_pooling": "first"}, "window_pooling is 'first'"),
    ],
)
def test_what_cannot_be(model, settings, message):
    with pytest.raises(ValueError, match=message):
        BertClassifier(model.encoder, model.preprocessor, **{"labels": LABELS, **settings})


def test_a_label_that_could_not_be_saved(model, small_preset):
    message = r"^label 'b.ud800' has half of a surrogate pair, which is not a character$"
    with pytest.raises(ValueError, match=message):
        BertClassifier(model.encoder, model.preprocessor, ["a", "b\ud800"])
    with pytest.raises(ValueError, match=message):
        BertClassifier.from_preset(small_preset, labels=["a", "b\ud800"])


def test_a_vocabulary_of_another_model(model):
    other = BertPreprocessor(type(small.tokenizer())([*small.VOCABULARY, "##zzz"]))
    with pytest.raises(ValueError, match="vocabulary"):
        BertClassifier(model.encoder, other, LABELS)


@pytest.mark.parametrize("labels", ["ab", {"a", "b"}, {"a": 0, "b": 1}, 2, [0, 1]])
def test_labels_without_an_order_or_names(model, small_preset, labels):
    with pytest.raises(TypeError, match=r"labels (are .* expected a list of their names|must be str)"):
        BertClassifier(model.encoder, model.preprocessor, labels)
    with pytest.raises(TypeError, match=r"labels (are .* expected a list of their names|must be str)"):
        BertClassifier.from_preset(small_preset, labels=labels)


@pytest.mark.parametrize("pairs", [False, True])
def test_pairs_and_single_texts_are_not_taken_for_each_other(model, of_pairs, pairs):
    model = of_pairs if pairs else model
    single, both, y = TEXTS, (TEXTS, TEXTS), ["both"] * 4
    x, message = (
        (single, "takes pairs: two texts, or two lists")
        if pairs
        else (both, "takes single texts; pairs need pairs=True")
    )
    model.compile("adam", model.training_loss(), jit_compile=False)
    for use in (
        lambda: model(x),
        lambda: model.examples(x, y),
        lambda: fine_tune(model, (x, y)),
        lambda: model.fit(x, y, verbose=0),
    ):
        with pytest.raises(ValueError, match=message):
            use()
    with pytest.raises(ValueError, match=message):
        model.classify(single) if pairs else model.classify(*both)
    model.examples(both if pairs else single, y)


def test_labels_in_a_dataset_are_numbers(model, monkeypatch):
    numbered = tf.data.Dataset.from_tensor_slices((TEXTS, model.targets(["both"] * 4))).batch(2)
    for name in ("fit", "evaluate"):
        monkeypatch.setattr(keras.Model, name, lambda self, x, y, **settings: (x, y))
        assert getattr(model, name)(numbered) == (numbered, None)
    named = tf.data.Dataset.from_tensor_slices((TEXTS, ["both"] * 4)).batch(2)
    for use in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=r"labels in this dataset are strings; .* model.targets\(names\)"):
            use(named)


def test_bad_labels_and_texts(model):
    with pytest.raises(ValueError, match="'odd' is not one of the labels, which are art, number, both"):
        model.targets(["number", "odd"])
    for bad in (3, -1, 0.5, float("nan"), None):
        with pytest.raises(ValueError, match=f"^{bad} is not one of the labels, which are art, number, both$"):
            model.targets([0, bad])
    with pytest.raises(ValueError, match="there are 4 texts, but 3 labels"):
        model.examples(TEXTS, ["number"] * 3)
    for x in (tuple(TEXTS), tuple(TEXTS[:2])):
        message = f"x is a tuple of {len(x)}; expected a list of texts, or for pairs, a tuple"
        with pytest.raises(ValueError, match=message):
            model.examples(x, ["number"] * len(x))
    with pytest.raises(TypeError, match="a single str"):
        model("film")
    assert model.classify(TEXTS[0]) == pytest.approx(model.classify(TEXTS)[0], abs=1e-5)

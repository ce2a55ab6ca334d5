"""BertClassifier: what it learns, what it answers, and where it can be taken."""

import json
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertConfig, BertEncoder, BertPreprocessor, BertTokenClassifier
from keras_bert.saved_model import export_serving
from keras_bert.tasks.classifier import MULTI_LABEL, REGRESSION
from keras_bert.tasks.long_text import pooled_output
from keras_bert.training import fine_tune

TEXTS = ["one two three", "four", "red blue", "green red blue one"]


@pytest.fixture
def make(tokenizer):
    """A small classifier whose weights are far from zero."""

    def make(labels=("number", "colour", "both"), text=None, family="bert", **settings):
        keras.utils.set_random_seed(1)
        sizes = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "intermediate_size": 24, "max_positions": 16}
        no_dropout = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
        sizes |= {"family": family, "positions_after_padding": family == "roberta"}
        encoder = BertEncoder(BertConfig(vocab_size=30522, initializer_range=0.5, **sizes, **no_dropout))
        text = {"sequence_length": None, "max_sequence_length": 16, **(text or {})}
        preprocessor = BertPreprocessor(tokenizer, **text)
        return BertClassifier(encoder, preprocessor, labels, **settings)

    return make


def probabilities(logits):
    odds = np.exp(logits - logits.max(-1, keepdims=True))
    return odds / odds.sum(-1, keepdims=True)


def test_logits_are_the_head_on_the_pooled_output(make):
    model = make(dropout=0.0)
    pooled = model.encoder(model.preprocessor(TEXTS))["pooled_output"].numpy()
    expected = pooled @ model.head.logits.kernel.numpy() + model.head.logits.bias.numpy()
    np.testing.assert_allclose(model(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(model(model.preprocessor(TEXTS)), expected, atol=1e-5)
    np.testing.assert_allclose(model.predict(TEXTS, batch_size=3, verbose=0), expected, atol=1e-5)


@pytest.mark.parametrize("stride", [None, pytest.param(4, marks=pytest.mark.slow)])
def test_a_head_with_a_dense_layer_takes_the_poolers_place(make, stride):
    """RoBERTa's; its checkpoints have a pooler all the same, which RobertaForSequenceClassification leaves out."""
    model = make(text={"stride": stride}, family="roberta", dropout=0.0)
    packed = model.preprocessor(TEXTS[:1])
    flat = {name: tf.reshape(each, [-1, each.shape[-1]]) for name, each in packed.items()}  # of one window
    first = model.encoder(flat)["sequence_output"][:, 0].numpy()
    head = model.head
    hidden = np.tanh(first @ head.transform.kernel.numpy() + head.transform.bias.numpy())
    expected = hidden @ head.logits.kernel.numpy() + head.logits.bias.numpy()
    np.testing.assert_allclose(model(packed), expected, atol=1e-5)
    kept = [variable.path for variable in model.encoder.trainable_variables]
    assert len(kept) - len(model.trainable_variables) + len(head.trainable_variables) == 2  # the pooler's
    model.compile("adam", model.training_loss())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # Keras warns of weights without gradients
        model.train_on_batch(packed, np.array([0]))


def test_classes(make):
    model = make()
    expected = probabilities(model(TEXTS).numpy())
    for answer, row in zip(model.classify(TEXTS, batch_tokens=16), expected, strict=True):
        assert answer["label"] == model.labels[row.argmax()]
        assert answer["probability"] == pytest.approx(row.max(), abs=1e-5)


def test_several_labels(make):
    model = make(problem_type=MULTI_LABEL)
    expected = 1 / (1 + np.exp(-model(TEXTS).numpy()))
    for answers, row in zip(model.classify(TEXTS), expected, strict=True):
        assert {answer["label"] for answer in answers} == {model.labels[i] for i in np.flatnonzero(row >= 0.5)}
        values = [answer["probability"] for answer in answers]
        assert values == sorted(values, reverse=True)
    assert {len(answers) for answers in model.classify(TEXTS)} != {3}  # not every text has every label
    np.testing.assert_array_equal(model.targets([["both"], [], ["number", "colour"]]), [[0, 0, 1], [0] * 3, [1, 1, 0]])


def test_numbers(make):
    model = make(["score"], problem_type=REGRESSION)
    expected = [{"score": pytest.approx(value, abs=1e-5)} for value in model(TEXTS).numpy()[:, 0]]
    assert model.classify(TEXTS) == expected
    assert model.targets([1, 2.5]).tolist() == [[1.0], [2.5]]


@pytest.mark.parametrize(
    "problem_type",
    [
        "single_label_classification",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in (MULTI_LABEL, REGRESSION)),
    ],
)
def test_it_learns_from_strings(make, problem_type):
    words = {"number": ["one", "two", "three"], "colour": ["red", "green", "blue"]}
    generator = np.random.default_rng(0)
    kinds = generator.choice(list(words), 40)
    texts = [" ".join(generator.choice(words[kind], 3)) for kind in kinds]
    y = {MULTI_LABEL: [[kind] for kind in kinds], REGRESSION: [float(kind == "colour") for kind in kinds]}
    y = y.get(problem_type, list(kinds))
    model = make(["value"] if problem_type == REGRESSION else list(words), problem_type=problem_type, dropout=0.0)
    model.compile(keras.optimizers.Adam(1e-2), model.training_loss())
    model.fit(texts, y, epochs=20, batch_size=8, verbose=0, validation_data=(texts, y))
    assert model.evaluate(texts, y, verbose=0) < 0.05
    answers = model.classify(["two one one", "blue red red"])
    if problem_type == REGRESSION:
        assert [round(answer["value"]) for answer in answers] == [0, 1]
    elif problem_type == MULTI_LABEL:
        assert [[each["label"] for each in answer] for answer in answers] == [["number"], ["colour"]]
    else:
        assert [answer["label"] for answer in answers] == ["number", "colour"]


def test_pairs(make):
    model = make(pairs=True)
    firsts, seconds = TEXTS, TEXTS[::-1]
    expected = probabilities(model((firsts, seconds)).numpy())
    answers = model.classify(list(zip(firsts, seconds, strict=True)))
    np.testing.assert_allclose([answer["probability"] for answer in answers], expected.max(-1), atol=1e-5)
    assert model.predict((firsts, seconds), verbose=0).shape == (4, 3)
    assert not np.allclose(model((firsts, seconds)), model((seconds, firsts)))
    with pytest.raises(ValueError, match="takes pairs"):
        model(TEXTS)
    with pytest.raises(ValueError, match="takes a list of pairs"):
        model.classify(TEXTS)
    with pytest.raises(ValueError, match="takes texts; for pairs"):
        make()((TEXTS, TEXTS))


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_windows_are_pooled(make, pool):
    long = "one two three four five six seven eight nine ten"
    model = make(text={"sequence_length": 6, "stride": 3, "max_sequence_length": 16}, pool=pool)
    words = long.split()
    one_row = BertPreprocessor(model.preprocessor.tokenizer, sequence_length=6)
    windows = [one_row([" ".join(words[i : i + 4])]) for i in (0, 3, 6)]
    pooled = np.stack([model.encoder(window)["pooled_output"][0] for window in windows])
    expected = pooled.mean(0) if pool == "mean" else pooled.max(0)
    got = pooled_output(model.encoder, model.preprocessor([long, "one"]), pool).numpy()
    np.testing.assert_allclose(got[0], expected, atol=1e-5)
    np.testing.assert_allclose(got[1], model.encoder(one_row(["one"]))["pooled_output"][0], atol=1e-5)


@pytest.mark.slow
def test_windows_are_trained_and_classified(make):
    model = make(["early", "late"], text={"sequence_length": 6, "stride": 4, "max_sequence_length": 16}, pool="max")
    texts = ["one " * 12 + "red", "one " * 13] * 8  # the difference is in the last window
    model.compile(keras.optimizers.Adam(3e-3), model.training_loss())
    model.fit(texts, ["late", "early"] * 8, epochs=30, verbose=0)
    assert [answer["label"] for answer in model.classify(texts)] == ["late", "early"] * 8


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"problem_type": MULTI_LABEL, "pool": "max", "dropout": 0.3},
    ],
)
def test_from_a_preset_and_from_a_keras_file(make, tmp_path, settings):
    model = make(text={"sequence_length": 8, "stride": 3}, **settings)
    model.save_preset(tmp_path / "preset")
    model.save(tmp_path / "model.keras")
    expected = model(TEXTS).numpy()
    for again in (BertClassifier.from_preset(tmp_path / "preset"), keras.models.load_model(tmp_path / "model.keras")):
        np.testing.assert_array_equal(again(TEXTS), expected)
        assert again.classify(TEXTS) == model.classify(TEXTS)
        assert (again.labels, again.problem_type, again.pool) == (model.labels, model.problem_type, model.pool)
        assert again.dropout_rate == settings.get("dropout")
        assert (again.preprocessor.sequence_length, again.preprocessor.stride) == (8, 3)
    config = json.loads((tmp_path / "preset/config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["id2label"] == {"0": "number", "1": "colour", "2": "both"}


def test_labels_of_a_preset(make, tmp_path):
    make().save_preset(tmp_path)
    kernel = BertClassifier.from_preset(tmp_path).head.logits.kernel.numpy()
    same = BertClassifier.from_preset(tmp_path, labels=["number", "colour", "both"])
    np.testing.assert_array_equal(same.head.logits.kernel, kernel)
    with pytest.warns(UserWarning, match="a trained head for number, colour, both; for colour, number, both a new one"):
        other = BertClassifier.from_preset(tmp_path, labels=["colour", "number", "both"])
    assert not np.allclose(other.head.logits.kernel, kernel)  # a new head, not one whose answers are exchanged
    with pytest.raises(ValueError, match="has no head of this task: say which labels there are, labels="):
        BertClassifier.from_preset("all-MiniLM-L6-v2")
    with pytest.raises(FileExistsError):
        make().save_preset(tmp_path)


def test_from_a_preset_of_another_task(make, tmp_path):
    """Its encoder and its tokenizer serve; its labels, lengths and other settings are its own."""
    make(text={"sequence_length": 8, "stride": 3}).save_preset(tmp_path / "classifier")
    tagger = BertTokenClassifier.from_preset(tmp_path / "classifier", labels=["O", "B-x"])
    assert (tagger.labels, tagger.preprocessor.stride) == (["O", "B-x"], None)
    tagger.save_preset(tmp_path / "tagger")
    with pytest.raises(ValueError, match="has no head of this task"):
        BertClassifier.from_preset(tmp_path / "tagger")
    assert BertClassifier.from_preset(tmp_path / "tagger", labels=["O", "B-x"]).preprocessor.sequence_length is None


@pytest.mark.parametrize("pairs", [False, True])
def test_served(make, tmp_path, pairs):
    model = make(pairs=pairs)
    version = export_serving(model, tmp_path)
    signature = tf.saved_model.load(version).signatures["serving_default"]
    inputs = {"text": tf.constant(TEXTS)} | ({"text_pair": tf.constant(TEXTS[::-1])} if pairs else {})
    served = signature(**inputs)
    answers = model.classify(list(zip(TEXTS, TEXTS[::-1], strict=True)) if pairs else TEXTS)
    assert [label.decode() for label in served["label"].numpy()] == [answer["label"] for answer in answers]
    np.testing.assert_allclose(served["probability"], [answer["probability"] for answer in answers], atol=1e-5)
    assert served["labels"].numpy()[0].tolist() == [b"number", b"colour", b"both"]
    np.testing.assert_allclose(tf.reduce_max(served["probabilities"], -1), served["probability"])


def test_inside_a_functional_model(make):
    model = make()
    texts = keras.Input(shape=(), dtype="string")
    functional = keras.Model(texts, keras.layers.Softmax()(model(texts)))
    np.testing.assert_allclose(functional(tf.constant(TEXTS)), probabilities(model(TEXTS).numpy()), atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"labels": ["one"]}, "at least 2"),
        ({"labels": ["a", "b", "a"]}, "there twice: a"),
        ({"problem_type": "other"}, "problem_type is 'other'"),
        ({"pool": "first"}, "pool is 'first'"),
    ],
)
def test_what_cannot_be(make, settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)


@pytest.mark.parametrize("labels", ["ab", {"a", "b"}, {"a": 0, "b": 1}, 2, [0, 1]])
def test_labels_without_an_order_or_names(make, tmp_path, labels):
    with pytest.raises(TypeError, match=r"labels (are .* expected a list of their names|must be str)"):
        make(labels=labels)
    make().save_preset(tmp_path)
    with pytest.raises(TypeError, match=r"labels (are .* expected a list of their names|must be str)"):
        BertClassifier.from_preset(tmp_path, labels=labels)


@pytest.mark.parametrize("pairs", [False, True])
def test_pairs_and_single_texts_are_not_taken_for_each_other(make, pairs):
    model = make(pairs=pairs)
    single, both, y = TEXTS, (TEXTS, TEXTS), ["both"] * 4
    x, message = (single, "takes pairs: a tuple of two") if pairs else (both, "takes texts; for pairs, make it with")
    model.compile("adam", model.training_loss(), jit_compile=False)
    for learn in (lambda: model.examples(x, y), lambda: fine_tune(model, (x, y)), lambda: model.fit(x, y, verbose=0)):
        with pytest.raises(ValueError, match=message):
            learn()
    model.examples(both if pairs else single, y)


def test_labels_in_a_dataset_are_numbers(make):
    model = make()
    model.compile("adam", model.training_loss(), jit_compile=False)
    named = tf.data.Dataset.from_tensor_slices((TEXTS, ["both"] * 4)).batch(2)
    for use in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=r"labels in this dataset are strings; .* model.targets\(names\)"):
            use(named, verbose=0)
    assert model.predict(named, verbose=0).shape == (4, 3)  # which needs no labels
    numbered = tf.data.Dataset.from_tensor_slices((TEXTS, model.targets(["both"] * 4))).batch(2)
    assert len(model.fit(numbered, verbose=0).history["loss"]) == 1


def test_bad_labels_and_texts(make):
    model = make()
    with pytest.raises(ValueError, match="'odd' is not one of the labels, which are number, colour, both"):
        model.targets(["number", "odd"])
    for bad in (3, -1, 0.5, float("nan"), None):
        with pytest.raises(ValueError, match=f"^{bad} is not one of the labels, which are number, colour, both$"):
            model.targets([0, bad])
    numbers = make(labels=["value"], problem_type=REGRESSION)
    for bad in (None, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"label 1 \(from 0\) is \[(nan|inf)\], which is no number to learn"):
            numbers.targets([0.5, bad, None])
    with pytest.raises(ValueError, match="there are 4 texts, but 3 labels"):
        model.examples(TEXTS, ["number"] * 3)
    for x in (tuple(TEXTS), tuple(TEXTS[:2])):
        with pytest.raises(
            ValueError, match=f"x is a tuple of {len(x)}; expected a list of texts, or for pairs a tuple"
        ):
            model.examples(x, ["number"] * len(x))
    for use in (model.classify, model):
        with pytest.raises(TypeError, match="a single str"):
            use("one")
    with pytest.warns(UserWarning, match="texts cut to 16 pieces, .*: 1"):
        model.classify(["one " * 50, "one"])
    assert model.classify([]) == []


@pytest.mark.parity
def test_roberta_with_a_pooler_is_the_same_in_transformers(make, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = make(family="roberta")
    model.save_preset(tmp_path)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    packed = {name: each.numpy() for name, each in model.preprocessor(TEXTS).items()}
    ids, mask, types = (torch.tensor(packed[f"input_{name}"]) for name in ("word_ids", "mask", "type_ids"))
    with torch.no_grad():
        logits = theirs(input_ids=ids, attention_mask=mask, token_type_ids=types).logits
    np.testing.assert_allclose(model(packed), logits, atol=1e-4)

"""Models in bfloat16 and int8 beside themselves in float32."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertSentenceEncoder
from keras_bert.config import ACTIVATIONS
from keras_bert.encoder import attention, layers
from keras_bert.inference import onednn, set_precision

from ..support import small
from ..support.encoders import MODERN, SWITCHES, random_encoder, random_inputs
from ..support.messages import error_names
from ..support.precisions import PRECISIONS, needs_bfloat16, needs_int8
from ..support.reference import encoder as reference

# What each changes in an encoder of one layer.
ENCODERS = {
    "bert": {},
    "roberta": {"family": "roberta", "positions_after_padding": True, "type_vocab_size": 1, "pad_token_id": 1},
    "distilbert": {"family": "distilbert", "type_vocab_size": 0, "pooler": False},
    "albert": {"family": "albert", "num_layers": 2, "num_groups": 1, "embedding_size": 12, "activation": "gelu_tanh"},
    "relu": {"activation": "relu"},
    "silu": {"activation": "silu"},
    "modern": {**MODERN, "num_layers": 2},
    **{name: SWITCHES[name] for name in ("llama", "relative", "scaled")},
}
IN_BFLOAT16 = ("bert", "albert", "silu", "modern", "llama", "relative")  # int8 tests all
QUICK = ("bert", "modern")  # for `make test`
LEAST_MEAN = {"bfloat16": 0.9995, "int8": 0.97}
LEAST = {"bfloat16": 0.997, "int8": 0.9}
TEXTS = ["the cat sat on the mat", "a very long story about a river, a bank and the money in it", "good", "bad film!"]


def cosines(a, b):
    a, b = (np.asarray(each, np.float64).reshape(-1, each.shape[-1]) for each in (a, b))
    return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_has_one_name_and_one_formula(name):
    x = np.linspace(-6, 6, 48, dtype=np.float32).reshape(3, 16)
    expected = reference.ACTIVATIONS[name](x.astype(np.float64))
    np.testing.assert_allclose(layers.ACTIVATIONS[name](x), expected, atol=1e-6)
    if not onednn.has_int8():
        pytest.skip("no oneDNN")
    graph = tf.function(lambda y: onednn.dense(y, tf.eye(16), tf.zeros(16), name), autograph=False)
    np.testing.assert_allclose(graph(x), expected, atol=1e-5)


def test_no_activation_without_a_name():
    assert set(layers.ACTIVATIONS) == set(ACTIVATIONS) >= set(onednn.FUSED)


@needs_int8
@pytest.mark.parametrize(("rows", "inputs", "units"), [(1, 64, 3), (3, 385, 17), (40, 256, 64)])
def test_no_sum_of_the_largest_int8_values_saturates(rows, inputs, units):
    """Two products of an unsigned input and a weight fit 16 bits, in which processors without VNNI add them."""
    generator = np.random.default_rng(0)
    x, kernel = (generator.choice([-1.0, 1.0], shape).astype("float32") for shape in ((rows, inputs), (inputs, units)))
    x[0], kernel[:, 0], kernel[:, 1] = 1.0, 1.0, -1.0  # all of one sign
    quantized = onednn.QuantizedKernel(kernel)
    assert 2 * 255 * np.abs(quantized.values.numpy().astype(int)).max() < 2**15
    product = tf.function(
        lambda: onednn.quantized_dense(onednn.quantize(tf.constant(x), 1.0), 1.0, quantized, tf.zeros(units)),
        autograph=False,
    )
    np.testing.assert_allclose(product(), x @ kernel, atol=1e-3)


@pytest.mark.parametrize(
    ("precision", "name"),
    [
        *(pytest.param("bfloat16", name, marks=needs_bfloat16) for name in IN_BFLOAT16),
        *(pytest.param("int8", name, marks=needs_int8) for name in QUICK),
        *(pytest.param("int8", name, marks=[needs_int8, pytest.mark.slow]) for name in ENCODERS if name not in QUICK),
    ],
)
def test_an_encoder_gives_nearly_the_same(precision, name):
    encoder = random_encoder(**{"initializer_range": 0.2, "num_layers": 1, **ENCODERS[name]})
    inputs, *texts = (random_inputs(seed=seed) for seed in (1, 2, 3))
    inputs["input_word_ids"] = np.maximum(inputs["input_word_ids"], 2)
    inputs["input_mask"][1, 7:] = 0
    for each in (inputs, *texts):
        each["input_type_ids"] = np.minimum(each["input_type_ids"], max(encoder.config.type_vocab_size - 1, 0))
    exact = encoder(inputs)
    set_precision(encoder, precision, texts)
    assert precision == "bfloat16" or not encoder.inference.ranges.float_blocks
    lower, tokens = encoder(inputs), inputs["input_mask"].astype(bool)
    assert set(lower) == set(exact)
    for theirs, ours in zip(exact["encoder_outputs"], lower["encoder_outputs"], strict=True):
        found = cosines(np.asarray(theirs)[tokens], np.asarray(ours)[tokens])
        assert found.mean() > LEAST_MEAN[precision]
        assert found.min() > LEAST[precision]
        assert found.max() < 1 - 1e-9  # it is another arithmetic
    assert cosines(exact["pooled_output"], lower["pooled_output"]).mean() > LEAST_MEAN[precision]
    set_precision(encoder, "float32")
    np.testing.assert_array_equal(encoder(inputs)["sequence_output"], exact["sequence_output"])


@pytest.mark.slow
@needs_bfloat16
def test_long_texts_are_computed_in_chunks(monkeypatch):
    encoder, inputs = random_encoder(**MODERN, max_positions=64), random_inputs(seq_length=33)
    inputs["input_mask"][1, 9:] = 0
    set_precision(encoder, "bfloat16")
    expected = np.asarray(encoder(inputs)["sequence_output"])
    sizes, scores = set(), onednn.scores
    monkeypatch.setattr(onednn, "scores", lambda query, *rest: sizes.add(query.shape[2]) or scores(query, *rest))
    monkeypatch.setattr(attention, "_SCORES_IN_CHUNK", 7 * 3 * 33)  # eight queries of a head at a time
    monkeypatch.setattr(attention, "LONG", 16)
    set_precision(encoder, "bfloat16")
    found = np.asarray(encoder(inputs)["sequence_output"])
    np.testing.assert_allclose(found, expected, atol=0.03)
    assert 8 in sizes


@pytest.mark.parametrize(
    ("precision", "switches"),
    [
        pytest.param("bfloat16", MODERN, marks=needs_bfloat16),
        pytest.param("int8", {"num_layers": 1}, marks=needs_int8),
    ],
)
def test_an_answer_depends_neither_on_its_batch_nor_on_texts_beside_it(precision, switches):
    encoder, inputs = random_encoder(**switches), random_inputs(batch=8)
    set_precision(encoder, precision, [random_inputs(seed=2)])
    outputs = np.asarray(encoder(inputs)["sequence_output"])
    one = {name: value[:1] for name, value in inputs.items()}
    np.testing.assert_allclose(encoder(one)["sequence_output"], outputs[:1], atol=0.02)
    both = encoder(one | {"input_document_ids": np.array([[0] * 5 + [1] * 7])})["sequence_output"]
    first = encoder({name: value[:, :5] for name, value in one.items()})["sequence_output"]
    np.testing.assert_allclose(np.asarray(both)[:, :5], first, atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_real_sentences(precision):
    model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
    # In the first text, attention's output is larger than in any text that ranges are calibrated with.
    texts = ["tirana is the capital of", *small.TEXTS, *TEXTS]
    exact = model.encode(texts)
    np.testing.assert_allclose(model(TEXTS), exact[-len(TEXTS) :], atol=1e-5)
    model.set_precision(precision)
    lower = model.encode(texts)
    mean, worst = {"bfloat16": (0.9999, 0.9999), "int8": (0.992, 0.978)}[precision]
    assert cosines(exact, lower).mean() > mean
    assert cosines(exact, lower).min() > worst
    called = model(TEXTS)  # outside of a graph, too
    np.testing.assert_allclose(called, lower[-len(TEXTS) :], atol=0.01)
    assert cosines(called, exact[-len(TEXTS) :]).max() < 1 - 1e-6


@pytest.fixture(scope="module")
def fine_tuned(tmp_path_factory):
    """A classifier that has learned its examples, these, and its directory."""
    model = small.task(BertClassifier, labels=["blame", "praise"], config={"num_layers": 1})
    x = ["good", "great", "love", "bad", "dull", "hate"] * 4
    y = (["praise"] * 3 + ["blame"] * 3) * 4
    model.compile("adam", model.training_loss())
    model.fit(x, y, epochs=12, verbose=0)
    assert [answer["label"] for answer in model.classify(x)] == y
    directory = tmp_path_factory.mktemp("fine_tuned")
    model.save_preset(directory)
    return model, x, y, directory


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_fine_tuned_classifier_keeps_its_answers(precision, fine_tuned, tmp_path):
    model, x, y, directory = fine_tuned
    loaded = BertClassifier.from_preset(directory, precision=precision)
    assert [answer["label"] for answer in loaded.classify(x)] == y
    loaded.compile("adam", loaded.training_loss())
    with error_names(ValueError, "cannot be trained", "precision", '"float32"'):
        loaded.fit(x, y, verbose=0)
    loaded.save_preset(tmp_path / "saved")  # writes the float32 weights
    np.testing.assert_array_equal(BertClassifier.from_preset(tmp_path / "saved").predict(x), model.predict(x))


def test_keras_name_is_the_same(monkeypatch):
    asked = []
    monkeypatch.setattr(BertSentenceEncoder, "set_precision", lambda _, *arguments: asked.append(arguments))
    model = BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor())
    model.quantize("int8", x=TEXTS)
    assert asked == [("int8", TEXTS)]
    with error_names(ValueError, "mode", '"int8"'):
        model.quantize("float8")


@needs_int8
def test_a_precision_that_is_unknown_or_lacks_texts_is_refused():
    model = BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor())
    for arguments, error, words in [
        (["int4"], ValueError, ["precision", "'int4'", "float32, bfloat16, int8"]),
        (["int8", []], ValueError, ["no texts", "calibrate int8"]),
        (["int8", ["a text", None]], TypeError, ["text 1", None]),
    ]:
        with error_names(error, *words):
            model.set_precision(*arguments)


def test_disentangled_attention_is_refused():
    with error_names(ValueError, "'bfloat16'", "disentangled_buckets", '"float32"'):
        set_precision(random_encoder(**SWITCHES["disentangled"]), "bfloat16")

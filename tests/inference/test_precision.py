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
from ..support.reference import encoder as reference

PRECISIONS = [
    pytest.param("bfloat16", marks=pytest.mark.skipif(not onednn.has_bfloat16(), reason="no AVX-512")),
    pytest.param("int8", marks=pytest.mark.skipif(not onednn.has_int8(), reason="no oneDNN")),
]
ENCODERS = {
    "bert": {},
    "roberta": {"family": "roberta", "positions_after_padding": True, "type_vocab_size": 1, "pad_token_id": 1},
    "distilbert": {"family": "distilbert", "type_vocab_size": 0, "pooler": False},
    "albert": {"family": "albert", "num_groups": 1, "embedding_size": 12, "activation": "gelu_tanh"},
    "relu": {"activation": "relu"},
}
# Switches one by one, and as families have them together.
BLOCKS = {
    "rotary": {"rope_theta": 50.0},
    "slower": {"rope_theta": 50.0, "rope_factor": 4.0},
    "local": {"rope_theta": 50.0, "local_rope_theta": 10.0, "global_every": 2, "local_window": 6},
    "before": {"pre_norm": True},
    "before all": {"pre_norm": True, "embedding_norm": False},
    "root mean square": {"norm": "rms_norm"},
    "norm without bias": {"norm_bias": False},
    "attention without bias": {"attention_bias": False},
    "feed-forward without bias": {"feed_forward_bias": False},
    "half without bias": {"intermediate_bias": False, "gated": True},
    "gated": {"gated": True},
    "silu": {"activation": "silu"},
    "shared keys": {"num_key_value_heads": 2},
}
TOGETHER = ("modern", "llama", "relative")
LEAST_MEAN = {"bfloat16": 0.9995, "int8": 0.97}
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


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_gives_nearly_the_same(name, precision):
    encoder = random_encoder(**ENCODERS[name])
    inputs = random_inputs()
    inputs["input_word_ids"] = np.maximum(inputs["input_word_ids"], 2)
    inputs["input_type_ids"] = np.minimum(inputs["input_type_ids"], max(encoder.config.type_vocab_size - 1, 0))
    inputs["input_mask"][1, 7:] = 0
    exact = encoder(inputs)
    set_precision(
        encoder, precision, [random_inputs(seed=seed) | {"input_type_ids": inputs["input_type_ids"]} for seed in (2, 3)]
    )
    lower = encoder(inputs)
    assert set(lower) == set(exact)
    tokens = inputs["input_mask"].astype(bool)
    least = {"bfloat16": 0.999, "int8": 0.97}[precision]
    for theirs, ours in zip(exact["encoder_outputs"], lower["encoder_outputs"], strict=True):
        found = cosines(np.asarray(theirs)[tokens], np.asarray(ours)[tokens])
        assert found.min() > least
        assert found.max() < 1 - 1e-9  # it is another arithmetic
    assert cosines(exact["pooled_output"], lower["pooled_output"]).min() > least
    set_precision(encoder, "float32")
    np.testing.assert_array_equal(encoder(inputs)["sequence_output"], exact["sequence_output"])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", [*(pytest.param(name, marks=pytest.mark.slow) for name in BLOCKS), *TOGETHER])
def test_blocks_follow_the_configuration(name, precision):
    encoder = random_encoder(**{"initializer_range": 0.2, **{**BLOCKS, **SWITCHES}[name]})
    inputs = random_inputs()
    inputs["input_mask"][1, 7:] = 0
    if not encoder.config.type_vocab_size:
        del inputs["input_type_ids"]
    exact = encoder(inputs)
    set_precision(encoder, precision, [random_inputs(seed=seed) for seed in (2, 3)])
    assert precision == "bfloat16" or not encoder.inference.ranges.float_blocks
    tokens = inputs["input_mask"].astype(bool)
    for theirs, ours in zip(exact["encoder_outputs"], encoder(inputs)["encoder_outputs"], strict=True):
        found = cosines(np.asarray(theirs)[tokens], np.asarray(ours)[tokens])
        assert found.mean() > LEAST_MEAN[precision]
        assert found.max() < 1 - 1e-9


@pytest.mark.parametrize("precision", PRECISIONS)
def test_long_texts_are_computed_piece_by_piece(precision, monkeypatch):
    encoder, inputs = random_encoder(**MODERN, max_positions=64), random_inputs(seq_length=33)
    inputs["input_mask"][1, 9:] = 0
    set_precision(encoder, precision, [random_inputs(seed=2)])
    expected = np.asarray(encoder(inputs)["sequence_output"])
    sizes, scores = set(), onednn.scores
    monkeypatch.setattr(onednn, "scores", lambda query, *rest: sizes.add(query.shape[2]) or scores(query, *rest))
    monkeypatch.setattr(attention, "_SCORES_IN_PIECE", 7 * 3 * 33)  # eight queries of a head at a time
    monkeypatch.setattr(attention, "LONG", 16)
    monkeypatch.setattr(attention, "LONG", 16)
    set_precision(encoder, precision, ranges=encoder.inference.ranges)
    found = np.asarray(encoder(inputs)["sequence_output"])
    np.testing.assert_allclose(found, expected, atol=0.03)
    assert 8 in sizes


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("switches", [{}, MODERN], ids=["bert", "modern"])
def test_texts_of_one_row_do_not_see_each_other(precision, switches):
    encoder = random_encoder(**switches)
    inputs = random_inputs(batch=1)
    document_ids = np.array([[0] * 5 + [1] * 7])
    set_precision(encoder, precision, [random_inputs(seed=2)])
    both = encoder(inputs | {"input_document_ids": document_ids})["sequence_output"]
    first = encoder({name: value[:, :5] for name, value in inputs.items()})["sequence_output"]
    np.testing.assert_allclose(np.asarray(both)[:, :5], first, atol=0.05)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("switches", [{}, MODERN], ids=["bert", "modern"])
def test_an_answer_does_not_depend_on_its_batch(precision, switches):
    encoder = random_encoder(**switches)
    set_precision(encoder, precision, [random_inputs(seed=2)])
    inputs = random_inputs(batch=8)
    alone = encoder({name: value[:1] for name, value in inputs.items()})["sequence_output"]
    np.testing.assert_allclose(np.asarray(encoder(inputs)["sequence_output"])[:1], alone, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_real_sentences(precision):
    model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
    # In the first text, attention's output is larger than in any text that ranges are calibrated with.
    texts = ["tirana is the capital of", *small.TEXTS, *TEXTS]
    exact = model.encode(texts)
    np.testing.assert_allclose(model(TEXTS), exact[-len(TEXTS) :], atol=1e-5)
    model.set_precision(precision)
    lower = model.encode(texts)
    mean, worst = {"bfloat16": (0.9999, 0.9999), "int8": (0.993, 0.978)}[precision]
    assert cosines(exact, lower).mean() > mean
    assert cosines(exact, lower).min() > worst
    called = model(TEXTS)  # outside of a graph, too
    np.testing.assert_allclose(called, lower[-len(TEXTS) :], atol=0.01)
    assert cosines(called, exact[-len(TEXTS) :]).max() < 1 - 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_fine_tuned_classifier_keeps_its_answers(precision, tmp_path):
    model = small.task(BertClassifier, labels=["blame", "praise"])
    x = ["good", "great", "love", "bad", "dull", "hate"] * 4
    y = (["praise"] * 3 + ["blame"] * 3) * 4
    model.compile("adam", model.training_loss())
    model.fit(x, y, epochs=12, verbose=0)
    answers = [answer["label"] for answer in model.classify(x)]
    assert answers == y
    model.save_preset(tmp_path)
    loaded = BertClassifier.from_preset(tmp_path, precision=precision)
    assert [answer["label"] for answer in loaded.classify(x)] == y
    loaded.compile("adam", loaded.training_loss())
    with error_names(ValueError, "cannot be trained", "precision", '"float32"'):
        loaded.fit(x, y, verbose=0)
    loaded.save_preset(tmp_path, overwrite=True)  # writes the float32 weights
    np.testing.assert_array_equal(BertClassifier.from_preset(tmp_path).predict(x), model.predict(x))


@pytest.mark.skipif(not onednn.has_int8(), reason="no oneDNN")
def test_keras_name_is_the_same():
    model = BertSentenceEncoder(small.encoder(), small.preprocessor())
    model.quantize("int8", x=TEXTS)
    quantized = model.encode(TEXTS)
    model.set_precision("int8", TEXTS)
    np.testing.assert_array_equal(model.encode(TEXTS), quantized)
    with error_names(ValueError, "mode", '"int8"'):
        model.quantize("float8")


@pytest.mark.skipif(not onednn.has_int8(), reason="no oneDNN")
def test_a_precision_that_is_unknown_or_lacks_texts_is_refused():
    model = BertSentenceEncoder(small.encoder(), small.preprocessor())
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

"""The heads against their formulas in numpy, from the papers; with real weights, the parity tests compare them."""

import math

import keras
import numpy as np
import pytest

from keras_bert import BertConfig
from keras_bert.formats import FAMILIES
from keras_bert.tasks.heads import ClassifierHead, MaskedLMHead

from ..support.messages import error_names

SMALL = {"vocab_size": 20, "hidden_size": 8, "num_layers": 1, "num_heads": 2, "intermediate_size": 16}
HIDDEN = np.random.default_rng(0).normal(size=(3, 5, 8)).astype(np.float32)


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))


ACTIVATIONS = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0), "gelu": gelu}


def config(family, **changes):
    return BertConfig(**SMALL, family=family, pooler=bool(FAMILIES[family].pooler), **changes)


def randomized(layer):
    layer.build()
    rng = np.random.default_rng(1)
    layer.set_weights([rng.normal(size=weight.shape) for weight in layer.weights])
    return {weight.path.removeprefix(f"{layer.path}/"): weight.numpy() for weight in layer.weights}


@pytest.mark.parametrize(
    ("family", "task", "activation"),
    [
        ("bert", "sequence", None),
        ("bert", "tokens", None),
        ("bert", "next_sentence", None),
        ("albert", "sequence", None),
        ("roberta", "sequence", "tanh"),
        ("distilbert", "sequence", "relu"),
        ("electra", "sequence", "gelu"),
        ("electra", "replaced_tokens", "relu"),  # the encoder's own activation
        ("roberta", "spans", None),
    ],
)
def test_classifier(family, task, activation):
    head = ClassifierHead(config(family, activation="relu"), task, units=3)
    weights = randomized(head)
    assert set(weights) == set(FAMILIES[family].parts(head.config)[task])
    expected = HIDDEN
    if activation is not None:
        expected = ACTIVATIONS[activation](expected @ weights["transform/kernel"] + weights["transform/bias"])
    expected = expected @ weights["logits/kernel"] + weights["logits/bias"]
    np.testing.assert_allclose(head(HIDDEN), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("family", "width"), [("bert", None), ("albert", 4), ("roberta", None)])
def test_masked_lm(family, width):
    head = MaskedLMHead(config(family, activation="relu", embedding_size=width))
    weights = randomized(head)
    assert set(weights) == set(FAMILIES[family].parts(head.config)["masked_lm"])
    table = np.random.default_rng(2).normal(size=(20, width or 8)).astype(np.float32)
    x = HIDDEN @ weights["transform/kernel"] + weights["transform/bias"]
    x = gelu(x) if family == "roberta" else np.maximum(x, 0)  # RoBERTa's head has gelu whatever the encoder has
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
    x = x * weights["norm/gamma"] + weights["norm/beta"]
    np.testing.assert_allclose(head(HIDDEN, embeddings=table), x @ table.T + weights["bias"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("task", ["sequence", "tokens", "spans"])
def test_a_head_of_any_family_with_a_norm(task):
    """Warner et al. 2024, ModernBERT: a dense layer without bias, an activation and a normalization."""
    free = BertConfig(**SMALL, family="lexbert", pooler=False, head_norm=True, head_activation="relu")
    head = ClassifierHead(free, task, units=3)
    weights = randomized(head)
    x = np.maximum(HIDDEN @ weights.pop("transform/kernel"), 0)
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
    x = x * weights.pop("norm/gamma") + weights.pop("norm/beta")
    expected = x @ weights.pop("logits/kernel") + weights.pop("logits/bias")
    np.testing.assert_allclose(head(HIDDEN), expected, rtol=0, atol=1e-4)
    assert not weights


@pytest.mark.parametrize("bias", [True, False])
def test_a_decoder_with_its_own_weights(bias):
    head = MaskedLMHead(BertConfig(**SMALL, family="lexbert", own_decoder=True, decoder_bias=bias))
    weights = randomized(head)
    expected = HIDDEN @ weights.pop("decoder/kernel") + (weights.pop("decoder/bias") if bias else 0)
    np.testing.assert_allclose(head(HIDDEN, embeddings=None), expected, rtol=0, atol=1e-5)
    assert not weights


def test_dropout_only_in_training():
    keras.utils.set_random_seed(0)
    head = ClassifierHead(config("roberta"), "sequence", units=2, dropout_rate=0.5)
    np.testing.assert_array_equal(head(HIDDEN), head(HIDDEN, training=False))
    assert np.abs(head(HIDDEN, training=True) - head(HIDDEN, training=True)).max() > 1e-4


@pytest.mark.parametrize(
    ("family", "task"),
    [("roberta", "next_sentence"), ("bert", "masked_lm"), ("bert", "poetry"), ("lexbert", "poetry")],
)
def test_a_head_that_the_family_has_not_is_refused(family, task):
    with error_names(ValueError, family, f"'{task}'", "sequence"):
        ClassifierHead(BertConfig(**SMALL, family=family), task, units=2)

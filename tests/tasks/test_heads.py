"""The heads that no known family has, by their formulas; those of families are compared in tests/contract."""

import keras
import numpy as np
import pytest

from keras_bert import BertConfig
from keras_bert.choices import POOLINGS, WINDOW_POOLINGS
from keras_bert.tasks.heads import ClassifierHead, MaskedLMHead, pooling

from ..support.messages import error_names

SMALL = {"vocab_size": 20, "hidden_size": 8, "num_layers": 1, "num_heads": 2, "intermediate_size": 16}
HIDDEN = np.random.default_rng(0).normal(size=(3, 5, 8)).astype(np.float32)


def randomized(layer):
    layer.build()
    rng = np.random.default_rng(1)
    layer.set_weights([rng.normal(size=weight.shape) for weight in layer.weights])
    return {weight.path.removeprefix(f"{layer.path}/"): weight.numpy() for weight in layer.weights}


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
    head = ClassifierHead(BertConfig(**SMALL, family="roberta", pooler=False), "sequence", units=2, dropout_rate=0.5)
    np.testing.assert_array_equal(head(HIDDEN), head(HIDDEN, training=False))
    assert np.abs(head(HIDDEN, training=True) - head(HIDDEN, training=True)).max() > 1e-4


@pytest.mark.parametrize(("family", "task"), [
    ("roberta", "next_sentence"), ("bert", "masked_lm"), ("bert", "poetry"), ("lexbert", "poetry"),
])  # fmt: skip
def test_a_head_that_the_family_has_not_is_refused(family, task):
    with error_names(ValueError, family, f"'{task}'", "sequence"):
        ClassifierHead(BertConfig(**SMALL, family=family), task, units=2)


def test_every_pooling_has_its_function():
    names = [each.function for each in POOLINGS.values()] + [function for _, function, _ in WINDOW_POOLINGS.values()]
    assert [name for name in names if not callable(getattr(pooling, name, None))] == []

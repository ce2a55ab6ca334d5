"""A model's call on texts outside of graphs."""

import numpy as np
import tensorflow as tf

from keras_bert import BertClassifier
from keras_bert.training.adapting import adapting

from ..support import small

TEXTS = ["good film", "bad"]


def test_a_call_is_one_graph_and_follows_the_weights(monkeypatch):
    model = small.task(BertClassifier, labels=["blame", "praise"])
    traced = []
    call = model.call
    monkeypatch.setattr(model, "call", lambda *args, **kwargs: traced.append(kwargs) or call(*args, **kwargs))
    before = model(TEXTS)
    model(["other texts", "of another", "number"])
    assert len(traced) == 1
    np.testing.assert_allclose(before, call(tf.constant(TEXTS)), atol=1e-5)
    model.head.logits.bias.assign_add([1.0, 0.0])
    np.testing.assert_allclose(model(TEXTS), before + tf.constant([1.0, 0.0]), atol=1e-5)


def test_dropout_gradients_and_changed_layers():
    model = small.task(BertClassifier, labels=["blame", "praise"], dropout=0.9)
    assert np.ptp([model(TEXTS, training=True)[0, 0].numpy() for _ in range(4)]) > 1e-3
    exact = model(TEXTS)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(TEXTS))
    bias = model.head.logits.bias.value
    np.testing.assert_allclose(tape.gradient(loss, bias), [2, 2], atol=1e-5)
    with adapting(model, frozen_layers=0, lora_rank=2):
        for weight in model.trainable_variables:
            weight.assign_add(0.1 * np.ones(weight.shape))
        changed = model(TEXTS)
    assert np.abs(changed - exact).max() > 1e-3
    np.testing.assert_allclose(model(TEXTS), changed, atol=1e-4)

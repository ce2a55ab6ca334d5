"""Padding is taken out of all work but attention's, and that changes no number."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertEncoder

from ..support.encoders import MODERN, SMALL, random_encoder, random_inputs

LENGTHS = [3, 12, 0, 7]


def padded_inputs():
    inputs = random_inputs(batch=len(LENGTHS))
    for row, length in enumerate(LENGTHS):
        inputs["input_mask"][row, length:] = 0
        inputs["input_word_ids"][row, length:] = SMALL.pad_token_id
    return inputs


def loss_and_gradients(encoder, inputs):
    """Of a loss of everything that a task may read, except padding."""
    with tf.GradientTape() as tape:
        outputs = encoder(inputs)
        is_token = tf.cast(inputs["input_mask"], tf.float32)[:, :, None]
        wave = tf.sin(tf.range(SMALL.hidden_size, dtype=tf.float32))
        loss = sum(tf.reduce_sum(is_token * wave * each) for each in outputs["encoder_outputs"])
        loss += tf.reduce_sum(is_token[:, 0] * wave * outputs["pooled_output"])
    return loss, tape.gradient(loss, [weight.value for weight in encoder.trainable_weights])


ROBERTA = {"positions_after_padding": True, "pad_token_id": 1, "type_vocab_size": 0}
ALBERT = {"embedding_size": 8, "num_groups": 1}


@pytest.mark.parametrize("changes", [ROBERTA, MODERN, pytest.param(ALBERT, marks=pytest.mark.slow)])
def test_loss_and_gradients_are_those_of_each_text_alone(changes):
    encoder, inputs = random_encoder(hidden_dropout=0.0, attention_dropout=0.0, **changes), padded_inputs()
    inputs["input_word_ids"][inputs["input_mask"] == 0] = encoder.config.pad_token_id
    alone = [
        {name: each[row : row + 1, :length] for name, each in inputs.items()}
        for row, length in enumerate(LENGTHS)
        if length
    ]
    each = [tf.nest.flatten(loss_and_gradients(encoder, text)) for text in alone]
    found = tf.nest.flatten(loss_and_gradients(encoder, inputs))
    for value, *parts in zip(found, *each, strict=True):
        expected = sum(map(np.asarray, parts))
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(("jit_compile", "rows"), [(False, sum(LENGTHS)), (True, 4 * 12)])
def test_only_tokens_are_computed_unless_xla_needs_fixed_shapes(jit_compile, rows):
    encoder, inputs = random_encoder(num_layers=1), padded_inputs()
    dense, seen = encoder.blocks[0].intermediate, []
    call = dense.call
    dense.call = lambda hidden, **settings: seen.append(tf.shape(hidden)[0]) or call(hidden, **settings)

    @tf.function(jit_compile=jit_compile)
    def count(inputs):
        encoder(inputs)
        return seen.pop()

    assert count(inputs) == rows


def test_output_at_padding_is_zero(encoder):
    inputs = padded_inputs()
    outputs = encoder(inputs)
    for each in outputs["encoder_outputs"]:
        assert not np.any(each[inputs["input_mask"] == 0])
        assert np.all(np.any(each[inputs["input_mask"] == 1], axis=-1))


def test_shapes_are_known_as_before():
    inputs = {name: keras.Input((12,), dtype="int32") for name in random_inputs()}
    outputs = BertEncoder(SMALL)(inputs)
    assert outputs["sequence_output"].shape == (None, 12, 24)
    assert outputs["pooled_output"].shape == (None, 24)


@pytest.mark.parametrize(("changes", "jit_compile"), [
    ({**ROBERTA, "num_layers": 1}, False), (MODERN, False), pytest.param(ROBERTA, True, marks=pytest.mark.slow),
])  # fmt: skip
def test_several_texts_in_a_row_are_computed_as_if_each_were_alone(changes, jit_compile):
    encoder = random_encoder(**changes)
    padding = encoder.config.pad_token_id
    texts = [random_inputs(batch=1, seq_length=length, seed=length) for length in (3, 5, 2, 7)]
    for text in texts:
        text["input_word_ids"][text["input_word_ids"] == padding] = 7
    rows = [texts[:3], texts[3:]]
    packed = {
        name: np.stack([np.pad(np.concatenate([each[name][0] for each in row]), (0, 12))[:12] for row in rows])
        for name in texts[0]
    }
    packed["input_word_ids"][packed["input_mask"] == 0] = padding
    packed["input_document_ids"] = np.array([[1] * 3 + [2] * 5 + [3] * 2 + [0] * 2, [1] * 7 + [0] * 5], np.int32)
    run = tf.function(encoder, jit_compile=True) if jit_compile else encoder
    found = run(packed)["encoder_outputs"]
    for row, start, text in ((0, 0, texts[0]), (0, 3, texts[1]), (0, 8, texts[2]), (1, 0, texts[3])):
        alone = encoder(text)["encoder_outputs"]
        for layer, expected in zip(found, alone, strict=True):
            here = layer[row, start : start + expected.shape[1]]
            np.testing.assert_allclose(here, expected[0], rtol=1e-5, atol=1e-5)
    scores = encoder.attention_scores(packed)[0]  # [row, head, from, to]
    assert np.all(scores[0, :, 3:8, 3:8] > 0)
    assert not np.any(scores[0, :, 3:8, :3])
    assert not np.any(scores[0, :, 3:8, 8:])

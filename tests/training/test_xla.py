"""Keras's `jit_compile=True`: every task, loss, optimizer, family and head trains under XLA as without it."""

import contextlib
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertMaskedLM, BertQuestionAnswerer, BertTokenClassifier
from keras_bert.pretraining import BertPretrainer
from keras_bert.training import LAMB, AdamW, WarmupThenDecay, learning_from

from ..support import small
from ..support.small import preprocessor

pytestmark = pytest.mark.slow

BATCH, LENGTH, STEPS = 4, 12, 4
ROWS = BATCH * STEPS
GENERATOR = np.random.default_rng(0)
LENGTHS = GENERATOR.integers(3, LENGTH + 1, (ROWS, 1))
MASK = (np.arange(LENGTH) < LENGTHS).astype("int32")
PACKED = {
    "input_word_ids": GENERATOR.integers(5, small.CONFIG.vocab_size, MASK.shape).astype("int32") * MASK,
    "input_mask": MASK,
    "input_type_ids": (np.arange(LENGTH) > LENGTHS // 2).astype("int32") * MASK,
}
CLASSES = GENERATOR.integers(0, 3, ROWS)
TAGS = np.where(MASK * GENERATOR.integers(0, 3, MASK.shape) > 0, GENERATOR.integers(0, 3, MASK.shape), -1)
SPANS = np.sort(GENERATOR.integers(0, LENGTHS, (ROWS, 2)), axis=1)
POSITIONS = {**PACKED, "masked_lm_positions": GENERATOR.integers(0, LENGTHS, (ROWS, 3)).astype("int32")}
TOKENS = GENERATOR.integers(5, small.CONFIG.vocab_size, (ROWS, 3))
IS_PREDICTION = GENERATOR.integers(0, 2, (ROWS, 3)).astype("float32")


def encoder(**changes):
    return small.encoder(**{"num_layers": 1, **changes})


def classifier():
    return BertClassifier(encoder(), preprocessor(), ["a", "b", "c"])


# Families that compute something else than BERT, each in a task whose training is compiled.
ROBERTA = {"family": "roberta", "type_vocab_size": 1, "pad_token_id": 1, "positions_after_padding": True}
ALBERT = {"family": "albert", "embedding_size": 8, "num_groups": 1, "num_layers": 2, "activation": "gelu_tanh"}
# Of each: a model, its inputs, targets, weights of these.
TASKS = {
    "classifier": (classifier, PACKED, CLASSES, None),
    "windows": (  # two of each text; some have only one, and the other is padding
        lambda: BertClassifier(encoder(), preprocessor(stride=4), ["a", "b", "c"]),
        {name: np.stack([values, values * (CLASSES[:, None] > 0)], axis=1) for name, values in PACKED.items()},
        CLASSES, None,
    ),
    "tokens": (lambda: BertTokenClassifier(encoder(), preprocessor(), ["a", "b", "c"]), PACKED, TAGS, None),
    "CRF": (
        lambda: BertTokenClassifier(encoder(), preprocessor(), ["O", "B-x", "I-x"], crf=True), PACKED, TAGS, None,
    ),
    "question answerer": (lambda: BertQuestionAnswerer(encoder(), preprocessor(stride=4)), PACKED, SPANS, None),
    "masked words": (
        lambda: BertMaskedLM(encoder(pooler=False, **ROBERTA)),
        {**POSITIONS, "input_word_ids": np.where(MASK, PACKED["input_word_ids"], 1), "input_type_ids": 0 * MASK},
        TOKENS, IS_PREDICTION,
    ),
    "pretrainer": (
        lambda: BertPretrainer(encoder(**ALBERT), preprocessor()), POSITIONS,
        {"masked_lm": TOKENS, "next_sentence": CLASSES % 2},
        {"masked_lm": IS_PREDICTION, "next_sentence": np.ones(ROWS, "float32")},
    ),
}  # fmt: skip


def optimizer(kind=AdamW, steps=None):
    # Not Adam's epsilon: by that, gradients that are 0 but for rounding would make steps as large as any.
    schedule = WarmupThenDecay(1e-2, 1, STEPS)
    clipped = {"global_clipnorm": 0.5, "gradient_accumulation_steps": steps}
    return kind(schedule, epsilon=1e-3, layer_decay=0.9, num_layers=1, **clipped)


def trained(jit_compile, make, x, y, weights, frozen=False, taught=False, **settings):
    """Losses of the steps, what they left of the model, and the rows that the first dense layer got in a step."""
    keras.utils.set_random_seed(0)
    model = make()
    teaching = learning_from(small.shaken(make(), seed=1), model) if taught else contextlib.nullcontext()
    model.encoder.trainable = not frozen
    layer = model.encoder.blocks[0].intermediate
    call, rows = layer.call, []
    layer.call = lambda hidden, **kwargs: rows.append(hidden.shape[0]) or call(hidden, **kwargs)
    loss = model.training_loss()
    before = model.get_weights()
    losses = []
    note = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: losses.append(logs["loss"]))
    with teaching:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Keras takes XLA from models with a layer that it says nothing of
            model.compile(optimizer(**settings), loss, jit_compile=jit_compile)
        model.fit(x, y, sample_weight=weights, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[note])
    assert model.jit_compile == jit_compile
    after = model.get_weights()
    assert max(np.abs(a - b).max() for a, b in zip(before, after, strict=True)) > 1e-3
    return np.array(losses), after, rows[-1]


@pytest.mark.parametrize(("task", "settings"), [
    ("tokens", {"frozen": True}),  # a smaller step is compiled
    ("windows", {"steps": 2}),
    ("question answerer", {"kind": LAMB}),
    ("pretrainer", {"kind": LAMB, "steps": 2}),
    ("masked words", {}),
    ("classifier", {"taught": True}),
    ("CRF", {"frozen": True, "taught": True}),
])  # fmt: skip
def test_same_training(task, settings):
    tf.config.run_functions_eagerly(True)  # to trace them takes longer
    try:
        losses, weights, rows = trained(False, *TASKS[task], **settings)
    finally:
        tf.config.run_functions_eagerly(False)
    compiled_losses, compiled_weights, compiled_rows = trained(True, *TASKS[task], **settings)
    assert len(losses) == STEPS
    np.testing.assert_allclose(compiled_losses, losses, rtol=0, atol=1e-5)
    for found, expected in zip(compiled_weights, weights, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    windows = np.size(TASKS[task][1]["input_mask"]) // (ROWS * LENGTH)
    assert rows < compiled_rows == BATCH * windows * LENGTH  # padding is computed under XLA, and only there


def test_by_default_a_model_that_reads_texts_is_not_compiled(monkeypatch):
    gpu = tf.config.list_physical_devices("CPU")[0]._replace(device_type="GPU")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda *_: [gpu])  # where Keras else does
    model = classifier()
    model.compile("sgd", model.training_loss())
    assert not model.jit_compile

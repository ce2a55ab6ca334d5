"""`fit`, `evaluate` and `predict` on arrays: Keras's batches and results, by datasets that no thread tunes."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier
from keras_bert.tasks.steps.batching import array_batches

from ..support import small
from ..support.messages import assert_names

TEXTS = [*small.TEXTS, "one two", "good", "bad music", "she loved it", "dull"]
LABELS = ["good", "bad"]
Y = [LABELS[number % 2] for number in range(len(TEXTS))]


@functools.cache
def network():
    """A model whose head alone learns, and its first weights."""
    made = small.task(BertClassifier, labels=LABELS, config={"num_layers": 1})
    made.encoder.trainable = False
    return made, made.get_weights()


def model():
    """That model as new: to build it takes longer than most calls."""
    made, weights = network()
    made.set_weights(weights)
    keras.utils.set_random_seed(0)
    made.compile(keras.optimizers.SGD(0.1), made.training_loss(), weighted_metrics=["accuracy"], run_eagerly=True)
    return made


N = len(TEXTS)
WEIGHTS = np.linspace(0.5, 2, N)
NUMBERS = np.array([LABELS.index(label) for label in Y])
PART, PART_Y, PART_NUMBERS = TEXTS[5:], Y[5:], NUMBERS[5:]


def batches(*parts, size=4):
    return tf.data.Dataset.from_tensor_slices(parts).batch(size)


def for_keras(value):
    """The same argument for Keras's own methods: tensors of texts and weights, and numbers of labels."""
    if isinstance(value, dict):
        return {LABELS.index(label): weight for label, weight in value.items()}
    if isinstance(value, tuple):
        return tuple(for_keras(each) for each in value)
    if not isinstance(value, list) or not value:
        return value
    return np.array([LABELS.index(each) for each in value]) if value[0] in LABELS else tf.constant(value)


# Calls that give what Keras gives, with `TEXTS` and `Y` unless they name `x`.
SAME = {
    "fit": [
        {"epochs": 2, "batch_size": 4, "validation_split": 0.3},
        {"batch_size": 4, "validation_split": 0.3, "class_weight": {"good": 3.0, "bad": 0.5}},
        {"batch_size": 3, "sample_weight": WEIGHTS, "validation_split": 0.3},
        {},
        {"batch_size": 0},
        {"batch_size": 100},
        {"epochs": 0},
        {"epochs": 3, "initial_epoch": 2},
        {"steps_per_epoch": 2, "batch_size": 2},
        {"steps_per_epoch": 99, "batch_size": 2},
        {"shuffle": "batch"},
        {"validation_steps": 1},
        {"validation_split": 0.0},
        {"validation_split": 0.01},
        {"batch_size": 4, "validation_split": 0.3, "validation_batch_size": 2},
        {"validation_split": 0.3, "validation_data": (PART, PART_Y)},
        {"validation_split": 0.3, "validation_steps": 1, "validation_batch_size": 2},
        {"validation_split": 0.3, "epochs": 2, "validation_freq": 2, "class_weight": {"good": 2.0}},
        {"validation_data": (PART, PART_Y), "validation_batch_size": 0},
        {"validation_data": (PART, PART_Y), "validation_steps": 1, "validation_batch_size": 2},
        {"validation_data": (PART, PART_Y), "class_weight": {"good": 3.0}},
        {"validation_data": (PART, PART_Y, WEIGHTS[5:]), "class_weight": {"good": 3.0}},
        {"validation_data": (PART, PART_Y, WEIGHTS[5:]), "sample_weight": WEIGHTS},
        {"validation_data": batches(TEXTS, NUMBERS)},
        {"validation_data": batches(TEXTS, NUMBERS, WEIGHTS)},
        {"sample_weight": WEIGHTS.astype("float32")},
        {"sample_weight": WEIGHTS[:, None]},
        {"sample_weight": tf.constant(WEIGHTS)},
        {"sample_weight": WEIGHTS.tolist()},
        {"sample_weight": np.zeros(N)},
        {"class_weight": {"good": 3.0}},
        {"class_weight": {"good": 3.0, "bad": 0.0}},
        {"x": batches(TEXTS, NUMBERS)},
        {"x": batches(TEXTS, NUMBERS, WEIGHTS)},
        {"x": batches(TEXTS, NUMBERS), "validation_data": (PART, PART_Y)},
    ],
    "evaluate": [
        {"batch_size": 3, "sample_weight": WEIGHTS},
        {},
        {"return_dict": True},
        {"sample_weight": WEIGHTS[:, None]},
        {"batch_size": 2, "steps": 1},
        {"x": batches(TEXTS, NUMBERS, WEIGHTS)},
    ],
    "predict": [{"batch_size": 3}, {}, {"batch_size": 2, "steps": 1}, {"x": batches(TEXTS)}],
}  # fmt: skip
# Calls that are refused, as Keras refuses them, and words of the message.
REFUSED = [
    ("fit", {"sample_weight": WEIGHTS[:3]}, [f"{N} examples", "3 in sample_weight"]),
    ("fit", {"sample_weight": np.zeros(N + 1)}, [f"{N} examples", f"{N + 1} in sample_weight"]),
    ("fit", {"sample_weight": 2.0}, [f"{N} examples", "1 in sample_weight"]),
    ("fit", {"sample_weight": WEIGHTS[:3], "validation_split": 0.3}, ["3 in sample_weight"]),
    ("fit", {"validation_data": (PART, PART_Y, WEIGHTS)}, [f"{N} in sample_weight"]),
    ("fit", {"validation_data": (PART, PART_Y, WEIGHTS), "class_weight": {"good": 3.0}}, ["in sample_weight"]),
    ("fit", {"validation_data": (PART, PART_Y[1:])}, ["examples", "labels"]),
    ("fit", {"validation_data": (PART, PART_Y, WEIGHTS[5:], 1)}, ["x, y, sample_weight"]),
    ("fit", {"class_weight": {"good": 3.0}, "sample_weight": WEIGHTS}, ["class_weight", "sample_weight"]),
    ("fit", {"validation_split": 1.0}, ["validation_split", 1.0, f"0 of {N}"]),
    ("fit", {"validation_split": 0.99}, ["validation_split", 0.99, f"0 of {N}"]),
    ("fit", {"validation_split": -0.5}, ["validation_split", -0.5]),
    ("fit", {"batch_size": -2}, [-2]),
    ("fit", {"x": batches(TEXTS, NUMBERS), "sample_weight": WEIGHTS}, ["sample_weights"]),
    ("fit", {"x": batches(TEXTS, NUMBERS), "validation_split": 0.3}, ["validation_split"]),
    ("fit", {"x": batches(TEXTS, NUMBERS, WEIGHTS), "class_weight": {"good": 3.0}}, ["class_weight"]),
    ("evaluate", {"sample_weight": WEIGHTS[:3]}, [f"{N} examples", "3 in sample_weight"]),
    ("evaluate", {"sample_weight": np.zeros(N + 1)}, [f"{N + 1} in sample_weight"]),
    ("evaluate", {"x": batches(TEXTS, NUMBERS), "sample_weight": WEIGHTS}, ["sample_weights"]),
]  # fmt: skip


def called(method, settings, keras_itself):
    """What a call gives, and the weights after it."""
    made = model()
    arguments = {"x": TEXTS, **({} if method == "predict" or "x" in settings else {"y": Y}), "verbose": 0, **settings}
    if method == "fit":
        arguments = {"shuffle": False, **arguments}
    if keras_itself:
        arguments = {name: for_keras(value) for name, value in arguments.items()}
    found = (getattr(keras.Model, method) if keras_itself else getattr(type(made), method))(made, **arguments)
    return getattr(found, "history", found), made.get_weights()


@pytest.mark.parametrize(("method", "settings"), [
    pytest.param(method, settings, marks=pytest.mark.slow if number else (), id=f"{method} {number}")
    for method, calls in SAME.items()
    for number, settings in enumerate(calls)
])  # fmt: skip
def test_a_call_gives_what_keras_gives(method, settings, untraced):
    (found, weights), (expected, keras_weights) = (called(method, settings, itself) for itself in (False, True))
    found, expected = ({"": each} if not isinstance(each, dict) else each for each in (found, expected))
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-5, rtol=1e-5, err_msg=name)
    for one, other in zip(weights, keras_weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(("method", "settings", "words"), REFUSED)
def test_a_call_is_refused_as_keras_refuses_it(method, settings, words, untraced):
    with pytest.raises((ValueError, TypeError, tf.errors.InvalidArgumentError)):
        called(method, settings, keras_itself=True)
    with pytest.raises((ValueError, TypeError, tf.errors.InvalidArgumentError)) as refused:
        called(method, settings, keras_itself=False)
    assert_names(str(refused.value), *words)


def test_no_thread_tunes_the_datasets(monkeypatch):
    """Those that Keras's own methods get, which do nothing here."""
    made, given = model(), []
    for method in ("fit", "evaluate", "predict"):

        @functools.wraps(getattr(keras.Model, method))
        def record(self, **arguments):
            given.append(arguments)

        monkeypatch.setattr(keras.Model, method, record)
    made.fit(TEXTS, Y, validation_data=(TEXTS, Y))
    made.fit(TEXTS, Y, validation_split=0.3)
    made.evaluate(TEXTS, Y)
    made.predict(TEXTS)
    datasets = [each[name] for each in given for name in ("x", "validation_data") if name in each]
    assert len(datasets) == 6
    assert [each.options().autotune.enabled for each in datasets] == [False] * 6


@pytest.mark.parametrize(("batch_size", "size"), [(5, 5), (20, 20), (8, None), (32, None)])
def test_the_shapes_have_the_size_of_full_batches_as_keras_has_it(batch_size, size):
    dataset = array_batches((np.zeros((20, 3)),), batch_size, shuffle=False)
    assert dataset.element_spec[0].shape.as_list() == [size, 3]


def test_each_pass_has_another_order_and_every_row_once():
    keras.utils.set_random_seed(0)
    ragged = tf.ragged.range(tf.range(20))
    dataset = array_batches(({"row": np.arange(20), "pair": (np.arange(20), ragged)},), 8, shuffle=True)
    passes = [[batch[0] for batch in dataset] for _ in range(2)]
    orders = [np.concatenate([batch["row"] for batch in each]).tolist() for each in passes]
    assert orders[0] != orders[1]
    for order, batches in zip(orders, passes, strict=True):
        assert sorted(order) == list(range(20))
        assert [len(batch["row"]) for batch in batches] == [8, 8, 4]
        for batch in batches:
            number, of_row = batch["pair"]
            assert number.numpy().tolist() == of_row.row_lengths().numpy().tolist() == batch["row"].numpy().tolist()

"""SavedModels for `HubLayer`, their inputs, and a classifier made of two of them."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import HubLayer
from keras_bert.saved_model.saving import callable_object

NAMES = ("input_word_ids", "input_mask", "input_type_ids")
GOOD = ["good film", "love the plot", "great music , great story", "very warm"]
BAD = ["bad", "hate it", "dull , not good , cold", "not watchable"]
TEXTS, LABELS = tf.constant(GOOD + BAD), np.array([[1.0]] * 4 + [[0.0]] * 4)
IDS = {name: np.array([[2, 75, 3, 0]] * 2 if name == NAMES[0] else [[1, 1, 1, 0]] * 2) for name in NAMES}


def save_toy(directory: Path, add: float = 0.0) -> str:
    """x -> `scale * x + add`, and 1000 more when training; counts the calls in training.

    Endpoints: `double`; `number`, of words, which are in a file; `total`, of one or two ragged tensors in a list.

    Returns:
        The directory.
    """
    scale, calls = tf.Variable(2.0, name="scale"), tf.Variable(0.0, trainable=False, name="calls")

    @tf.function
    def call(x, training=False):
        if training:
            calls.assign_add(1.0)
        return scale * x + add + (1000.0 if training else 0.0)

    for training in (False, True):
        call.get_concrete_function(tf.TensorSpec([None, 3]), training=training)
    words = directory.with_name(f"{directory.name}-words.txt")
    words.write_text("yes\nno\n")
    table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(str(words), "string", -2, "int64", -1), -1)
    number = tf.function(table.lookup, input_signature=[tf.TensorSpec([None], tf.string)])
    total = tf.function(lambda x: tf.add_n([tf.reduce_sum(each, 1) for each in x]))
    for count in (1, 2):
        total.get_concrete_function([tf.RaggedTensorSpec([None, None], tf.int32)] * count)
    double = tf.function(lambda x: 2 * x, input_signature=[tf.TensorSpec([None])])
    toy = callable_object(
        call,
        variables=[calls, scale],
        trainable_variables=[scale],
        regularization_losses=[tf.function(lambda: scale**2, input_signature=[])],
        double=callable_object(double),
        number=callable_object(number, table=table),
        total=callable_object(total),
    )
    tf.saved_model.save(toy, directory)
    words.unlink()
    return str(directory)


def classifier(models: dict[str, str], output: str = "pooled_output", trainable: bool = True) -> keras.Model:
    """A classifier of texts on one output of the encoder. `models`: "preprocessor" and "encoder" -> directory."""
    keras.utils.set_random_seed(0)
    text = keras.Input(shape=(), dtype="string")
    outputs = HubLayer(models["encoder"], trainable=trainable, name="encoder")(HubLayer(models["preprocessor"])(text))
    flat = keras.layers.Flatten()(outputs[output])
    model = keras.Model(text, keras.layers.Dense(1)(flat))
    model.compile(keras.optimizers.Adam(1e-3), "mse")
    return model


def save_classifier(directory: Path, models: dict, layers: Callable, **saving: Any) -> Any:
    """Saves a Keras 2 classifier as teams have it: `layers(tf_keras, outputs)` on a preprocessor and an encoder.

    `models`: "preprocessor" and "encoder" -> directory. Without a preprocessor, it takes ids. Returns the classifier.
    """
    library, layer = pytest.importorskip("tf_keras"), pytest.importorskip("tensorflow_hub").KerasLayer
    library.utils.set_random_seed(0)
    inputs = {name: library.Input(shape=(None,), dtype="int32", name=name) for name in NAMES}
    packed = inputs
    if "preprocessor" in models:
        inputs = library.Input(shape=(), dtype="string", name="text")
        packed = layer(str(models["preprocessor"]))(inputs)
    model = library.Model(inputs, layers(library, layer(str(models["encoder"]), trainable=True)(packed)))
    for variable in model.trainable_variables:
        value = variable.numpy()
        if value.ndim == 1 and not value.any():  # a new bias: if it were lost, nobody would see it
            variable.assign(np.linspace(-0.2, 0.3, len(value)))
    if saving.get("include_optimizer"):
        model.compile("adam", "mse", metrics=["mae"])
        model.train_on_batch(TEXTS[:2], model(TEXTS[:2]))
    model.save(directory, **saving)
    config = Path(models["encoder"]) / "assets.extra"
    if config.is_dir():  # without it, the number of heads is unknown
        shutil.copytree(config, directory / "assets.extra", dirs_exist_ok=True)
    return model

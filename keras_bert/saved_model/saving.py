"""Parts that all exports share: callable objects, stored weights, the README of low precision."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from keras_bert import precisions, undocumented
from keras_bert.choices import check_choice
from keras_bert.encoder.weights import variables_by_name
from keras_bert.inference.precision import LOW_PRECISIONS
from keras_bert.saved_model.hub_layer import HubLayer

Request: TypeAlias = "tuple[str, dict[str, Any]]"  # a signature, and values by the names of its inputs

_CARD = """\
# A model in {precision}

It needs oneDNN's operations, which TensorFlow has in its builds for x86 on Linux. Elsewhere, such as on ARM, loading it
ends with "Op type not registered": use an export in float32 there. It has no float weights to train further.

{processors}
"""


def write_card(directory: Path, precision: str) -> None:
    """Writes the README of a SavedModel in low precision, which lists the processors that it needs."""
    card = _CARD.format(precision=precision, processors=LOW_PRECISIONS[precision].processors)
    (directory / "README.md").write_text(card, encoding="utf-8")


def callable_object(function: Callable[..., object], **attributes: object) -> tf.train.Checkpoint:
    """Makes an object to call after loading, from a tf.function that has been traced for every kind of input."""
    return tf.train.Checkpoint(**attributes, __call__=function)


class StoredWeights:
    """Copies of a Keras model's weights, which replace the originals while a function is traced."""

    # The SavedModel has no Keras objects, and no variables for random seeds: a variable that every call changes can
    # neither be mirrored on devices nor serve several clients at a time. An operation draws the seeds of dropout
    # instead. The weights of a `HubLayer` have no copies: its graph reads them itself.
    # With a dtype, "float16" or "bfloat16", calls cast them back. The names of a part's variables, the `root`, leave
    # out the part's name, which Keras may have numbered. Raises ValueError if a dtype is unknown, or cannot hold a
    # weight.

    def __init__(self, model: keras.Layer, dtype: str | None = None, root: keras.Layer | None = None) -> None:
        if dtype is not None:
            check_choice("dtype", dtype, precisions.SAVED_MODELS)
        names = {
            id(weight): name for part in (model, root or model) for name, weight in variables_by_name(part).items()
        }
        parts = undocumented.flatten_layers(model)
        read_by_graphs = {id(weight) for part in parts if isinstance(part, HubLayer) for weight in part.weights}
        self._weights = [weight for weight in model.weights if id(weight) not in read_by_graphs]
        self._copies = {id(weight): _copy(names[id(weight)], weight, dtype) for weight in self._weights}
        # `model.weights` lacks the states of seeds, which `in_place` must replace, too.
        self._seeds = undocumented.seed_states(model)
        self.variables = [*self._copies.values()]

    def copies(self, part: keras.Layer) -> list[tf.Variable]:
        """Finds the copies of the weights of one part of the model."""
        return [self._copies[id(weight)] for weight in part.weights]

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Makes the model compute with the copies inside the block."""
        # Not tf.random.uniform: it would put this program's global seed into the graph, and two calls in one step, or
        # two replicas, would drop the same elements.
        limits = {"minval": 0, "maxval": 2**31 - 1, "seed": 0, "seed2": 0}
        seeds = [tf.cast(tf.raw_ops.RandomUniformInt(shape=seed.shape, **limits), seed.dtype) for seed in self._seeds]
        mapping = [*zip(self._weights, self.variables, strict=True), *zip(self._seeds, seeds, strict=True)]
        with keras.StatelessScope(state_mapping=mapping):
            yield


def _copy(name: str, weight: keras.Variable, dtype: str | None) -> tf.Variable:
    value = tf.convert_to_tensor(weight.value)
    if dtype is not None and value.dtype.is_floating:
        stored = tf.cast(value, dtype)
        overflows = tf.math.is_finite(value) & ~tf.math.is_finite(stored)
        if tf.reduce_any(overflows):
            example = tf.boolean_mask(value, overflows)[0]
            raise ValueError(f"{name} holds {example:.3g}, more than {dtype} can hold; store it as bfloat16")
        value = stored
    # Frozen weights are trainable, too: the user of the SavedModel decides what to freeze.
    return tf.Variable(value, name=name, trainable=value.dtype.is_floating)


def variables_read(function: Any, variables: list[tf.Variable]) -> list[tf.Variable]:
    """Drops variables that a traced function does not read. In low precision, most weights are constants."""
    read_ids = {id(variable) for variable in function.variables}
    return [variable for variable in variables if id(variable) in read_ids]


@contextlib.contextmanager
def within_positions(inputs: Mapping[str, tf.Tensor], positions: int) -> Iterator[dict[str, tf.Tensor]]:
    """Makes a graph's call raise an error if rows are longer than the model's positions, inside the block."""
    tokens = tf.shape(next(iter(inputs.values())))[-1]
    message = f"the model has {positions} positions, but the sequence tokens:"
    with tf.control_dependencies([tf.debugging.Assert(tokens <= positions, [message, tokens])]):
        # Cuts off tokens without a position: a GPU would look up zeros for them, and a CPU could raise its own error
        # before the assertion does.
        yield {name: values[..., :positions] for name, values in inputs.items()}

"""Reads and loads the weights of an encoder or a head, by the names that `formats` uses."""

import functools
import hashlib
import math
from collections.abc import Callable
from typing import TypeVar

import keras
import numpy as np

from keras_bert import undocumented
from keras_bert.formats import Checkpoint, storage
from keras_bert.tensors import Tensor

_OPTIONAL = "pooler/"  # weights that are randomly initialized if a checkpoint lacks them
Layer = TypeVar("Layer", bound=keras.Layer)


def variables_by_name(layer: keras.Layer) -> dict[str, keras.Variable]:
    """Maps the path of each weight inside a layer, such as `block_0/attention/qkv/kernel`, to the weight."""
    return {variable.path.removeprefix(f"{layer.path}/"): variable for variable in layer.weights}


def values_by_name(layer: keras.Layer) -> dict[str, np.ndarray]:
    """Reads the values of a layer's weights, by the names of `variables_by_name`, with LoRA merged into them."""
    values = {name: keras.ops.convert_to_numpy(variable) for name, variable in variables_by_name(layer).items()}
    for each in undocumented.flatten_layers(layer):
        if undocumented.has_lora(each):
            path, weight = each.path.removeprefix(f"{layer.path}/"), undocumented.lora_weight(each)
            change = keras.ops.convert_to_numpy(undocumented.lora_change(each))
            values[f"{path}/{weight}"] = values[f"{path}/{weight}"] + change
            del values[f"{path}/lora_{weight}_a"], values[f"{path}/lora_{weight}_b"]
    return values


def digest(layer: keras.Layer) -> str:
    """Computes a digest of a layer's weights. For speed, it reads only about a thousand values of each weight."""
    sha256 = hashlib.sha256()
    for name, variable in variables_by_name(layer).items():
        sha256.update(f"{name} {tuple(variable.shape)}".encode())
        step = max(1, math.prod(variable.shape) // 1000)
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            sample = np.asarray(tf.convert_to_tensor(variable.value)).reshape(-1)[::step]  # views: nothing is copied
        else:
            sample = keras.ops.convert_to_numpy(keras.ops.reshape(variable, (-1,))[::step])
        sha256.update(sample.tobytes())
    return sha256.hexdigest()


def load_weights(layer: keras.Layer, checkpoint: Checkpoint, part: str) -> None:
    """Loads weights into an encoder or a head that is built; `part` is as in `Checkpoint.weights`, which may raise."""
    variables = variables_by_name(layer)
    shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    for name, value in checkpoint.weights(part, shapes).items():
        variables[name].assign(value)


def make_with_weights(make: Callable[[], Layer], checkpoint: Checkpoint, part: str) -> Layer:
    """Makes an encoder or a head with weights; only a pooler that the checkpoint lacks is randomly initialized."""
    values = checkpoint.weights(part)  # raises before Keras initializes any variables
    errors: list[ValueError] = []

    def initial_value(name: str, shape: tuple[int, ...], dtype: str) -> Tensor:
        try:
            return _as_tensor(values[name], dtype)
        except ValueError as error:
            errors.append(error)  # raised below: Keras would retry this variable forever
            return np.zeros(shape, np.float32)

    with keras.StatelessScope():  # variables get their values when this scope ends
        layer = make()
        for name, variable in variables_by_name(layer).items():
            if name in values or not name.startswith(_OPTIONAL):
                undocumented.set_initializer(variable, functools.partial(initial_value, name))
    if errors:
        raise errors[0]
    return layer


def _as_tensor(values: np.ndarray, dtype: str) -> Tensor:
    """Makes a tensor that shares memory with values, if it can; a variable's first update copies it."""
    if keras.backend.backend() != "tensorflow" or values.dtype != dtype or not storage.is_aligned(values):
        return values
    return undocumented.share_memory(values)

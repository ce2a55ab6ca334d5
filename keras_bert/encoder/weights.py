"""Weights by name: how the parts of a model meet the tables of `checkpoints`."""

from pathlib import Path

import keras

from keras_bert.checkpoints import hugging_face
from keras_bert.families import Names


def variables_by_name(layer: keras.Layer) -> dict[str, keras.Variable]:
    """Every weight of a layer under its path inside it, such as `block_0/attention/qkv/kernel`."""
    return {variable.path.removeprefix(f"{layer.path}/"): variable for variable in layer.weights}


def read_weights(layer: keras.Layer, directory: Path, names: Names) -> None:
    """Gives an encoder, or a head, the weights that a preset has under `names`; see `hugging_face.read_weights`."""
    variables = variables_by_name(layer)
    shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    for name, value in hugging_face.read_weights(directory, names, shapes).items():
        variables[name].assign(value)

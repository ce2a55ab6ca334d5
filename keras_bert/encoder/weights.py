"""Weights by name: how the parts of a model meet the names of `checkpoints`."""

from pathlib import Path

import keras

from keras_bert import checkpoints
from keras_bert.checkpoints import Checkpoint
from keras_bert.families import FAMILIES, Names


def variables_by_name(layer: keras.Layer) -> dict[str, keras.Variable]:
    """Every weight of a layer under its path inside it, such as `block_0/attention/qkv/kernel`."""
    return {variable.path.removeprefix(f"{layer.path}/"): variable for variable in layer.weights}


def load_weights(layer: keras.Layer, checkpoint: Checkpoint, part: str) -> None:
    """Gives an encoder, or a head, its weights.

    Args:
        layer: whose weights exist.
        checkpoint: where they come from, one by one.
        part: "encoder", or the head: a key of `families.FAMILIES[...].heads`.

    Raises:
        ValueError: a weight is missing, of another shape, or cannot be read.
    """
    variables = variables_by_name(layer)
    shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    for name, value in checkpoint.weights(part, shapes).items():
        variables[name].assign(value)


def read_weights(layer: keras.Layer, directory: Path, names: Names) -> None:
    """Gives a head the weights that a preset has under `names`."""
    with checkpoints.open_checkpoint(directory) as checkpoint:
        heads = FAMILIES[checkpoint.config.family].heads
        load_weights(layer, checkpoint, next(head for head, its in heads.items() if its == names))

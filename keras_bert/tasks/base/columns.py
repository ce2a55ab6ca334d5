"""Reads texts and labels for Keras: as string tensors, or as a dataset of them; see `answers/columns.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeGuard

import keras
import numpy as np
import tensorflow as tf

from keras_bert.answers.columns import Labels, Texts, as_float32, plain
from keras_bert.counted import counted
from keras_bert.encoder.encoder import NAMES
from keras_bert.tensors import Tensor
from keras_bert.text.arguments import check_many, rank_of
from keras_bert.text.strings import as_strings

# The inputs of a layer: string tensors, or the encoder's inputs.
Inputs: TypeAlias = "Tensor | tuple[Tensor, ...] | dict[str, Tensor]"


def check_inputs(x: Texts | Inputs, has_labels: bool = True) -> None:
    """Raises TypeError or ValueError if Keras's `fit`, `evaluate` and `predict` could not read these inputs."""
    if (spec := getattr(x, "element_spec", None)) is not None:  # a dataset; its batches may hold any inputs
        if has_labels and isinstance(spec, tuple) and len(spec) > 1 and getattr(spec[1], "dtype", None) == tf.string:
            raise ValueError(
                "the labels in this dataset are strings; make it with the numbers from model.targets(names)"
            )
        return
    for number, column in enumerate(x if isinstance(x, tuple) else (x,)):
        name = f"x[{number}]" if isinstance(x, tuple) else "x"
        if not _is_packed(column):
            check_many(column, name)
            continue
        for key, value in column.items():  # packed inputs
            if rank_of(value) in (0, 1):
                raise ValueError(f"{name}[{key!r}] has shape {tuple(value.shape)}; expected [batch, seq_length]")


def check_counts(x: Texts | Inputs, y: Labels | None) -> int | None:
    """Counts the rows of arrays for Keras; None if the number is unknown. Raises ValueError if `x` and `y` differ."""
    counts = [[len(each) for each in keras.tree.flatten(columns) if rank_of(each)] for columns in (x, y)]
    if len({*counts[0], *counts[1]}) > 1:
        texts, labels = (" and ".join(f"{each:,}" for each in sorted({*columns})) or "no" for columns in counts)
        raise ValueError(f"there are {texts} examples, but {labels} labels")
    return counts[0][0] if counts[0] else None


def as_weights(sample_weight: Any, count: int | None) -> Any:
    """Converts the weights of examples to arrays, unless they are arrays, tensors or dicts of them."""
    if sample_weight is None or count is None:
        return sample_weight  # Keras refuses weights beside a dataset
    if not isinstance(sample_weight, dict | np.ndarray) and not tf.is_tensor(sample_weight):
        sample_weight = as_float32(plain(sample_weight), "sample_weight")
    for each in keras.tree.flatten(sample_weight):
        found = len(each) if rank_of(each) else 1
        if found != count:
            raise ValueError(f"got {counted(count, 'example')}, but {found:,} in sample_weight; give each example one")
    return sample_weight


def as_tensors(inputs: Texts | Inputs) -> Inputs:
    """Converts lists of str to string tensors; packed inputs, Keras inputs and tensors stay as they are."""
    if isinstance(inputs, tuple) and inputs:
        return tuple(as_tensors(each) for each in inputs)
    if isinstance(inputs, keras.KerasTensor) or _is_packed(inputs):
        return inputs
    if isinstance(inputs, str | bytes | dict):
        check_many(inputs)  # raises
    strings = as_strings(inputs)
    if strings.shape.rank == 0:
        raise TypeError(f"texts is a single {type(inputs).__name__} without dimensions; pass a list: [text]")
    return strings


def _is_packed(inputs: object) -> TypeGuard[Mapping[str, Tensor]]:
    """Checks whether `inputs` is the encoder's dict, and not a dict of text columns."""
    if not isinstance(inputs, dict):
        return False
    return NAMES[0] in inputs or all((rank_of(value) or 0) > 1 for value in inputs.values())


def as_arrays(x: Texts | Inputs) -> Inputs:
    """Converts lists and arrays of texts to string tensors, for Keras to batch; anything else stays as it is."""
    if isinstance(x, tuple):
        return tuple(as_arrays(each) for each in x)
    are_texts = isinstance(x, np.ndarray) and x.dtype.kind in "OSTU"
    return as_strings(x) if are_texts or isinstance(x, list) else x

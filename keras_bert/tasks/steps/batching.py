"""Batches of arrays for Keras, whose own datasets are tuned by a thread that an epoch may wait for at its end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from keras_bert.counted import counted
from keras_bert.pipelines import UNTUNED, as_written
from keras_bert.recipe import BALANCED

if TYPE_CHECKING:
    from keras_bert.tasks.base.task import BertTask
    from keras_bert.tasks.kinds.class_weights import ClassWeight

PARTS = ("x", "y", "sample_weight")
_BATCH_SIZE = 32  # Keras's default


def batch_arrays(arguments: dict[str, Any], shuffle: bool = False) -> dict[str, Any]:
    """Replaces arrays in the arguments of Keras's methods by a dataset, unless they come with a number of steps."""
    has_steps = any(arguments.get(name) is not None for name in ("steps", "steps_per_epoch"))
    parts = _given(map(arguments.get, PARTS))
    dataset = None if has_steps else _dataset_of(parts, arguments.get("batch_size"), shuffle)
    if dataset is None:
        return arguments
    return {"x": dataset, **{name: each for name, each in arguments.items() if name not in (*PARTS, "batch_size")}}


def split_validation(arguments: dict[str, Any]) -> None:
    """Moves the share `validation_split` of arrays, the end of the examples, to `validation_data`, as Keras does."""
    parts, share = _given(map(arguments.get, PARTS)), arguments.get("validation_split") or 0.0
    if not share or arguments.get("validation_data") is not None or not _are_arrays(parts):
        return
    count = len(tf.nest.flatten(parts)[0])
    first = math.floor(count * (1 - share))
    if not 0 < first < count:
        raise ValueError(
            f"validation_split is {share}, which leaves {min(max(first, 0), count):,} of {counted(count, 'example')} "
            "to train on and the others to validate with; choose a share that leaves some of both"
        )
    training, arguments["validation_data"] = (
        tf.nest.map_structure(lambda each, rows=rows: each[rows], parts) for rows in (slice(first), slice(first, None))
    )
    del arguments["validation_split"]
    arguments |= dict(zip(PARTS, training, strict=False))


def weigh_examples(model: BertTask, arguments: dict[str, Any], class_weight: ClassWeight) -> None:
    """Adds the sample weights of classes to the arguments of Keras's `fit`."""
    x, targets = arguments["x"], arguments["y"]
    if arguments.get("sample_weight") is not None:
        raise ValueError("class_weight and sample_weight exclude each other; multiply them into sample_weight")
    if targets is None and class_weight == BALANCED:
        raise ValueError("class_weight='balanced' needs arrays; for a dataset, pass a dict of weights")
    weights = model.kind.class_weights(class_weight, targets)
    if targets is not None:
        arguments["sample_weight"] = model.kind.sample_weights(tf.convert_to_tensor(targets), weights)
    elif isinstance(x, tf.data.Dataset) and len(x.element_spec) == 2:
        arguments["x"] = x.map(lambda x, y: (x, y, model.kind.sample_weights(y, weights)), tf.data.AUTOTUNE)
    else:
        raise TypeError(
            "class_weight needs arrays or a tf.data.Dataset of (x, y); other inputs must yield (x, y, sample_weight)"
        )


def batch_arrays_for_fit(arguments: dict[str, Any]) -> dict[str, Any]:
    """Does the same as `batch_arrays` for the validation data of `fit`, too."""
    validation = arguments.get("validation_data")
    sizes = [arguments.get(name) for name in ("validation_batch_size", "batch_size")]
    if isinstance(validation, tuple):
        validation = _given(validation)
        has_steps = arguments.get("validation_steps") is not None
        dataset = None if has_steps else _dataset_of(validation, sizes[0] or sizes[1], shuffle=False)
        arguments["validation_data"] = validation if dataset is None else dataset
    shuffle = arguments.get("shuffle", True)
    batched = batch_arrays(arguments, bool(shuffle))
    return arguments if batched is arguments else {**batched, "shuffle": False}


def _given(parts: Iterable[Any]) -> tuple[Any, ...]:
    """Selects the inputs, targets and weights without those that are missing at the end."""
    parts = list(parts)
    while parts and parts[-1] is None:
        parts.pop()
    return tuple(parts)


def _are_arrays(parts: Sequence[Any]) -> bool:
    arrays = tf.nest.flatten(parts)
    return bool(arrays) and all(tf.is_tensor(each) or isinstance(each, np.ndarray) for each in arrays)


def _dataset_of(parts: Sequence[Any], batch_size: int | None, shuffle: bool) -> tf.data.Dataset | None:
    return array_batches(parts, batch_size or _BATCH_SIZE, shuffle) if _are_arrays(parts) else None


def array_batches(data: Sequence[Any], batch_size: int, shuffle: bool) -> tf.data.Dataset:
    """Makes the batches of arrays as Keras does, but without autotuning; each pass is shuffled anew."""
    tensors = tf.nest.map_structure(lambda each: each if tf.is_tensor(each) else tf.constant(each), tuple(data))
    count = len(tf.nest.flatten(data)[0])
    rows = tf.data.Dataset.range(count)
    rows = (rows.shuffle(count) if shuffle else rows).batch(batch_size, drop_remainder=count % batch_size == 0)

    @as_written
    def gather(batch: tf.Tensor) -> Any:
        return tf.nest.map_structure(lambda each: tf.gather(each, batch), tensors)

    return rows.map(gather, tf.data.AUTOTUNE, deterministic=True).prefetch(2).with_options(UNTUNED)

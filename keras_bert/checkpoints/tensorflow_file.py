"""The files of a TensorFlow checkpoint, `NAME.index` and `NAME.data-00000-of-00001`: TF 1's, TF 2's, SavedModels'."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from keras_bert.checkpoints.shapes import Shape

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


class TensorFlowFile:
    """An open checkpoint: the index at once, values on demand. Imports TensorFlow.

    Args:
        path: of the index.

    Raises:
        ValueError: the index is damaged.
    """

    def __init__(self, path: Path) -> None:
        import tensorflow as tf

        self.path = path
        self._errors = (tf.errors.OpError, RuntimeError, ValueError)
        try:
            self._reader = tf.train.load_checkpoint(str(path).removesuffix(".index"))
            self._shapes = self._reader.get_variable_to_shape_map()
            self._dtypes = self._reader.get_variable_to_dtype_map()
        except self._errors as error:
            raise ValueError(f"{path} is not the index of a TensorFlow checkpoint, or is damaged: {error}") from None
        self.names = set(self._shapes)

    def shape(self, name: str) -> Shape:
        return tuple(self._shapes[name])

    def read(self, name: str) -> np.ndarray:
        """The tensor as float32, whatever float type it was stored in."""
        if not self._dtypes[name].is_floating:
            raise ValueError(f"{self.path}: {name} is {self._dtypes[name].name}, but a weight must be a float tensor")
        return np.asarray(self.raw(name)).astype(np.float32, copy=False)

    def raw(self, name: str) -> np.ndarray | bytes:
        """A tensor as it is stored."""
        if not list(self.path.parent.glob(f"{self.path.stem}.data-*")):
            raise FileNotFoundError(f"{self.path} has no values beside it: there is no {self.path.stem}.data-…-of-…")
        try:
            return self._reader.get_tensor(name)
        except self._errors as error:
            raise ValueError(f"{self.path}: cannot read {name}; fetch the files again ({error})") from None

    def close(self) -> None:
        self._reader = None


def write_tensorflow(prefix: Path, tensors: Iterable[tuple[str, np.ndarray]]) -> None:
    """Writes a checkpoint under plain names, as TensorFlow 1 has them.

    Args:
        prefix: of the names of the two files; they appear when they are complete.
        tensors: name and value of each.
    """
    import tensorflow as tf

    names, values = [], []
    for name, value in tensors:
        names.append(name)
        values.append(tf.constant(value))
    prefix.parent.mkdir(parents=True, exist_ok=True)
    unfinished = prefix.with_name(f".{prefix.name}.{os.getpid()}.tmp")
    endings = (".data-00000-of-00001", ".index")
    try:
        tf.raw_ops.SaveV2(
            prefix=str(unfinished), tensor_names=names, shape_and_slices=[""] * len(names), tensors=values
        )
        for ending in endings:  # the index last: without it, there is no checkpoint
            os.replace(f"{unfinished}{ending}", f"{prefix}{ending}")
    finally:
        for ending in endings:
            Path(f"{unfinished}{ending}").unlink(missing_ok=True)

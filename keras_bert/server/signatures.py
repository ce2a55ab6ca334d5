"""The signatures of a SavedModel: names, types and shapes of inputs and outputs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef, TensorInfo

from keras_bert.server.errors import invalid_argument
from keras_bert.server.limits import MAX_ROWS

# Predict answers signatures made for any of these.
_METHODS = frozenset(f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress"))
DEFAULT = "serving_default"

Arrays = dict[str, np.ndarray]  # strings are arrays of bytes objects


@dataclass(frozen=True)
class TensorSpec:
    """An input or output."""

    tensor: str  # its name in the graph
    dtype: tf.DType
    shape: tf.TensorShape  # its rank and sizes may be unknown


@dataclass(frozen=True, eq=False)
class Signature:
    """A signature of a SavedModel."""

    name: str  # in requests
    inputs: dict[str, TensorSpec]  # in alphabetical order, as the outputs
    outputs: dict[str, TensorSpec]
    defaults: Arrays = field(default_factory=dict)  # values of inputs that a request may leave out

    @functools.cached_property
    def batchable(self) -> bool:
        """Whether rows of different requests can share a run.

        They can if every first dimension is free, and the other dimensions of the outputs are fixed: an output as long
        as the longest text of the batch would depend on the texts of other clients.
        """
        shapes = [spec.shape for spec in (*self.inputs.values(), *self.outputs.values())]
        return all(shape.rank and shape[0] is None for shape in shapes) and all(
            spec.shape[1:].is_fully_defined() for spec in self.outputs.values()
        )

    def input(self, name: str) -> TensorSpec:
        """The input of that name. Raises ServingError if there is none."""
        if name not in self.inputs:
            raise invalid_argument(f"the signature {self.name} has no input {name}; it has {', '.join(self.inputs)}")
        return self.inputs[name]

    def complete(self, inputs: Arrays) -> Arrays:
        """All inputs, with defaults for missing ones. Raises ServingError for a missing input or a wrong shape.

        Args:
            inputs: arrays by name, of the types of the signature.
        """
        inputs = self.defaults | inputs
        if missing := [name for name in self.inputs if name not in inputs]:
            raise invalid_argument(f"the signature {self.name} also needs the input {', '.join(missing)}")
        for name, spec in self.inputs.items():
            shape = inputs[name].shape
            if not spec.shape.is_compatible_with(shape):
                raise invalid_argument(f"the input {name} has the shape {shape}; the signature needs {spec.shape}")
            if self.batchable:
                check_rows(shape[0])
        return {name: inputs[name] for name in self.inputs}

    def chosen_outputs(self, names: list[str]) -> list[str]:
        """The requested outputs, by default all. Raises ServingError for an unknown or repeated name."""
        for position, name in enumerate(names):
            if name not in self.outputs:
                outputs = ", ".join(self.outputs)
                raise invalid_argument(f"the signature {self.name} has no output {name}; it has {outputs}")
            if name in names[:position]:
                raise invalid_argument(f"output_filter has {name} twice")
        return names or list(self.outputs)


def check_rows(rows: int) -> None:
    """Raises ServingError if a request has too many rows."""
    if rows > MAX_ROWS:
        raise invalid_argument(f"the request has {rows} rows, more than {MAX_ROWS}; send several requests")


def read_signatures(definitions: Mapping[str, SignatureDef]) -> dict[str, Signature]:
    """Reads a SavedModel's signatures, by name."""
    return {
        name: Signature(
            name,
            _specs(definition.inputs),
            _specs(definition.outputs),
            {key: tf.make_ndarray(value) for key, value in definition.defaults.items()},
        )
        for name, definition in definitions.items()
        if definition.method_name in _METHODS
    }


def _specs(infos: Mapping[str, TensorInfo]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(infos[name].name, tf.as_dtype(infos[name].dtype), tf.TensorShape(infos[name].tensor_shape))
        for name in sorted(infos)
    }

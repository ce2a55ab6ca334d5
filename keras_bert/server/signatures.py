"""The signatures of a SavedModel: names, types and shapes of inputs and outputs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef, TensorInfo

from keras_bert.server.errors import failed_precondition, invalid_argument
from keras_bert.server.limits import MAX_ROWS

PREDICT, CLASSIFY, REGRESS = (f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress"))
DEFAULT = "serving_default"

# The outputs that a signature for Classify or Regress may have. Its one input is "inputs".
_OUTPUTS = {CLASSIFY: {"classes": tf.string, "scores": tf.float32}, REGRESS: {"outputs": tf.float32}}

Arrays = dict[str, np.ndarray]  # strings are arrays of bytes objects


@dataclass(frozen=True)
class TensorSpec:
    """One input or output.

    Attributes:
        tensor: its name in the graph.
        dtype: its type.
        shape: its shape; rank and sizes may be unknown.
    """

    tensor: str
    dtype: tf.DType
    shape: tf.TensorShape


@dataclass(frozen=True, eq=False)
class Signature:
    """One signature of a SavedModel.

    Attributes:
        name: its name in requests.
        method: PREDICT, CLASSIFY or REGRESS.
        inputs, outputs: by name, in alphabetical order.
        defaults: values of the inputs that a request may leave out.
    """

    name: str
    method: str
    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]
    defaults: Arrays = field(default_factory=dict)

    @functools.cached_property
    def batchable(self) -> bool:
        """Whether rows of different requests can be computed together and split again.

        They can if every first dimension is free and every other dimension of the outputs is fixed. An output as long
        as the longest text of the batch would depend on other clients' texts.
        """
        shapes = [spec.shape for spec in (*self.inputs.values(), *self.outputs.values())]
        return all(shape.rank and shape[0] is None for shape in shapes) and all(
            spec.shape[1:].is_fully_defined() for spec in self.outputs.values()
        )

    def check_method(self, method: str) -> None:
        """Raises ServingError if the signature cannot answer Classify or Regress; Predict takes any."""
        if method == PREDICT:
            return
        if method != self.method:
            raise invalid_argument(f"the signature {self.name} is made for {self.method}, not for {method}")
        types = _OUTPUTS[method]
        if list(self.inputs) != ["inputs"] or any(types.get(key) != spec.dtype for key, spec in self.outputs.items()):
            raise failed_precondition(
                f"the signature {self.name} cannot answer {method}: it needs one input, inputs, and the outputs "
                f"{' or '.join(types)}, and has {', '.join(self.inputs)} and {', '.join(self.outputs)}"
            )

    def input(self, name: str) -> TensorSpec:
        """The input of that name.

        Raises:
            ServingError: there is none.
        """
        if name not in self.inputs:
            raise invalid_argument(f"the signature {self.name} has no input {name}; it has {', '.join(self.inputs)}")
        return self.inputs[name]

    def complete(self, inputs: Arrays) -> Arrays:
        """The inputs, with defaults for missing ones, after a check of their names and shapes.

        Args:
            inputs: arrays by name, of the types of the signature.

        Raises:
            ServingError: one is missing, or has another shape or too many rows.
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
        """The names of the outputs that a request asks for: all outputs if `names` is empty."""
        for position, name in enumerate(names):
            if name not in self.outputs:
                outputs = ", ".join(self.outputs)
                raise invalid_argument(f"the signature {self.name} has no output {name}; it has {outputs}")
            if name in names[:position]:
                raise invalid_argument(f"output_filter has {name} twice")
        return names or list(self.outputs)


def check_rows(rows: int) -> None:
    """Raises ServingError if there are too many for a request."""
    if rows > MAX_ROWS:
        raise invalid_argument(f"a request takes at most {MAX_ROWS} rows, and this one has {rows}; send several")


def read_signatures(definitions: Mapping[str, SignatureDef]) -> dict[str, Signature]:
    """The signatures that can be served, by name, from the SignatureDef protos of a SavedModel."""
    return {
        name: Signature(
            name,
            definition.method_name,
            _specs(definition.inputs),
            _specs(definition.outputs),
            {key: tf.make_ndarray(value) for key, value in definition.defaults.items()},
        )
        for name, definition in definitions.items()
        if definition.method_name in (PREDICT, CLASSIFY, REGRESS)
    }


def _specs(infos: Mapping[str, TensorInfo]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(infos[name].name, tf.as_dtype(infos[name].dtype), tf.TensorShape(infos[name].tensor_shape))
        for name in sorted(infos)
    }

"""The signatures of a SavedModel: names, types and shapes of inputs and outputs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.types_pb2 import DataType

from keras_bert.server.errors import invalid_argument

PREDICT, CLASSIFY, REGRESS = (f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress"))
DEFAULT = "serving_default"

Arrays = dict[str, np.ndarray]  # strings are arrays of bytes objects


@dataclass(frozen=True)
class TensorSpec:
    """One input or output.

    Attributes:
        tensor: its name in the graph.
        dtype: a tf.DType.
        shape: a size or None for each dimension; None if the rank is unknown.
    """

    tensor: str
    dtype: tf.DType
    shape: tuple[int | None, ...] | None

    def admits(self, shape: tuple[int, ...]) -> bool:
        if self.shape is None:
            return True
        return len(shape) == len(self.shape) and all(
            want in (None, have) for want, have in zip(self.shape, shape, strict=True)
        )


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
        return all(shape and shape[0] is None for shape in shapes) and all(
            None not in spec.shape[1:] for spec in self.outputs.values()
        )

    def complete(self, inputs: Arrays) -> Arrays:
        """The inputs, with defaults for missing ones, after a check of their names, types and shapes.

        Raises:
            ServingError: they do not match the signature.
        """
        self._check_names(set(inputs))
        inputs = {name: inputs.get(name, self.defaults.get(name)) for name in self.inputs}
        for position, (name, spec) in enumerate(self.inputs.items()):
            dtype = tf.as_dtype(inputs[name].dtype)
            if dtype != spec.dtype:
                raise invalid_argument(
                    f"Expects arg[{position}] to be {type_text(spec.dtype)} but {type_text(dtype)} is provided"
                )
            if not spec.admits(inputs[name].shape):
                raise invalid_argument(
                    f"input {name} has shape {shape_text(inputs[name].shape)}, "
                    f"but the signature expects {shape_text(spec.shape)}"
                )
        return inputs

    def _check_names(self, given: set[str]) -> None:
        expected = set(self.inputs)
        extra, missing = given - expected, expected - given
        if len(given) > len(expected) or (len(given) < len(expected) and not self.defaults):
            raise invalid_argument(
                f"input size does not match signature: {len(given)}!={len(expected)} len({_braced(given)}) != "
                f"len({_braced(expected)}). Sent extra: {_braced(extra)}. Missing but required: {_braced(missing)}."
            )
        for name in sorted(missing - set(self.defaults)):
            raise invalid_argument(
                f"Signature input alias: {name}(feed name: {self.inputs[name].tensor}) not found in request and no "
                f"default value provided. Inputs expected to be in the request {_braced(given)}, or default input "
                f"alias set: {','.join(sorted(self.defaults))}"
            )
        if extra:
            raise invalid_argument(
                f"Inputs contains invalid name. Used request inputs: {','.join(sorted(given & expected))}, "
                f"request input: {','.join(sorted(given))}"
            )

    def chosen_outputs(self, names: list[str]) -> list[str]:
        """The names of the outputs that a request asks for: all outputs if `names` is empty."""
        seen: set[str] = set()
        for name in names:
            if name not in self.outputs:
                raise invalid_argument(
                    f"output tensor alias not found in signature: {name} Outputs expected to be in the set "
                    f"{_braced(self.outputs)}."
                )
            if name in seen:
                raise invalid_argument(f"duplicate output tensor alias: {name}")
            seen.add(name)
        return names or list(self.outputs)


def read_signatures(definitions: Mapping[str, Any]) -> dict[str, Signature]:
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


def _specs(infos: Mapping[str, Any]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(infos[name].name, tf.as_dtype(infos[name].dtype), _shape(infos[name].tensor_shape))
        for name in sorted(infos)
    }


def _shape(shape: Any) -> tuple[int | None, ...] | None:
    if shape.unknown_rank:
        return None
    return tuple(None if dimension.size < 0 else dimension.size for dimension in shape.dim)


def shape_text(shape: tuple[int | None, ...]) -> str:
    """`[-1,384]`, as TF Serving writes shapes."""
    return f"[{','.join('-1' if size is None else str(size) for size in shape)}]"


def type_text(dtype: tf.DType) -> str:
    """`float`, `int64`, `string`, as TF Serving writes types."""
    return DataType.Name(dtype.as_datatype_enum).removeprefix("DT_").lower()


def _braced(names: Any) -> str:
    return "{" + ",".join(sorted(names)) + "}"

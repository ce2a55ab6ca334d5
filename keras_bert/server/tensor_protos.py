"""gRPC's message TensorProto <-> arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow.core.framework.types_pb2 import DataType

from keras_bert.server.errors import invalid_argument
from keras_bert.server.limits import MAX_BYTES
from keras_bert.server.signatures import Arrays, Signature, TensorSpec

# The field for the values of each type. As TF Serving, we fill these fields, which clients read, and not the denser
# tensor_content.
_FIELDS = {
    tf.float32: "float_val",
    tf.float64: "double_val",
    tf.int64: "int64_val",
    tf.uint32: "uint32_val",
    tf.uint64: "uint64_val",
    tf.bool: "bool_val",
    tf.string: "string_val",
} | dict.fromkeys((tf.int8, tf.int16, tf.int32, tf.uint8, tf.uint16), "int_val")


def to_arrays(protos: Mapping[str, TensorProto], signature: Signature) -> Arrays:
    """The arrays of protos, by name. Raises ServingError for an unknown input, a wrong type, or bad or large data."""
    return {name: _to_array(name, protos[name], signature.input(name)) for name in protos}


def _to_array(name: str, proto: TensorProto, spec: TensorSpec) -> np.ndarray:
    if proto.dtype != spec.dtype.as_datatype_enum:
        known = DataType.Name(proto.dtype) if proto.dtype in DataType.values() else proto.dtype
        raise invalid_argument(f"the input {name} takes {spec.dtype.name}, not {known}")
    sizes = [dimension.size for dimension in proto.tensor_shape.dim]
    if proto.tensor_shape.unknown_rank or min(sizes, default=0) < 0:
        raise invalid_argument(f"the input {name} has no shape")
    # The last value is repeated for missing ones: a few bytes can make an array of any size.
    number, last = math.prod(sizes), proto.string_val[-1:]
    repeated = (number - len(proto.string_val)) * len(last[0]) if last else 0
    if number * np.dtype(spec.dtype.as_numpy_dtype).itemsize + repeated > MAX_BYTES:
        raise invalid_argument(f"the input {name} of shape {sizes} takes more than {MAX_BYTES} bytes")
    try:
        return tf.make_ndarray(proto)
    except (TypeError, ValueError, OverflowError):
        raise invalid_argument(f"the values of the input {name} do not fit its shape {sizes} and its type") from None


def from_array(array: np.ndarray) -> TensorProto:
    """A proto with the values in the field of their type."""
    dtype = tf.as_dtype(array.dtype)
    if dtype not in _FIELDS:
        return tf.make_tensor_proto(array)
    proto = TensorProto(dtype=dtype.as_datatype_enum)
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    getattr(proto, _FIELDS[dtype]).extend(array.ravel().tolist())
    return proto

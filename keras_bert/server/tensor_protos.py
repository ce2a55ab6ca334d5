"""gRPC's messages TensorProto and Input <-> arrays."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow_serving.apis.input_pb2 import Input

from keras_bert.server.errors import invalid_argument

# A few bytes can stand for any number of equal elements; this is as many as a request could spell out.
MAX_ELEMENTS = 16 * 2**20

# The field for the values of each type. Clients read these fields, so they are used rather than the denser
# tensor_content, as in TF Serving.
_FIELDS = {
    tf.float32: "float_val",
    tf.float64: "double_val",
    tf.int64: "int64_val",
    tf.uint32: "uint32_val",
    tf.uint64: "uint64_val",
    tf.bool: "bool_val",
    tf.string: "string_val",
} | dict.fromkeys((tf.int8, tf.int16, tf.int32, tf.uint8, tf.uint16), "int_val")


def to_array(name: str, proto: TensorProto) -> np.ndarray:
    """The array that a proto holds; strings as bytes objects.

    Raises:
        ServingError: it holds none, or one too large. The message gives `name`.
    """
    sizes = [dimension.size for dimension in proto.tensor_shape.dim]
    if math.prod(sizes) > MAX_ELEMENTS:
        raise invalid_argument(f"tensor parsing error: {name}, which has more than {MAX_ELEMENTS} elements")
    try:
        if proto.tensor_shape.unknown_rank or min(sizes, default=0) < 0:
            raise ValueError("the shape is not known")
        return tf.make_ndarray(proto)
    except (TypeError, ValueError):
        raise invalid_argument(f"tensor parsing error: {name}") from None


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


def examples(request: Input) -> list[bytes]:
    """The serialized tf.Examples of a request to classify or regress, each with the features of the context."""
    if request.WhichOneof("kind") == "example_list_with_context":
        context = request.example_list_with_context.context.SerializeToString()
        # A reader merges serialized messages that are concatenated.
        return [context + example.SerializeToString() for example in request.example_list_with_context.examples]
    return [example.SerializeToString() for example in request.example_list.examples]

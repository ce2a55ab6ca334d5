"""The tf.Examples in requests for Classify and Regress -> serialized, an object array `[examples]`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tensorflow.core.example.example_pb2 import Example
from tensorflow.core.example.feature_pb2 import Feature
from tensorflow_serving.apis.input_pb2 import Input

from keras_bert.server.errors import invalid_argument
from keras_bert.server.json_tensors import brief, is_bytes, rows_of, to_bytes
from keras_bert.server.limits import MAX_BYTES
from keras_bert.server.signatures import check_rows

_LARGEST = float(np.finfo(np.float32).max)


def from_json(document: dict[str, Any]) -> np.ndarray:
    """The examples of a REST request, each with the context's features. Raises ServingError for a malformed request."""
    examples = rows_of(document, "examples")
    context = _example("context", document.get("context", {}))
    return _with_context(context, [_example(f"examples[{number}]", value) for number, value in enumerate(examples)])


def from_proto(request: Input) -> np.ndarray:
    """The examples of a gRPC request, each with the context's features. Raises ServingError if there are none."""
    # Only one of the two lists is filled.
    examples = request.example_list.examples or request.example_list_with_context.examples
    check_rows(len(examples))
    return _with_context(request.example_list_with_context.context, examples)


def _with_context(context: Example, examples: Any) -> np.ndarray:
    if not examples:
        raise invalid_argument("the request has no examples")
    prefix = context.SerializeToString()
    if len(prefix) * len(examples) > MAX_BYTES:
        raise invalid_argument(f"the context, copied into each example, takes more than {MAX_BYTES} bytes")
    # Readers merge concatenated messages.
    return np.array([prefix + example.SerializeToString() for example in examples], object)


def _example(where: str, value: Any) -> Example:
    if not isinstance(value, dict):
        raise invalid_argument(f"{where} is {brief(value)}, not an object")
    example = Example()
    for name, content in value.items():
        _fill(example.features.feature[name], name, content if isinstance(content, list) else [content])
    return example


def _fill(feature: Feature, name: str, elements: list[Any]) -> None:
    for element in elements:
        if isinstance(element, str) or is_bytes(element):
            field, element = "bytes_list", to_bytes(element)
        elif isinstance(element, bool | int):
            field, element = "int64_list", int(element)
        elif isinstance(element, float) and (abs(element) <= _LARGEST or not math.isfinite(element)):
            field = "float_list"
        else:
            raise invalid_argument(f"the feature {name} has {brief(element)}, not a string, an int64 or a float")
        if feature.WhichOneof("kind") not in (None, field):
            raise invalid_argument(f"the feature {name} has values of different types")
        try:
            getattr(feature, field).value.append(element)
        except ValueError:
            raise invalid_argument(f"the feature {name} has {element}, which does not fit into int64") from None

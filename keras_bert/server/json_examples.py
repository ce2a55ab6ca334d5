"""The JSON of classify and regress requests -> serialized tf.Examples."""

from __future__ import annotations

from typing import Any

import numpy as np
from tensorflow.core.example.example_pb2 import Example
from tensorflow.core.example.feature_pb2 import Feature

from keras_bert.server.errors import ServingError, invalid_argument
from keras_bert.server.json_tensors import brief, is_bytes, kind, to_bytes

_KINDS = {"bytes_list": "bytes", "float_list": "float", "int64_list": "int64"}


def to_examples(document: dict[str, Any]) -> list[bytes]:
    """The serialized tf.Examples of a request, each with the features of the context.

    Raises:
        ServingError: they are not well formed.
    """
    context = _example(document["context"]) if "context" in document else b""
    if "examples" not in document:
        raise invalid_argument(
            f"JSON Value: {brief(document)} When method is classify, key 'examples' is expected and was not found"
        )
    examples = document["examples"]
    if not isinstance(examples, list):
        raise invalid_argument(f"JSON Value: {brief(document)} Expecting 'examples' value to be an list/array")
    if not examples:
        raise invalid_argument(f"JSON Value: {brief(document)} 'examples' value is an empty array")
    return [context + _example(example) for example in examples]


def _example(value: Any) -> bytes:
    if not isinstance(value, dict):
        raise invalid_argument(f"Example must be JSON object but got JSON {kind(value)}")
    example = Example()
    for name, content in value.items():
        feature = example.features.feature[name]
        for element in content if isinstance(content, list) else [content]:
            _add(feature, name, element)
    return example.SerializeToString()


def _add(feature: Feature, name: str, element: Any) -> None:
    if isinstance(element, str) or is_bytes(element):
        field, element = "bytes_list", to_bytes(element)
    elif isinstance(element, bool | int):
        field, element = "int64_list", int(element)
    elif isinstance(element, float):
        field = "float_list"
        if np.isfinite(element) and abs(element) > np.finfo(np.float32).max:
            raise invalid_argument(f"Cannot convert JSON value: {brief(element)} to float without loss of precision.")
    else:
        raise invalid_argument(f"Feature: {name} has element with unexpected JSON type: {kind(element)}")
    present = feature.WhichOneof("kind")
    if present not in (None, field):
        raise invalid_argument(f"Unexpected element type in feature: {name} expecting type: {_KINDS[present]}")
    try:
        getattr(feature, field).value.append(element)
    except ValueError:
        raise _too_large(name) from None


def _too_large(name: str) -> ServingError:
    return invalid_argument(f"Feature: {name} has uint64 element. Only int64 is supported.")

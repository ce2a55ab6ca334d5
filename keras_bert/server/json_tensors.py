"""TF Serving's JSON <-> arrays: https://www.tensorflow.org/tfx/serving/api_rest"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.server.errors import ServingError, invalid_argument
from keras_bert.server.signatures import Arrays, Signature, TensorSpec, type_text

# Messages of Python's JSON reader -> those of TF Serving's. Both give the offset.
_SYNTAX_ERRORS = {
    "Expecting value": "Invalid value.",
    "Extra data": "The document root must not be followed by other values.",
    "Expecting ',' delimiter": "Missing a comma or ] after an array element.",
    "Expecting ':' delimiter": "Missing a colon after a name of object member.",
    "Expecting property name enclosed in double quotes": "Missing a name for object member.",
    "Unterminated string starting at": "Missing a closing quotation mark in string.",
    "Invalid control character at": "Invalid encoding in string.",
    "Invalid \\escape": "Invalid escape character in string.",
    "Invalid \\uXXXX escape": "Incorrect hex digit after \\u escape in string.",
}


def parse(body: bytes) -> dict[str, Any]:
    """Parses a request's body, a JSON object.

    Raises:
        ServingError: the body is something else.
    """
    if not body:
        raise invalid_argument("JSON Parse error: The document is empty")
    try:
        document = json.loads(body.decode())
    except UnicodeDecodeError as error:
        raise invalid_argument(f"JSON Parse error: Invalid encoding in string. at offset: {error.start}") from None
    except json.JSONDecodeError as error:
        message = _SYNTAX_ERRORS.get(error.msg, error.msg)
        raise invalid_argument(f"JSON Parse error: {message} at offset: {error.pos}") from None
    except RecursionError:
        raise invalid_argument("JSON Parse error: the document is nested too deep") from None
    if not isinstance(document, dict):
        raise invalid_argument(f"JSON Value: {brief(document)} Is not object")
    return document


def signature_name(document: dict[str, Any]) -> str | None:
    """The signature that a request asks for, if it names one."""
    name = document.get("signature_name")
    if "signature_name" in document and not isinstance(name, str):
        raise invalid_argument(
            f"JSON Value: {brief(document)} not formatted correctly. 'signature_name' key must be a string value."
        )
    return name or None


def to_arrays(document: dict[str, Any], signature: Signature) -> tuple[Arrays, bool]:
    """The inputs of a predict request, and whether they came in rows ("instances") or in columns ("inputs").

    Raises:
        ServingError: they do not match the signature.
    """
    if "instances" in document and "inputs" in document:
        raise invalid_argument(
            f"JSON Value: {brief(document)} Not formatted correctly expecting only one of 'inputs' or 'instances' "
            "keys to exist "
        )
    if "inputs" in document:
        return _columns(document["inputs"], signature.inputs), False
    if "instances" not in document:
        raise invalid_argument("Missing 'inputs' or 'instances' key")
    instances = document["instances"]
    if not isinstance(instances, list):
        raise invalid_argument(f"JSON Value: {brief(document)} Excepting 'instances' to be an list/array")
    if not instances:
        raise invalid_argument(f"JSON Value: {brief(document)} No values in 'instances' array")
    return _rows(instances, signature.inputs), True


def from_arrays(outputs: Arrays, rows: bool) -> bytes:
    """The body of the response, in the format of the request. A single output goes without its name.

    Raises:
        ServingError: rows are asked for, and the outputs differ in their number of rows.
    """
    if not rows:
        texts = {name: _nested(array, name.endswith("_bytes")) for name, array in outputs.items()}
        return f'{{"outputs": {_object(texts) if len(texts) > 1 else next(iter(texts.values()))}}}\n'.encode()
    sizes = set()
    for name, array in outputs.items():
        if not array.ndim:
            raise invalid_argument(f"Tensor name: {name} has no shape information ")
        if sizes and len(array) not in sizes:
            raise invalid_argument(
                f"Tensor name: {name} has inconsistent batch size: {len(array)} expecting: {sizes.pop()}"
            )
        sizes.add(len(array))
    if len(outputs) == 1:
        ((name, array),) = outputs.items()
        return f'{{"predictions": {_nested(array, name.endswith("_bytes"))}}}\n'.encode()
    columns = [
        [_nested(array[row, ...], name.endswith("_bytes")) for row in range(len(array))]
        for name, array in outputs.items()
    ]
    predictions = (_object(dict(zip(outputs, row, strict=True))) for row in zip(*columns, strict=True))
    return f'{{"predictions": [{", ".join(predictions)}]}}\n'.encode()


def brief(value: Any) -> str:
    """The JSON of a value, cut to fit a message."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}..."


def kind(value: Any) -> str:
    """The kind of a JSON value, as TF Serving calls it."""
    names = {type(None): "Null", dict: "Object", list: "Array", str: "String"}
    return str(value) if isinstance(value, bool) else names.get(type(value), "Number")


def is_bytes(value: Any) -> bool:
    """Whether it is a JSON object that stands for bytes: {"b64": "..."}."""
    return isinstance(value, dict) and list(value) == ["b64"] and isinstance(value["b64"], str)


def to_bytes(value: Any) -> bytes:
    """The bytes that a string or an object {"b64": ...} stands for."""
    try:
        return value.encode() if isinstance(value, str) else _decode_base64(value["b64"])
    except UnicodeEncodeError:
        raise invalid_argument("JSON Parse error: The surrogate pair in string is invalid.") from None


def _decode_base64(text: str) -> bytes:
    try:
        # TF Serving takes it without padding too.
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise invalid_argument("Unable to base64 decode") from None


def _columns(value: Any, specs: dict[str, TensorSpec]) -> Arrays:
    if not isinstance(value, dict) or is_bytes(value):
        if len(specs) != 1:
            raise invalid_argument(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
                "tensorinfo_map"
            )
        ((name, spec),) = specs.items()
        return {name: _tensor(value, spec.dtype)}
    for name in specs:
        if name not in value:
            raise invalid_argument(f"Missing named input: {name} in 'inputs' object.")
    return {name: _tensor(value[name], spec.dtype) for name, spec in specs.items()}


def _rows(instances: list[Any], specs: dict[str, TensorSpec]) -> Arrays:
    def is_named(value: Any) -> bool:
        return isinstance(value, dict) and not is_bytes(value)

    if not isinstance(instances[0], dict) and len(specs) != 1:
        raise invalid_argument(
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map"
        )
    named = is_named(instances[0])
    rows: dict[str, list[np.ndarray]] = {name: [] for name in specs}
    for number, instance in enumerate(instances):
        if is_named(instance) != named:
            expected = "object but got list" if named else "value/list but got object"
            raise invalid_argument(f"Expecting {expected} at item {number} of input list")
        for name, value in instance.items() if named else zip(specs, [instance], strict=True):
            try:
                if name not in specs:
                    raise invalid_argument(f"JSON object: does not have named input: {name}")
                row = _tensor(value, specs[name].dtype)
                _check_same_shape(row, rows[name])
            except ServingError as error:
                key = f" key: {name}" if named else ""
                raise invalid_argument(
                    f"Failed to process element: {number}{key} of 'instances' list. "
                    f"Error: {error.code.name}: {error.message}"
                ) from None
            rows[name].append(row)
        if named and instance.keys() != specs.keys():
            raise invalid_argument(
                f"Failed to process element: {number} of 'instances' list. JSON object: {brief(instance)} "
                f"keys must be equal to: {','.join(specs)}"
            )
    return {name: np.stack(arrays) for name, arrays in rows.items()}


def _check_same_shape(row: np.ndarray, others: list[np.ndarray]) -> None:
    if not others or row.shape == others[0].shape:
        return
    if row.size != others[0].size:
        raise invalid_argument(f"Expecting tensor size: {others[0].size} but got: {row.size}")
    shapes = ("[" + ",".join(map(str, shape)) + "]" for shape in (others[0].shape, row.shape))
    raise invalid_argument("Expecting shape {} but got: {}".format(*shapes))


def _tensor(value: Any, dtype: tf.DType) -> np.ndarray:
    """The array of nested lists; strings become bytes objects."""
    shape = []
    first = value
    while isinstance(first, list):
        shape.append(len(first))
        if not first:
            break
        first = first[0]
    leaves = list(_leaves(value, 0, shape))
    return _leaf_array(leaves, dtype).reshape(shape)


def _leaves(value: Any, level: int, shape: list[int]) -> Iterable[Any]:
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid_argument(
                f"JSON Value: {brief(value)} found at incorrect level: {level + 1} in the JSON DOM. "
                f"Expected at level: {len(shape)}"
            )
        return [value]
    if level >= len(shape):
        raise invalid_argument(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise invalid_argument(
            f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: {shape[level]}"
        )
    return itertools.chain.from_iterable(_leaves(item, level + 1, shape) for item in value)


def _leaf_array(leaves: list[Any], dtype: tf.DType) -> np.ndarray:
    accepts: Callable[[Any], bool]
    if dtype == tf.string:
        values = []
        for leaf in leaves:
            if isinstance(leaf, dict) and not is_bytes(leaf):
                raise invalid_argument(f"JSON Value: {brief(leaf)} not formatted correctly for base64 data")
            if not isinstance(leaf, str | dict):
                raise _wrong_type(leaf, dtype)
            values.append(to_bytes(leaf))
        array = np.empty(len(values), object)
        array[:] = values
        return array
    if dtype == tf.bool:
        accepts = lambda leaf: isinstance(leaf, bool)  # noqa: E731
    elif dtype.is_integer:
        accepts = lambda leaf: type(leaf) is int and dtype.min <= leaf <= dtype.max  # noqa: E731
    elif dtype in (tf.float32, tf.float64):
        accepts = lambda leaf: type(leaf) in (int, float)  # noqa: E731
    else:
        raise _unsupported(leaves, dtype)
    for leaf in leaves:
        if not accepts(leaf):
            raise _wrong_type(leaf, dtype)
        if dtype.is_floating and not _fits(leaf, dtype):
            raise invalid_argument(
                f"Cannot convert JSON value: {brief(leaf)} to {type_text(dtype)} without loss of precision."
            )
    return np.array(leaves, dtype.as_numpy_dtype)


def _fits(number: float, dtype: tf.DType) -> bool:
    information = np.finfo(dtype.as_numpy_dtype)
    if isinstance(number, int):
        return abs(number) < 2 ** (information.nmant + 1)
    return not np.isfinite(number) or abs(number) <= information.max


def _wrong_type(value: Any, dtype: tf.DType) -> ServingError:
    return invalid_argument(
        f"JSON Value: {brief(value)} Type: {kind(value)} is not of expected type: {type_text(dtype)}"
    )


def _unsupported(values: list[Any], dtype: tf.DType) -> ServingError:
    import grpc

    value = brief(values[0]) if values else "[]"
    return ServingError(grpc.StatusCode.UNIMPLEMENTED, f"Conversion of JSON Value: {value} to type: {type_text(dtype)}")


def _nested(array: np.ndarray, as_base64: bool) -> str:
    """The JSON of an array."""
    texts = _leaf_texts(array, as_base64)
    for size in reversed(array.shape):
        if size == 0:
            return _empty(array.shape)
        texts = [f"[{', '.join(texts[start : start + size])}]" for start in range(0, len(texts), size)]
    return texts[0]


def _empty(shape: tuple[int, ...]) -> str:
    return json.dumps(np.empty(shape, np.int8).tolist())


def _leaf_texts(array: np.ndarray, as_base64: bool) -> list[str]:
    flat = array.ravel()
    if array.dtype == object:
        if as_base64:
            return [f'{{"b64": "{base64.b64encode(value).decode()}"}}' for value in flat]
        return [json.dumps(value.decode(errors="replace"), ensure_ascii=False) for value in flat]
    if array.dtype.kind in "biu":
        return [json.dumps(value) for value in flat.tolist()]
    # The shortest text that reads back as the same number in the array's dtype: str() of a NumPy number.
    texts = list(map(str, flat))
    if not np.isfinite(flat).all():
        tokens = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
        texts = [tokens.get(text, text) for text in texts]
    return texts


def _object(texts: dict[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in texts.items()) + "}"

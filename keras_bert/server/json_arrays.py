"""JSON <-> arrays."""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import orjson

from keras_bert.engines.runtime import Spec
from keras_bert.server.errors import MAX_BYTES, MAX_JSON_VALUES, invalid_argument, too_large

TOO_LARGE = f"the body is larger than {MAX_BYTES} bytes"


def _unzip(body: bytes) -> bytes:
    decompressor = zlib.decompressobj(wbits=31)  # gzip's format
    try:
        document = decompressor.decompress(body, MAX_BYTES + 1)
    except zlib.error as error:
        raise invalid_argument(f"the body is not in gzip's format: {error}") from None
    if len(document) > MAX_BYTES:
        raise too_large(TOO_LARGE)
    if not decompressor.eof:
        raise invalid_argument("the body ends before its gzip data does")
    return document


def parse_json(body: bytes, encoding: str) -> dict[str, Any]:
    """Parses the body of a request. `encoding` is its header Content-Encoding."""
    if encoding == "gzip":
        body = _unzip(body)
    elif encoding != "identity":
        raise invalid_argument(f"the Content-Encoding is {encoding}; use gzip, or none")
    if sum(body.count(mark) for mark in (b",", b"[", b"{")) > MAX_JSON_VALUES:
        raise invalid_argument(
            f"the body has more than {MAX_JSON_VALUES} commas and opening brackets; send several requests, or use gRPC"
        )
    try:
        document = json.loads(body.decode("utf-8-sig"))  # Windows's clients begin with a byte order mark
    except (ValueError, RecursionError) as error:  # also for bytes that are not UTF-8, and for very long numbers
        raise invalid_argument(f"the body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise invalid_argument(f"the body is {abbreviate(document)}, not a JSON object")
    return document


def abbreviate(value: object) -> str:
    """Abbreviates a JSON value for a message."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def to_bytes(value: str | dict[str, str]) -> bytes:
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise invalid_argument("a string has half of a surrogate pair, \\ud800 to \\udfff") from None
    try:
        digits = value["b64"].rstrip("=")  # TF Serving accepts base64 without padding, too
        return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise invalid_argument(f"not base64: {abbreviate(value['b64'])}") from None


def is_bytes(value: object) -> bool:
    """Checks whether a JSON value is {"b64": "..."}, bytes in base64."""
    return isinstance(value, dict) and list(value) == ["b64"] and isinstance(value["b64"], str)


def to_array(value: object, name: str, spec: Spec) -> np.ndarray:
    """Converts nested lists to the array of an input. Strings become bytes objects."""
    array = np.array(value, object)  # lists of different lengths, or nested too deeply for NumPy, stay lists
    leaves = array.ravel().tolist()
    accepts = _make_check(spec)
    for number, leaf in enumerate(leaves):
        if not accepts(leaf):
            position = "".join(f"[{index}]" for index in np.unravel_index(number, array.shape))
            uneven = "a list of another length or depth than its neighbours"
            found = uneven if isinstance(leaf, list) else abbreviate(leaf)
            raise invalid_argument(f"{name}{position} is {found}; the input takes {spec.type_name}")
    if spec.dtype.kind == "O":
        leaves = [to_bytes(leaf) for leaf in leaves]
    return np.array(leaves, spec.dtype).reshape(array.shape)


def _make_check(spec: Spec) -> Callable[[object], bool]:
    """Makes a function that checks whether a JSON value fits the type without loss."""
    dtype = spec.dtype
    if dtype.kind == "O":
        return lambda leaf: isinstance(leaf, str) or is_bytes(leaf)
    if dtype.kind == "b":
        return lambda leaf: isinstance(leaf, bool)
    if dtype.kind in "iu":
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        return lambda leaf: type(leaf) is int and least <= leaf <= most
    if dtype in (np.float32, np.float64):
        largest, digits = float(np.finfo(dtype).max), np.finfo(dtype).nmant + 1
        return lambda leaf: (
            abs(leaf) < 2**digits
            if type(leaf) is int
            else type(leaf) is float and (abs(leaf) <= largest or not math.isfinite(leaf))
        )
    raise invalid_argument(f"JSON cannot hold {spec.type_name}; use gRPC")


def to_lists(array: np.ndarray, as_base64: bool = False) -> Any:
    """Converts an array to what `to_body` writes: bytes become str or {"b64": "..."}, floats get few digits."""
    if array.dtype.kind in "biu":
        return array.tolist()
    if array.dtype == np.float32 and np.isfinite(array).all():
        return np.ascontiguousarray(array) if array.ndim else array[()]
    if array.dtype != object:
        values = (array if array.dtype == np.float64 else array.astype(str)).astype(float).astype(object)
        special = ~np.isfinite(values.astype(float))
        values[special] = [orjson.Fragment(json.dumps(value)) for value in values[special]]  # NaN, else null
        return values.tolist()
    if as_base64:
        values = [{"b64": base64.b64encode(value).decode()} for value in array.flat]
    else:
        values = [value.decode(errors="replace") for value in array.flat]
    return np.array(values, object).reshape(array.shape).tolist()


def to_body(document: Mapping[str, object], indent: bool = False) -> bytes:
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if indent else 0)
    try:
        return orjson.dumps(document, option=options)
    except orjson.JSONEncodeError:  # an integer of more than 64 bits, or half of a surrogate pair, of the client's
        text = json.dumps(document, ensure_ascii=False, default=lambda value: value.tolist())
        return text.encode(errors="replace") + b"\n"

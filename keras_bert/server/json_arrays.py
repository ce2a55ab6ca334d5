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

from keras_bert.engines.signature import Spec
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
            description = (
                "a list of another length or depth than its neighbours" if isinstance(leaf, list) else abbreviate(leaf)
            )
            raise invalid_argument(f"{name}{position} is {description}; the input takes {spec.type_name}")
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
    """Converts an array to nested lists for JSON: bytes become str or {"b64": "..."}, floats get few digits."""
    if array.dtype.kind in "biu" or array.dtype == np.float64:
        return array.tolist()
    if array.dtype != object:
        return _shorten(array).tolist()
    if as_base64:
        values = [{"b64": base64.b64encode(value).decode()} for value in array.flat]
    else:
        values = [value.decode(errors="replace") for value in array.flat]
    return np.array(values, object).reshape(array.shape).tolist()


def _shorten(array: np.ndarray) -> np.ndarray:
    """Finds the float64 with the fewest digits that read back as the same float: 0.1 for a float32 of 0.1."""
    with np.errstate(all="ignore"):  # zeros, infinities and NaN become NaN below, never equal, and stay as they are
        shortest = exact = array.astype(np.float64)
        exponents = np.floor(np.log10(np.abs(exact)))
        for digits in range(9, 0, -1):  # 9 are enough for float32
            places = digits - 1 - exponents
            scale = 10.0 ** np.abs(places)  # negative powers of ten would not be exact
            rounded = np.where(places < 0, np.rint(exact / scale) * scale, np.rint(exact * scale) / scale)
            is_equal = rounded.astype(array.dtype) == array
            if not is_equal.any():
                break  # with fewer digits none would be the same
            shortest = np.where(is_equal, rounded, shortest)
    return shortest


def to_body(document: Mapping[str, object], indent: int | None = None) -> bytes:
    return json.dumps(document, ensure_ascii=False, indent=indent).encode(errors="replace") + b"\n"

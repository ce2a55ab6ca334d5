"""TF Serving's REST interface: https://www.tensorflow.org/tfx/serving/api_rest"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
import math
import re
import time
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import unquote

import grpc
import numpy as np
import tensorflow as tf
from aiohttp import web
from google.protobuf import json_format
from google.protobuf.message import Message
from tensorflow_serving.apis.get_model_metadata_pb2 import SignatureDefMap
from tensorflow_serving.apis.model_pb2 import ModelSpec

from keras_bert.server.errors import MAX_BYTES, MAX_JSON_VALUES, ServingError, invalid_argument, not_found
from keras_bert.server.model import Arrays, Model, Signature, TensorSpec, check_rows
from keras_bert.server.predicting import Predictor, within
from keras_bert.server.versions import SIGNATURES, Versions

T = TypeVar("T")

_log = logging.getLogger(__name__)

_VERSION = r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_URLS = {
    "POST": re.compile(rf"/v1/models/(?P<model>[^/:]+){_VERSION}:(?P<verb>classify|regress|predict)", re.IGNORECASE),
    "GET": re.compile(rf"/v1/models/(?P<model>[^/:]+){_VERSION}(?:/(?P<verb>metadata))?", re.IGNORECASE),
}

_HTTP_STATUS = {
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.UNAUTHENTICATED: 401,
}  # all others: 500

# Bodies up to this many bytes, and answers up to this many elements, take only milliseconds, so they need no thread.
_MAX_WITHOUT_THREAD = 2**13


class RestService:
    """Answers TF Serving's URLs, each within `timeout` seconds after the headers of its request."""

    def __init__(self, versions: Versions, predictor: Predictor, timeout: float) -> None:
        self._versions = versions
        self._predictor = predictor
        self._timeout = timeout
        # One thread only, so that parsing large bodies takes at most half of Python's time.
        self._thread = ThreadPoolExecutor(1, "json")

    async def handle(self, request: web.Request) -> web.Response:
        # Without a write buffer, a finished response is a sent one, which is not lost if the process ends.
        if request.transport is not None:
            request.transport.set_write_buffer_limits(0)
        try:
            with self._predictor.admitted():
                deadline = time.monotonic() + self._timeout
                return _json(await within(self._timeout, self._answer(request, deadline)))
        except ServingError as error:
            return _error(_HTTP_STATUS.get(error.code, 500), error.message)
        except web.HTTPRequestEntityTooLarge:
            return _error(413, f"the body is larger than {MAX_BYTES} bytes")
        except web.RequestPayloadError as error:
            return _error(400, f"the body cannot be read: {error}")
        except Exception as error:
            _log.exception("%s %s failed", request.method, request.path)
            return _error(500, f"{type(error).__name__}: {error}")

    async def _answer(self, request: web.Request, deadline: float) -> bytes:
        path = request.raw_path
        match = _URLS[request.method].fullmatch(path) if request.method in _URLS else None
        if match is None:
            error = invalid_argument if path.lower().startswith("/v1/") else not_found
            raise error(f"no such URL: {request.method} {path}")
        spec, verb = _model_spec(match), (match["verb"] or "").lower()
        if verb == "metadata":
            return self._metadata(spec)
        if not verb:
            return _to_body(_to_dict(self._versions.status(spec)), indent=1)
        if verb != "predict":
            raise ServingError(
                grpc.StatusCode.UNIMPLEMENTED, f"this server answers :predict; use TF Serving for :{verb}"
            )
        body = await request.read()
        encoding = request.headers.get("Content-Encoding", "identity").lower()
        size = len(body) if encoding == "identity" else MAX_BYTES
        with self._versions.lease(spec) as version:
            model = version.model
            signature, inputs, in_rows = await self._call(size, _parse, model, body, encoding)
            outputs = await self._predictor.predict(model, signature, inputs, deadline - time.monotonic())
            elements = sum(array.size for array in outputs.values())
            return await self._call(elements, _to_json, outputs, in_rows)

    async def _call(self, size: int, function: Callable[..., T], *arguments: object) -> T:
        if size <= _MAX_WITHOUT_THREAD:
            return function(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def _metadata(self, spec: ModelSpec) -> bytes:
        response = self._versions.metadata(spec, [SIGNATURES])
        signatures = SignatureDefMap()
        response.metadata[SIGNATURES].Unpack(signatures)
        metadata = {SIGNATURES: _to_dict(signatures)}
        return _to_body({"model_spec": _to_dict(response.model_spec), "metadata": metadata}, indent=1)


def new_runner(service: RestService, drain_seconds: float) -> web.AppRunner:
    """Makes an HTTP server, which is not started. When it stops, it waits up to `drain_seconds` for answers."""
    application = web.Application(client_max_size=MAX_BYTES)
    application.router.add_route("*", "/{path:.*}", service.handle)
    # No auto_decompress, because aiohttp would continue to decompress a refused body.
    return web.AppRunner(application, access_log=None, shutdown_timeout=drain_seconds, auto_decompress=False)


def _model_spec(match: re.Match[str]) -> ModelSpec:
    try:
        spec = ModelSpec(name=unquote(match["model"]))
        if match["label"]:
            spec.version_label = unquote(match["label"])
        if match["version"]:
            spec.version.value = int(match["version"])
    except ValueError:  # not UTF-8, or larger than int64
        raise invalid_argument(f"not a model and its version: {match[0]}") from None
    return spec


def _parse(model: Model, body: bytes, encoding: str) -> tuple[Signature, Arrays, bool]:
    """Parses a request: its signature, its inputs, and whether they are in rows ("instances") or columns ("inputs")."""
    if encoding == "gzip":
        body = _unzip(body)
    elif encoding != "identity":
        raise invalid_argument(f"the Content-Encoding is {encoding}; use gzip, or none")
    document = _parse_json(body)
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid_argument(f"signature_name is {_abbreviate(name)}, not a string")
    signature = model.signature(name)
    in_rows = "instances" in document
    if in_rows == ("inputs" in document):
        raise invalid_argument('a request has either "instances" or "inputs"')
    columns = _columns(document["instances"], signature) if in_rows else document["inputs"]
    return signature, _to_arrays(columns, signature), in_rows


def _unzip(body: bytes) -> bytes:
    decompressor = zlib.decompressobj(wbits=31)  # gzip's format
    try:
        document = decompressor.decompress(body, MAX_BYTES + 1)
    except zlib.error as error:
        raise invalid_argument(f"the body is not in gzip's format: {error}") from None
    if len(document) > MAX_BYTES:
        raise web.HTTPRequestEntityTooLarge(MAX_BYTES, len(document))
    if not decompressor.eof:
        raise invalid_argument("the body ends before its gzip data does")
    return document


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _error(status: int, message: str) -> web.Response:
    return _json(_to_body({"error": message}), status)


def _to_dict(message: Message) -> dict[str, Any]:
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


# -- JSON <-> arrays.


def _parse_json(body: bytes) -> dict[str, Any]:
    if sum(body.count(mark) for mark in (b",", b"[", b"{")) > MAX_JSON_VALUES:
        raise invalid_argument(
            f"the body has more than {MAX_JSON_VALUES} commas and opening brackets; send several requests, or use gRPC"
        )
    try:
        document = json.loads(body.decode())
    except (ValueError, RecursionError) as error:  # also for bytes that are not UTF-8, and for very long numbers
        raise invalid_argument(f"the body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise invalid_argument(f"the body is {_abbreviate(document)}, not a JSON object")
    return document


def _to_arrays(columns: Any, signature: Signature) -> Arrays:
    """Converts columns to arrays. They have names, unless the signature has only one input."""
    if not _is_named(columns):
        if len(signature.inputs) != 1:
            names = ", ".join(signature.inputs)
            raise invalid_argument(
                f"the signature {signature.name} has several inputs: give objects with the keys {names}"
            )
        columns = dict.fromkeys(signature.inputs, columns)
    if missing := [name for name in signature.inputs if name not in columns]:
        raise invalid_argument(f'"inputs" lacks {", ".join(missing)}')
    return {name: _array(columns[name], name, spec) for name, spec in signature.inputs.items()}


def _is_bytes(value: object) -> bool:
    """Checks whether a JSON value is {"b64": "..."}, bytes in base64."""
    return isinstance(value, dict) and list(value) == ["b64"] and isinstance(value["b64"], str)


def _to_bytes(value: str | dict[str, str]) -> bytes:
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise invalid_argument("a string has half of a surrogate pair, \\ud800 to \\udfff") from None
    try:
        digits = value["b64"].rstrip("=")  # TF Serving accepts base64 without padding, too
        return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise invalid_argument(f"not base64: {_abbreviate(value['b64'])}") from None


def _abbreviate(value: object) -> str:
    """Abbreviates a JSON value for a message."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _to_json(outputs: Arrays, in_rows: bool) -> bytes:
    """Writes the body of a response, in rows or in columns, as in the request. A single output has no name."""
    sizes = {array.shape[:1] for array in outputs.values()}
    if in_rows and (len(sizes) > 1 or () in sizes):
        shapes = ", ".join(f"{name} {array.shape}" for name, array in outputs.items())
        raise invalid_argument(f'the outputs cannot be split into rows: {shapes}; ask with "inputs"')
    columns = {name: to_lists(array, name.endswith("_bytes")) for name, array in outputs.items()}
    if len(columns) == 1:
        (answer,) = columns.values()
    elif in_rows:
        answer = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    else:
        answer = columns
    return _to_body({"predictions" if in_rows else "outputs": answer})


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


def _to_body(document: Mapping[str, object], indent: int | None = None) -> bytes:
    return json.dumps(document, ensure_ascii=False, indent=indent).encode(errors="replace") + b"\n"


def _columns(rows: object, signature: Signature) -> dict[str, list[object]] | list[object]:
    """Turns rows with names into columns with names. Rows without names are the only column, and stay as they are."""
    if not isinstance(rows, list) or not rows:
        raise invalid_argument('"instances" is not a list of at least one row')
    check_rows(len(rows))
    if not _is_named(rows[0]):
        return rows
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or row.keys() != signature.inputs.keys():
            names = ", ".join(signature.inputs)
            raise invalid_argument(f"instances[{number}] is not an object with exactly the keys {names}")
    return {name: [row[name] for row in rows] for name in signature.inputs}


def _is_named(value: object) -> bool:
    return isinstance(value, dict) and not _is_bytes(value)


def _array(value: object, name: str, spec: TensorSpec) -> np.ndarray:
    """Converts nested lists to the array of an input. Strings become bytes objects."""
    array = np.array(value, object)  # lists of different lengths, or nested too deeply for NumPy, stay lists
    leaves = array.ravel().tolist()
    accepts = _make_check(spec.dtype)
    for number, leaf in enumerate(leaves):
        if not accepts(leaf):
            position = "".join(f"[{index}]" for index in np.unravel_index(number, array.shape))
            description = (
                "a list of another length or depth than its neighbours" if isinstance(leaf, list) else _abbreviate(leaf)
            )
            raise invalid_argument(f"{name}{position} is {description}; the input takes {spec.dtype.name}")
    if spec.dtype == tf.string:
        leaves = [_to_bytes(leaf) for leaf in leaves]
    return np.array(leaves, spec.dtype.as_numpy_dtype).reshape(array.shape)


def _make_check(dtype: tf.DType) -> Callable[[object], bool]:
    """Makes a function that checks whether a JSON value fits the type without loss."""
    if dtype == tf.string:
        return lambda leaf: isinstance(leaf, str) or _is_bytes(leaf)
    if dtype == tf.bool:
        return lambda leaf: isinstance(leaf, bool)
    if dtype.is_integer:
        least, most = dtype.min, dtype.max
        return lambda leaf: type(leaf) is int and least <= leaf <= most
    if dtype in (tf.float32, tf.float64):
        largest, digits = float(dtype.max), np.finfo(dtype.as_numpy_dtype).nmant + 1
        return lambda leaf: (
            abs(leaf) < 2**digits
            if type(leaf) is int
            else type(leaf) is float and (abs(leaf) <= largest or not math.isfinite(leaf))
        )
    raise invalid_argument(f"JSON cannot hold {dtype.name}; use gRPC")

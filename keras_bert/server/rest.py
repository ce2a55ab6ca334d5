"""TF Serving's REST interface."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import unquote

import grpc
from aiohttp import web
from google.protobuf import json_format
from google.protobuf.message import Message
from tensorflow_serving.apis.get_model_metadata_pb2 import SignatureDefMap
from tensorflow_serving.apis.model_pb2 import ModelSpec

from keras_bert.server import json_tensors
from keras_bert.server.errors import MAX_BYTES, ServingError, invalid_argument, not_found
from keras_bert.server.predicting import Predictor, within
from keras_bert.server.served_model import Model
from keras_bert.server.signatures import Arrays, Signature
from keras_bert.server.versions import SIGNATURES, Versions

T = TypeVar("T")

_log = logging.getLogger(__name__)

_WHICH = r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_URLS = {
    "POST": re.compile(rf"/v1/models/(?P<model>[^/:]+){_WHICH}:(?P<verb>classify|regress|predict)", re.IGNORECASE),
    "GET": re.compile(rf"/v1/models/(?P<model>[^/:]+){_WHICH}(?:/(?P<verb>metadata))?", re.IGNORECASE),
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

# Bodies up to this many bytes, and answers up to this many elements, take a few milliseconds: they need no thread.
_LITTLE = 2**13


class RestService:
    """Answers TF Serving's URLs. `timeout`: the time limit in seconds, from a request's headers to its answer."""

    def __init__(self, versions: Versions, predictor: Predictor, timeout: float) -> None:
        self._versions = versions
        self._predictor = predictor
        self._timeout = timeout
        # Only one thread, so that large bodies take at most half of Python's time.
        self._thread = ThreadPoolExecutor(1, "json")

    async def handle(self, request: web.Request) -> web.Response:
        # Without a write buffer, a finished response has been sent, and is not lost if the process ends.
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
            return json_tensors.dump(_dictionary(self._versions.status(spec)), indent=1)
        if verb != "predict":
            raise ServingError(
                grpc.StatusCode.UNIMPLEMENTED, f"this server answers :predict; use TF Serving for :{verb}"
            )
        body = await request.read()
        encoding = request.headers.get("Content-Encoding", "identity").lower()
        with self._versions.lease(spec) as version:
            return await self._compute(version.model, body, encoding, deadline)

    async def _compute(self, model: Model, body: bytes, encoding: str, deadline: float) -> bytes:
        size = len(body) if encoding == "identity" else MAX_BYTES
        signature, inputs, in_rows = await self._call(size, _parse, model, body, encoding)
        outputs = await self._predictor.predict(model, signature, inputs, deadline - time.monotonic())
        return await self._call(_size(outputs), json_tensors.from_arrays, outputs, in_rows)

    async def _call(self, size: int, function: Callable[..., T], *arguments: Any) -> T:
        if size <= _LITTLE:
            return function(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def _metadata(self, spec: ModelSpec) -> bytes:
        response = self._versions.metadata(spec, [SIGNATURES])
        signatures = SignatureDefMap()
        response.metadata[SIGNATURES].Unpack(signatures)
        metadata = {SIGNATURES: _dictionary(signatures)}
        return json_tensors.dump({"model_spec": _dictionary(response.model_spec), "metadata": metadata}, indent=1)


def new_runner(service: RestService, drain_seconds: float) -> web.AppRunner:
    """An HTTP server, not yet started. When it is stopped, it waits up to `drain_seconds` for answers."""
    application = web.Application(client_max_size=MAX_BYTES)
    application.router.add_route("*", "/{path:.*}", service.handle)
    # No auto_decompress: aiohttp would go on to decompress a refused body.
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
    """Parses a request: its signature, its inputs, and whether the inputs are in rows."""
    if encoding == "gzip":
        body = _unzipped(body)
    elif encoding != "identity":
        raise invalid_argument(f"the Content-Encoding is {encoding}; use gzip, or none")
    document = json_tensors.parse(body)
    signature = model.signature(json_tensors.signature_name(document))
    return signature, *json_tensors.to_arrays(document, signature)


def _unzipped(body: bytes) -> bytes:
    unzip = zlib.decompressobj(wbits=31)  # gzip's format
    try:
        document = unzip.decompress(body, MAX_BYTES + 1)
    except zlib.error as error:
        raise invalid_argument(f"the body is not in gzip's format: {error}") from None
    if len(document) > MAX_BYTES:
        raise web.HTTPRequestEntityTooLarge(MAX_BYTES, len(document))
    if not unzip.eof:
        raise invalid_argument("the body ends before its gzip data does")
    return document


def _size(outputs: Arrays) -> int:
    return sum(array.size for array in outputs.values())


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _error(status: int, message: str) -> web.Response:
    return _json(json_tensors.dump({"error": message}), status)


def _dictionary(message: Message) -> dict[str, Any]:
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )

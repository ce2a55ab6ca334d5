"""TF Serving's REST interface."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

import grpc
import numpy as np
from aiohttp import web
from google.protobuf import json_format
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from keras_bert.server import json_tensors, model_info
from keras_bert.server.errors import ServingError, invalid_argument
from keras_bert.server.json_examples import to_examples
from keras_bert.server.predicting import Predictor, example_signature
from keras_bert.server.signatures import CLASSIFY, DEFAULT, REGRESS
from keras_bert.server.versions import Versions

_log = logging.getLogger(__name__)

_WHICH = r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_POST = re.compile(rf"/v1/models/(?P<model>[^/:]+){_WHICH}:(?P<verb>classify|regress|predict)", re.IGNORECASE)
_GET = re.compile(rf"/v1/models(?:/(?P<model>[^/:]+))?{_WHICH}(?:/(?P<verb>metadata))?", re.IGNORECASE)

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


class RestService:
    """Answers TF Serving's URLs.

    Args:
        versions: the model's versions.
        predictor: answers requests.
        timeout: seconds within which a request's body must arrive.
    """

    def __init__(self, versions: Versions, predictor: Predictor, timeout: float) -> None:
        self._versions = versions
        self._predictor = predictor
        self._timeout = timeout
        self._reading = 0  # bodies on their way
        self._stopping = False

    async def stop(self) -> None:
        """Refuses requests from now on, and waits for the bodies on their way: aiohttp drops them when it stops."""
        self._stopping = True
        while self._reading:
            await asyncio.sleep(0.01)

    async def handle(self, request: web.Request) -> web.Response:
        # With no write buffer, a finished response has been sent: ending the process right after loses nothing.
        if request.transport is not None:
            request.transport.set_write_buffer_limits(0)
        if self._stopping:
            return _error(503, "The server is stopping")
        try:
            self._reading += 1
            try:
                body = await asyncio.wait_for(request.read(), self._timeout)
            finally:
                self._reading -= 1
            return _json(await self._answer(request.method, request.raw_path, body))
        except ServingError as error:
            return _error(_HTTP_STATUS.get(error.code, 500), error.message)
        except web.HTTPRequestEntityTooLarge as error:
            return _error(413, error.text or "Request Entity Too Large")
        except web.RequestPayloadError as error:
            return _error(400, f"The body cannot be read: {error}")
        except (asyncio.TimeoutError, TimeoutError):  # the same class since Python 3.11
            return _error(504, f"The body has not arrived within {self._timeout:.3g} seconds")
        except Exception as error:
            _log.exception("%s %s failed", request.method, request.path)
            return _error(500, f"{type(error).__name__}: {error}")

    async def _answer(self, method: str, path: str, body: bytes) -> bytes:
        pattern = {"POST": _POST, "GET": _GET}.get(method)
        match = pattern.fullmatch(path) if pattern else None
        if not path.lower().startswith("/v1/"):
            raise ServingError(grpc.StatusCode.NOT_FOUND, f"Not found: {path}")
        if match is None:
            raise invalid_argument(f"Malformed request: {method} {path}")
        model, label = (unquote(match[group]) if match[group] else None for group in ("model", "label"))
        version = int(match["version"]) if match["version"] else None
        if version is not None and version >= 2**63:
            raise invalid_argument(f"Failed to convert version: {version} to numeric.")
        if method == "GET":
            if model is None:
                raise invalid_argument("Missing model name in request.")
            if match["verb"]:
                return self._metadata(model, version, label)
            return self._status(model, version)
        with self._versions.lease(model, version, label) as leased:
            return await self._compute(leased.model, match["verb"].lower(), body)

    async def _compute(self, model: Any, verb: str, body: bytes) -> bytes:
        document = json_tensors.parse(body)
        name = json_tensors.signature_name(document) or DEFAULT
        if verb == "classify":
            examples = to_examples(document)
            rows = await self._predictor.classify(model, example_signature(model, name, CLASSIFY), examples)
            return _results(
                _array(_array([json.dumps(label.decode(errors="replace")), _decimal(score)]) for label, score in row)
                for row in rows
            )
        if verb == "regress":
            examples = to_examples(document)
            values = await self._predictor.regress(model, example_signature(model, name, REGRESS), examples)
            return _results(map(_decimal, values))
        signature = model.signatures.get(name)
        if signature is None:
            raise invalid_argument(f'Serving signature name: "{name}" not found in signature def')
        inputs, in_rows = json_tensors.to_arrays(document, signature)
        return json_tensors.from_arrays(await self._predictor.predict(model, signature, inputs), in_rows)

    def _metadata(self, model: str, version: int | None, label: str | None) -> bytes:
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        _name(request.model_spec, model, version)
        if label is not None:
            request.model_spec.version_label = label
        response = model_info.metadata(self._versions, request)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(signatures)
        document = {
            "model_spec": _dictionary(response.model_spec),
            "metadata": {"signature_def": _dictionary(signatures)},
        }
        return json.dumps(document, indent=1).encode() + b"\n"

    def _status(self, model: str, version: int | None) -> bytes:
        request = get_model_status_pb2.GetModelStatusRequest()
        _name(request.model_spec, model, version)
        return json.dumps(_dictionary(model_info.status(self._versions, request)), indent=1).encode() + b"\n"


def new_runner(service: RestService, max_bytes: int, drain_seconds: float) -> web.AppRunner:
    """An HTTP server of a service, not yet started.

    Args:
        service: answers requests.
        max_bytes: the maximum size of a request, after decompression if it is gzipped.
        drain_seconds: how long to wait for answers when the server is stopped.
    """
    application = web.Application(client_max_size=max_bytes)
    application.router.add_route("*", "/{path:.*}", service.handle)
    return web.AppRunner(application, access_log=None, shutdown_timeout=drain_seconds)


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _error(status: int, message: str) -> web.Response:
    return _json(json.dumps({"error": message}, ensure_ascii=False).encode(errors="replace") + b"\n", status)


def _array(texts: Iterable[str]) -> str:
    return f"[{', '.join(texts)}]"


def _results(texts: Iterable[str]) -> bytes:
    return f'{{"results": {_array(texts)}}}\n'.encode()


def _decimal(value: float) -> str:
    text = str(np.float32(value))
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text)


def _name(spec: Any, model: str, version: int | None) -> None:
    spec.name = model
    if version is not None:
        spec.version.value = version


def _dictionary(message: Any) -> dict[str, Any]:
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )

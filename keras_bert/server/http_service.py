"""The HTTP server: TF Serving's REST, vector clients, text-embeddings-inference, health and metrics."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from keras_bert.server import errors, rest, text_embeddings, vector_clients
from keras_bert.server.connections import Connections
from keras_bert.server.json_arrays import TOO_LARGE, parse_json, to_body
from keras_bert.server.predicting import Answer, Predictor
from keras_bert.server.requests import Requests
from keras_bert.server.versions import Models

T = TypeVar("T")

_log = logging.getLogger(__name__)

# Bodies up to this many bytes, and answers up to this many elements, take only milliseconds, so they need no thread.
_MAX_WITHOUT_THREAD = 2**13


class _Route(NamedTuple):
    """What answers requests to a URL."""

    http_method: str
    url: str  # a regular expression, of any case
    answer: Callable[[Models, re.Match[str], dict[str, Any]], Answer]  # its name is in metrics and in the log
    protocol: ModuleType  # has the form of errors
    example: str  # of its URLs, for the error about any other; "": another route has it
    field: str | None = None  # that requests for it have


_TEI, _TEI_ANSWERS = text_embeddings.BASE_URL, text_embeddings.ANSWERS
_ROUTES = (
    _Route(
        "POST", rf"{rest.MODEL_URL}:(?P<verb>classify|regress|predict)", rest.predict, rest, "/v1/models/NAME:predict"
    ),
    _Route("GET", rest.MODEL_URL, rest.status, rest, "/v1/models/NAME"),
    _Route("GET", f"{rest.MODEL_URL}/metadata", rest.metadata, rest, "/v1/models/NAME/metadata"),
    _Route("GET", "/v1/models|/openai(/v1)?/models", vector_clients.models, vector_clients, "/v1/models"),
    _Route("POST", vector_clients.EMBEDDINGS_URL, vector_clients.embeddings, vector_clients, "/v1/embeddings"),
    _Route("POST", f"{_TEI}/rerank", vector_clients.rerank, text_embeddings, "", "texts"),
    _Route("POST", "(/v[12])?/rerank", vector_clients.rerank, vector_clients, "/v1/rerank"),
    *(_Route("POST", f"{_TEI}/{name}", each, text_embeddings, f"/{name}") for name, each in _TEI_ANSWERS.items()),
    _Route("GET", f"{_TEI}/info", text_embeddings.info, text_embeddings, "/info"),
    _Route("POST", _TEI, text_embeddings.task, text_embeddings, "/"),
)
# TF Serving's URLs, of which not all are answered; those of others have OpenAI's form of errors.
_TF_SERVING = "/v1/models/[^/:]+(:|/versions/|/labels/|/metadata).*"


def _find_route(http: web.Request, document: dict[str, Any]) -> tuple[_Route, re.Match[str]] | None:
    """Finds what answers a URL, with or without a query string, which says nothing here, and a slash at the end."""
    method = "GET" if http.method == "HEAD" else http.method
    fallback = None
    for route in _ROUTES:
        if method == route.http_method and (match := re.fullmatch(route.url, _path(http), re.IGNORECASE)):
            if route.field is None or route.field in document:
                return route, match
            fallback = route, match
    return fallback


def _path(http: web.Request) -> str:
    return http.rel_url.raw_path.rstrip("/")


def _is_tf_servings(http: web.Request) -> bool:
    return re.fullmatch(_TF_SERVING, _path(http), re.IGNORECASE) is not None


class HttpService:
    """Answers each request within its time limit."""

    def __init__(self, models: Models, predictor: Predictor, requests: Requests, connections: Connections) -> None:
        self._models = models
        self._predictor = predictor
        self._requests = requests
        self._connections = connections
        # One thread only, so that parsing large bodies takes at most half of Python's time.
        self._thread = ThreadPoolExecutor(1, "json")

    @web.middleware
    async def respond(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        with self._connections.busy(request.protocol):
            response = await handler(request)
            if self._requests.is_stopping:
                response.force_close()
            return await self._connections.send(request, response)

    async def health(self, http: web.Request) -> web.Response:
        is_stopping = self._requests.is_stopping
        return web.Response(status=503 if is_stopping else 200, text="stopping" if is_stopping else "serving")

    async def metrics(self, http: web.Request) -> web.Response:
        try:
            self._requests.check_key(http.headers.get("Authorization", ""))
        except errors.ServingError as error:
            return web.Response(status=401, text=error.message, headers={"WWW-Authenticate": "Bearer"})
        body, content_type = self._requests.metrics(http.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def handle(self, http: web.Request) -> web.Response:
        found = _find_route(http, {})
        routes = [found[0]] if found else []  # `_answer` adds the one that the document decides
        try:
            name = routes[0].answer.__name__ if routes else "unknown"
            return await self._requests.answer("http", name, lambda: self._answer(http, routes))
        except errors.ServingError as failure:
            error = failure
        except Exception as failure:
            _log.exception("%s %s failed", http.method, http.path)
            error = errors.internal_error(failure)
        protocol = routes[-1].protocol if routes else rest if _is_tf_servings(http) else vector_clients
        own_codes = getattr(protocol, "HTTP_STATUS", {})
        http_status = error.http_status or own_codes.get(error.code, error.code.http_status)
        headers = {"WWW-Authenticate": "Bearer"} if http_status == 401 else None
        return _json(to_body(protocol.error_document(error, http_status)), http_status, headers)

    async def _answer(self, http: web.Request, routes: list[_Route]) -> web.Response:
        self._requests.check_key(http.headers.get("Authorization", ""), http.headers.get("api-key", ""))
        if not routes:
            message = f"no such URL: {http.method} {http.rel_url.raw_path:.200}"
            if _is_tf_servings(http):
                raise errors.invalid_argument(message)
            urls = ", ".join(f"{each.http_method} {each.example}" for each in _ROUTES if each.example)
            raise errors.not_found(f"{message}; there are {urls}")
        size, document = await self._read(http) if http.method == "POST" else (0, {})
        found = _find_route(http, document)  # requests to a URL may have two forms
        assert found is not None
        route, match = found
        routes.append(route)
        answer = route.answer(self._models, match, document)
        if isinstance(answer, dict):
            return _json(to_body(answer, indent=True))
        spec, parse = answer
        with self._models.find(spec.name).lease(spec) as version:
            size = errors.MAX_BYTES if route.protocol is text_embeddings else size  # it may read a tokenizer
            signature, inputs, to_document = await self._call(size, parse, version.model, document)
            outputs = await self._predictor.predict(version.model, signature, inputs) if signature else {}
            elements = sum(array.size for array in outputs.values()) if signature else errors.MAX_BYTES
            return _json(await self._call(elements, lambda: to_body(to_document(outputs))))

    async def _read(self, http: web.Request) -> tuple[int, dict[str, Any]]:
        """Reads a JSON object, and the number of bytes that it may have."""
        try:
            body = await (http.read() if http.content.is_eof() else self._requests.arrived(http.read()))
        except web.HTTPRequestEntityTooLarge:
            raise errors.too_large(TOO_LARGE) from None
        except web.RequestPayloadError as error:
            raise errors.invalid_argument(f"the body cannot be read: {error}") from None
        except OSError:
            raise errors.ServingError(errors.Code.CANCELLED, "the client left before its body arrived") from None
        encoding = http.headers.get("Content-Encoding", "identity").lower()
        size = len(body) if encoding == "identity" else errors.MAX_BYTES
        return size, await self._call(size, parse_json, body, encoding)

    async def _call(self, size: int, function: Callable[..., T], *arguments: object) -> T:
        if size <= _MAX_WITHOUT_THREAD:
            return function(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)


def _json(body: bytes, http_status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=body, status=http_status, content_type="application/json", headers=headers)


async def _expect(http: web.Request) -> None:
    """Answers the header Expect, as aiohttp does, but for one that is not UTF-8, too."""
    if http.headers.get("Expect", "").lower() != "100-continue":
        raise web.HTTPExpectationFailed(text="the header Expect may be 100-continue")
    await http.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    http.writer.output_size = 0


def _is_no_clients_fault(record: logging.LogRecord) -> bool:
    """Checks whether what aiohttp logs is another error than bytes that are not HTTP, which are answered with 400."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def new_runner(service: HttpService) -> web.AppRunner:
    """Makes an HTTP server, which is not started. When it stops, answers have been sent, or were waited for."""
    application = web.Application(client_max_size=errors.MAX_BYTES, middlewares=[service.respond])
    logging.getLogger("aiohttp.server").addFilter(_is_no_clients_fault)
    application.router.add_get("/health{slash:/?}", service.health, expect_handler=_expect)
    for url in ("/metrics", "/monitoring/prometheus/metrics"):
        application.router.add_get(url + "{slash:/?}", service.metrics, expect_handler=_expect)
    application.router.add_route("*", "/{path:.*}", service.handle, expect_handler=_expect)
    # No auto_decompress, because aiohttp would continue to decompress a refused body.
    return web.AppRunner(application, access_log=None, shutdown_timeout=1, auto_decompress=False)

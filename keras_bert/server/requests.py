"""Requests in progress: their time limit, what Prometheus and the log are told of them, and the wait for their end."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily

from keras_bert.server.errors import Code, ServingError
from keras_bert.server.versions import Models

T = TypeVar("T")

_log = logging.getLogger(__name__)

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)  # bounds of a histogram
_SECONDS_TO_ARRIVE = 5  # of a body whose request was accepted before the server stopped
_LABELS = ("protocol", "method", "model")


@dataclass
class Request:
    """A request in progress."""

    deadline: float  # by the clock of time.monotonic
    model: str = ""  # the name of the model that computes the answer


current: ContextVar[Request] = ContextVar("current")  # the request that this code works for


class Requests:
    """Limits the time of requests, measures and logs them, and refuses them while the server stops."""

    def __init__(self, models: Models, timeout: float, are_logged: bool, api_key: str | None) -> None:
        self._models = models
        self._api_key = api_key
        self._timeout = timeout
        self._are_logged = are_logged
        self._running = 0
        self.is_stopping = False
        self._are_bodies_late = asyncio.Event()
        self.answered = 0  # predictions without an error
        self._metrics = registry = CollectorRegistry()
        self._codes = Counter(
            "keras_bert_requests", "Requests by gRPC's status codes.", (*_LABELS, "code"), registry=registry
        )
        self._seconds = Histogram(
            "keras_bert_request_seconds", "Latencies.", _LABELS, registry=registry, buckets=_SECONDS
        )
        rows = [2**power for power in range(11)]
        self._rows = Histogram("keras_bert_batch_rows", "Sizes of batches.", ["model"], registry=registry, buckets=rows)
        self._queue, self._tokenization, self._inference = (
            Histogram(f"keras_bert_{name}_seconds", text, ["model"], registry=registry, buckets=_SECONDS)
            for name, text in (
                ("queue", "Waiting of requests for a run."),
                ("tokenization", "Tokenization in a run of an export."),
                ("inference", "The rest of a run."),
            )
        )
        ProcessCollector(registry=registry)
        registry.register(self)

    async def answer(
        self, protocol: str, method: str, work: Callable[[], Awaitable[T]], timeout: float | None = None
    ) -> T:
        """Awaits `work` within the server's timeout and the client's. Raises ServingError if it takes longer."""
        start, code = time.monotonic(), Code.INTERNAL
        timeout = self._timeout if timeout is None else min(timeout, self._timeout)
        request = Request(start + timeout)
        current.set(request)
        self._running += 1
        try:
            if self.is_stopping:
                raise ServingError(Code.UNAVAILABLE, "the server is stopping")
            answer = await asyncio.wait_for(work(), timeout)
            code = Code.OK
            self.answered += bool(request.model)
            return answer
        except asyncio.TimeoutError:
            code = Code.DEADLINE_EXCEEDED
            raise ServingError(code, f"No answer within {timeout:.3g} seconds") from None
        except ServingError as error:
            code = error.code
            raise
        except asyncio.CancelledError:
            code = Code.CANCELLED
            raise
        finally:
            self._running -= 1
            seconds, labels = time.monotonic() - start, (protocol, method, request.model)
            self._codes.labels(*labels, code.name).inc()
            self._seconds.labels(*labels).observe(seconds)
            if self._are_logged:
                _log.info("%s %s %s: %s, %.1f ms", protocol, method, request.model or "-", code.name, 1000 * seconds)

    def check_key(self, authorization: str, key: str = "") -> None:
        """Checks what a request gives as "Bearer KEY", or as the key itself. Raises ServingError if it is wrong."""
        scheme, _, given = authorization.partition(" ")
        given = given.strip() if scheme.lower() == "bearer" else key
        if self._api_key and not hmac.compare_digest(given.encode(errors="replace"), self._api_key.encode()):
            what = "another API key" if given else "no API key"
            raise ServingError(
                Code.UNAUTHENTICATED, f"the request has {what}; send the server's as Authorization: Bearer KEY"
            )

    def add_run(self, model: str, rows: int | None, waited: list[float], tokenized: float, computed: float) -> None:
        """Tells Prometheus of a run: rows, if they can be merged, and seconds, tokenizing those of an export."""
        if rows is not None:
            self._rows.labels(model).observe(rows)
        for seconds in waited:
            self._queue.labels(model).observe(seconds)
        if tokenized:
            self._tokenization.labels(model).observe(tokenized)
        self._inference.labels(model).observe(computed)

    async def arrived(self, body: Awaitable[T]) -> T:
        """Awaits the body of a request. Raises ServingError if the server stops and it still does not arrive."""
        arriving, late = asyncio.ensure_future(body), asyncio.ensure_future(self._are_bodies_late.wait())
        try:
            await asyncio.wait({arriving, late}, return_when=asyncio.FIRST_COMPLETED)
            if not arriving.done():
                raise ServingError(Code.UNAVAILABLE, "the server is stopping, and the body has not arrived")
            return arriving.result()
        finally:
            arriving.cancel()
            late.cancel()

    async def stop(self) -> None:
        """Refuses new requests, and waits until those in progress are answered."""
        self.is_stopping = True
        asyncio.get_running_loop().call_later(_SECONDS_TO_ARRIVE, self._are_bodies_late.set)
        while self._running:
            await asyncio.sleep(0.05)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yields the number of requests in progress, and the states of versions, for Prometheus."""
        yield GaugeMetricFamily("keras_bert_requests_in_progress", "Requests without an answer yet.", self._running)
        states = GaugeMetricFamily(
            "keras_bert_version", "1: the state of a version.", labels=["model", "version", "state"]
        )
        for name, versions in self._models.by_name.items():
            for number, status in versions.statuses.items():
                states.add_metric([name, str(number), status.phase], 1)
        yield states

    def metrics(self, accept: str) -> tuple[bytes, str]:
        """Writes the metrics in a format of the client's header Accept, and returns them with their Content-Type."""
        try:
            encode, content_type = choose_encoder(accept)
            content_type.encode("ascii")  # it repeats the client's version
        except (TypeError, ValueError):  # a version that is no number
            encode, content_type = choose_encoder("")
        return encode(self._metrics), content_type

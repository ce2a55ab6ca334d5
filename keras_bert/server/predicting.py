"""Predictions for both protocols: named arrays -> named arrays."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Iterator
from typing import TypeVar

import grpc
import numpy as np

from keras_bert.server.batching import Batcher, number_of_rows
from keras_bert.server.errors import ServingError
from keras_bert.server.served_model import RUNS_AT_A_TIME, Model
from keras_bert.server.signatures import Arrays, Signature

T = TypeVar("T")


class Predictor:
    """Answers requests.

    Args:
        batcher: runs the model.
        max_rows: the largest number of rows in a run; larger requests take several runs.
        timeout: the time limit of a request, in seconds.
    """

    def __init__(self, batcher: Batcher, max_rows: int, timeout: float) -> None:
        self._batcher = batcher
        self._max_rows = max_rows
        self._timeout = timeout
        self.answered = 0  # requests without an error
        self._running = 0
        self._stopping = False

    @contextlib.contextmanager
    def admitted(self) -> Iterator[None]:
        """Inside the block a request is in progress, and `stop` waits for it. Raises ServingError during `stop`."""
        if self._stopping:
            raise ServingError(grpc.StatusCode.UNAVAILABLE, "the server is stopping")
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    async def stop(self) -> None:
        """Refuses new requests, and waits until those in progress are answered."""
        self._stopping = True
        while self._running:
            await asyncio.sleep(0.05)

    async def predict(self, model: Model, signature: Signature, inputs: Arrays, timeout: float | None = None) -> Arrays:
        """All outputs of a signature.

        Raises ServingError if the inputs are wrong, the model fails, the queue is full, or there is no answer within
        the server's timeout and the client's `timeout`, in seconds.
        """
        inputs = signature.complete(inputs)
        timeout = self._timeout if timeout is None else min(timeout, self._timeout)
        try:
            outputs = await self._run(model, signature, inputs, time.monotonic() + timeout)
        except asyncio.TimeoutError:
            raise _too_late(timeout) from None
        self.answered += 1
        return outputs

    async def _run(self, model: Model, signature: Signature, inputs: Arrays, deadline: float) -> Arrays:
        rows = number_of_rows(signature, inputs)
        if rows is None or rows <= self._max_rows:
            return await self._batcher.run(model, signature, inputs, deadline)
        parts: dict[int, Arrays] = {}
        starts = iter(range(0, rows, self._max_rows))

        async def run_parts() -> None:
            for start in starts:
                part = {name: array[start : start + self._max_rows] for name, array in inputs.items()}
                parts[start] = await self._batcher.run(model, signature, part, deadline)

        # Only as many as run at a time, so that requests of other clients can run in between.
        runners = [asyncio.ensure_future(run_parts()) for _ in range(RUNS_AT_A_TIME)]
        try:
            await asyncio.gather(*runners)
        finally:
            for runner in runners:
                runner.cancel()  # one has failed, or time is up
        return {name: np.concatenate([parts[start][name] for start in sorted(parts)]) for name in signature.outputs}


async def within(seconds: float, work: Awaitable[T]) -> T:
    """The result of `work`. Raises ServingError, and cancels the work, if it takes longer."""
    try:
        return await asyncio.wait_for(work, seconds)
    except asyncio.TimeoutError:
        raise _too_late(seconds) from None


def _too_late(seconds: float) -> ServingError:
    return ServingError(grpc.StatusCode.DEADLINE_EXCEEDED, f"No answer within {seconds:.3g} seconds")

"""Computes predictions, named arrays from named arrays, for both protocols.

Waiting requests are merged into batches, because a batch costs little more than one row.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from keras_bert.counted import counted
from keras_bert.server.errors import Code, ServingError
from keras_bert.server.model import RUNS_AT_A_TIME, Arrays, Model, ModelSpec, Signature, stopwatch
from keras_bert.server.requests import current

_SECONDS_TO_SPARE = 0.1  # TensorFlow stops a run this long after its deadline: the client has its error by then


@dataclass(eq=False)
class _Job:
    """The computation for one request."""

    model: Model
    signature: Signature
    inputs: Arrays
    rows: int | None  # None if the job must run alone
    deadline: float  # by the clock of time.monotonic
    outputs: asyncio.Future[Arrays]  # receives the result
    key: Hashable = field(init=False)  # jobs with equal keys may be merged
    width: int = field(init=False)  # bytes of the longest text, to which shorter ones may be padded
    since: float = field(default_factory=time.monotonic)  # when it began to wait

    def __post_init__(self) -> None:
        inner_shapes = tuple(array.shape[1:] for array in self.inputs.values())
        self.key = (self.signature, inner_shapes) if self.rows is not None else self
        texts = (text for array in self.inputs.values() if array.dtype == object for text in array.flat)
        self.width = 0 if self.rows is None else max(map(len, texts), default=0)


class Batcher:
    """Merges jobs that arrive together or during a run, without waiting for others, and splits their outputs."""

    # It tells `add_run` of each run the model's name, the number of rows if they can be merged, and the seconds that
    # each job has waited, that tokenization outside of the graph took, and that the rest took.

    def __init__(
        self,
        max_rows: int | None,
        max_waiting: int,
        add_run: Callable[[str, int | None, list[float], float, float], None],
    ) -> None:
        self._max_rows = max_rows
        self._max_waiting = max_waiting
        self._add_run = add_run
        self._waiting: dict[Hashable, list[_Job]] = {}  # lists and jobs in order of arrival
        self._count = 0
        self._free_runs = RUNS_AT_A_TIME
        self._threads = ThreadPoolExecutor(RUNS_AT_A_TIME, "run")
        self._runs: set[asyncio.Future[_Run]] = set()

    async def run(self, model: Model, signature: Signature, inputs: Arrays, deadline: float) -> Arrays:
        """Queues a job and waits for its outputs. If the caller is cancelled, the job leaves the queue."""
        if self._count >= self._max_waiting:
            self._start_runs()  # takes jobs from the queue, if a run is free
        if self._count >= self._max_waiting:
            reason = f"The queue is full, with {counted(self._count, 'request')}; try again later"
            raise ServingError(Code.RESOURCE_EXHAUSTED, reason)
        rows = _count_rows(signature, inputs) if self._max_rows is not None else None
        outputs = asyncio.get_running_loop().create_future()
        job = _Job(model, signature, inputs, rows, deadline, outputs)
        self._waiting.setdefault(job.key, []).append(job)
        self._count += 1
        asyncio.get_running_loop().call_soon(self._start_runs)  # later, when all arrived requests are queued
        try:
            return await outputs
        except asyncio.CancelledError:
            self._remove(job)
            raise

    async def close(self) -> None:
        """Waits for the runs in progress."""
        if self._runs:
            await asyncio.wait(self._runs)
        self._threads.shutdown()

    def _start_runs(self) -> None:
        while self._free_runs and self._waiting:
            key = next(iter(self._waiting))
            jobs = self._waiting.pop(key)
            batch = _choose_batch(jobs, self._max_rows)
            chosen = set(batch)
            if remaining := [job for job in jobs if job not in chosen]:
                self._waiting[key] = remaining  # behind jobs with other keys
            self._count -= len(batch)
            self._free_runs -= 1
            run = asyncio.get_running_loop().run_in_executor(self._threads, _run_timed, batch)
            self._runs.add(run)
            run.add_done_callback(functools.partial(self._finish, batch))

    def _finish(self, batch: list[_Job], run: asyncio.Future[_Run]) -> None:
        self._runs.discard(run)
        self._free_runs += 1
        results, start, tokenized, computed = run.result()
        rows = None if batch[0].rows is None else sum(job.rows or 0 for job in batch)
        self._add_run(batch[0].model.name, rows, [start - job.since for job in batch], tokenized, computed)
        for job, result in zip(batch, results, strict=True):
            if job.outputs.done():  # cancelled
                continue
            if isinstance(result, Exception):
                job.outputs.set_exception(result)
            else:
                job.outputs.set_result(result)
        self._start_runs()

    def _remove(self, job: _Job) -> None:
        jobs = self._waiting.get(job.key, [])
        if job in jobs:
            self._count -= 1
            jobs.remove(job)
            if not jobs:
                del self._waiting[job.key]


def _count_rows(signature: Signature, inputs: Arrays) -> int | None:
    """Counts the rows of the inputs; None if they cannot be split or merged."""
    sizes = {array.shape[0] for array in inputs.values()} if signature.batchable else set()
    return sizes.pop() if len(sizes) == 1 else None


def _choose_batch(jobs: list[_Job], max_rows: int | None) -> list[_Job]:
    """Takes the oldest job and as many others as fit. Those of similar width come first: they need least padding."""
    oldest = jobs[0]
    if oldest.rows is None or max_rows is None:
        return [oldest]
    batch, rows = [], 0
    for job in sorted(jobs, key=lambda job: abs(job.width - oldest.width) if job is not oldest else -1):
        assert job.rows is not None  # else the key would differ from the oldest's
        if rows + job.rows <= max_rows or not batch:
            batch.append(job)
            rows += job.rows
    return batch


# The outputs or the error of each job, when the run began, and the seconds of tokenization and of the rest.
_Run = tuple[Sequence[Arrays | Exception], float, float, float]


def _run_timed(batch: list[_Job]) -> _Run:
    start, stopwatch.tokenized = time.monotonic(), 0.0
    results = _run_batch(batch)
    return results, start, stopwatch.tokenized, time.monotonic() - start - stopwatch.tokenized


def _run_batch(batch: list[_Job]) -> Sequence[Arrays | Exception]:
    """Computes the outputs or the error of each job. If a batch fails, each of its jobs runs alone."""
    try:
        return _run_merged(batch)
    except Exception as error:
        if len(batch) == 1:
            return [error]
        return [result for job in batch for result in _run_batch([job])]


def _run_merged(batch: list[_Job]) -> list[Arrays]:
    first = batch[0]
    seconds = max(job.deadline for job in batch) - time.monotonic()
    if seconds <= 0:
        raise ServingError(Code.DEADLINE_EXCEEDED, "The time limit passed before the run began")
    seconds += _SECONDS_TO_SPARE
    if len(batch) == 1:
        return [first.model.run(first.signature, first.inputs, seconds)]
    merged = {name: np.concatenate([job.inputs[name] for job in batch]) for name in first.inputs}
    outputs = first.model.run(first.signature, merged, seconds)
    ends = np.cumsum([job.rows for job in batch if job.rows is not None])
    if any(len(array) != ends[-1] for array in outputs.values()):
        raise ValueError("the number of rows of an output is not that of the inputs")
    parts = {name: np.split(array, ends[:-1]) for name, array in outputs.items()}
    return [{name: parts[name][position] for name in parts} for position in range(len(batch))]


class Prediction(NamedTuple):
    """What a request asks of a model, and how its answer is written."""

    signature: Signature | None  # None: nothing is computed
    inputs: Arrays
    to_document: Callable[[Arrays], Any]  # from the outputs to JSON


Parse = Callable[[Model, dict[str, Any]], Prediction]
# A JSON document at once; or a model, and how to parse the request for it.
Answer = dict[str, Any] | tuple[ModelSpec, Parse]


class Predictor:
    """Computes predictions; a request of many rows in parts."""

    def __init__(self, batcher: Batcher, max_rows: int) -> None:
        self._batcher = batcher
        self._max_rows = max_rows

    async def predict(self, model: Model, signature: Signature, inputs: Arrays) -> Arrays:
        """Computes all outputs of a signature, for the current request."""
        request = current.get()
        request.model = model.name
        inputs = signature.complete(inputs)
        rows = _count_rows(signature, inputs)
        if rows is None or rows <= self._max_rows:
            return await self._batcher.run(model, signature, inputs, request.deadline)
        parts: dict[int, Arrays] = {}
        starts = iter(range(0, rows, self._max_rows))

        async def run_parts() -> None:
            for start in starts:
                part = {name: array[start : start + self._max_rows] for name, array in inputs.items()}
                parts[start] = await self._batcher.run(model, signature, part, request.deadline)

        # Queues only RUNS_AT_A_TIME parts at a time, so that requests of other clients can run in between.
        runners = [asyncio.ensure_future(run_parts()) for _ in range(RUNS_AT_A_TIME)]
        try:
            await asyncio.gather(*runners)
        finally:
            for runner in runners:
                runner.cancel()  # if one part has failed, or time is up
        return {name: np.concatenate([parts[start][name] for start in sorted(parts)]) for name in signature.outputs}

"""Predictions for both protocols: named arrays in, named arrays out."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpc
import numpy as np

from keras_bert.server.batching import Batcher, number_of_rows
from keras_bert.server.errors import ServingError, failed_precondition, invalid_argument
from keras_bert.server.served_model import RUNS_AT_A_TIME, Model
from keras_bert.server.signatures import CLASSIFY, REGRESS, Arrays, Signature


class Predictor:
    """Answers requests from a model, several at a time.

    Args:
        batcher: runs them.
        max_rows: the most rows in a run; a larger request takes several runs.
        timeout: seconds that a request may take.

    Attributes:
        answered: the number of requests answered without an error.
    """

    def __init__(self, batcher: Batcher, max_rows: int, timeout: float) -> None:
        self._batcher = batcher
        self._max_rows = max_rows
        self._timeout = timeout
        self.answered = 0
        self._running = 0
        self._stopping = False

    async def predict(self, model: Model, signature: Signature, inputs: Arrays, timeout: float | None = None) -> Arrays:
        """Computes all outputs of a signature.

        Args:
            model: must stay open meanwhile.
            signature: a signature of the model.
            inputs: arrays by name.
            timeout: seconds that the client will wait; None if unknown.

        Raises:
            ServingError: the inputs are wrong, the model fails on them, the queue is full, or time is up.
        """
        if self._stopping:
            raise ServingError(grpc.StatusCode.UNAVAILABLE, "The server is stopping")
        inputs = signature.complete(inputs)
        timeout = self._timeout if timeout is None else min(timeout, self._timeout)
        self._running += 1
        try:
            outputs = await asyncio.wait_for(self._run(model, signature, inputs, time.monotonic() + timeout), timeout)
        except (asyncio.TimeoutError, TimeoutError):  # the same class since Python 3.11
            raise ServingError(grpc.StatusCode.DEADLINE_EXCEEDED, f"No answer within {timeout:.3g} seconds") from None
        finally:
            self._running -= 1
        self.answered += 1
        return outputs

    async def stop(self) -> None:
        """Refuses new requests, and waits until the accepted ones are answered."""
        self._stopping = True
        while self._running:
            await asyncio.sleep(0.05)

    async def classify(
        self, model: Model, signature: Signature, examples: list[bytes], timeout: float | None = None
    ) -> list[list[tuple[bytes, float]]]:
        """The classes of each serialized tf.Example: a label (empty if the model has none) and a score (or 0.0).

        Raises:
            ServingError: as `predict`, or the signature has no such outputs.
        """
        (name,) = signature.inputs
        outputs = await self.predict(model, signature, {name: _serialized(examples)}, timeout)
        labels, scores = outputs.get("classes"), outputs.get("scores")
        for name, array, dtype in (("classes", labels, "DT_STRING"), ("scores", scores, "DT_FLOAT")):
            if array is None:
                continue
            if array.ndim != 2:
                raise invalid_argument(f"Expected Tensor shape: [batch_size num_classes] but got {list(array.shape)}")
            if array.dtype != (object if name == "classes" else np.float32):
                raise invalid_argument(f"Expected {name} Tensor of {dtype}. Got: {array.dtype}")
            if len(array) != len(examples):
                raise invalid_argument(f"Expected {name} output batch size of {len(examples)}. Got: {len(array)}")
        if labels is None:
            labels = np.full(scores.shape, b"", object)
        if scores is None:
            scores = np.zeros(labels.shape, np.float32)
        if labels.shape != scores.shape:
            raise invalid_argument(
                f"Tensors class and score should match in dim_size(1). Got {labels.shape[1]} vs. {scores.shape[1]}"
            )
        return [list(zip(*row, strict=True)) for row in zip(labels.tolist(), scores.tolist(), strict=True)]

    async def regress(
        self, model: Model, signature: Signature, examples: list[bytes], timeout: float | None = None
    ) -> np.ndarray:
        """float32 `[examples]`: the value of each serialized tf.Example.

        Raises:
            ServingError: as `predict`, or the signature has no such outputs.
        """
        (name,) = signature.inputs
        values = (await self.predict(model, signature, {name: _serialized(examples)}, timeout))["outputs"]
        if values.ndim not in (1, 2) or values.shape[1:] not in ((), (1,)):
            raise invalid_argument(
                "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] "
                f"but got {list(values.shape)}"
            )
        if len(values) != len(examples):
            raise invalid_argument(
                f"Input batch size did not match output batch size: {len(examples)} vs. {len(values)}"
            )
        if values.dtype != np.float32:
            raise invalid_argument(f"Expected output Tensor of DT_FLOAT.  Got: {values.dtype}")
        return values.reshape(-1)

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

        # No more than can run at a time, so that other clients' requests come in between.
        runners = [asyncio.ensure_future(run_parts()) for _ in range(RUNS_AT_A_TIME)]
        try:
            await asyncio.gather(*runners)
        finally:
            for runner in runners:
                runner.cancel()  # one has failed, or time is up
        return {name: np.concatenate([parts[start][name] for start in sorted(parts)]) for name in signature.outputs}


def example_signature(model: Model, name: str, method: str) -> Signature:
    """The signature of that name, which must be made for Classify or Regress, as `method` says.

    Raises:
        ServingError: there is none, or it is not made for `method`.
    """
    signature = model.signatures.get(name)
    if signature is None:
        raise invalid_argument(f"No signature was found with the name: {name}")
    kind = {CLASSIFY: "classification", REGRESS: "regression"}[method]
    if signature.method != method:
        raise invalid_argument(f"Expected {kind} signature method_name to be {method}. Was: {signature.method}")
    if len(signature.inputs) != 1:
        raise invalid_argument("Expected one input Tensor.")
    if "inputs" not in signature.inputs:
        raise failed_precondition(f"No {kind} inputs found in SignatureDef: {_brief(model, name)}")
    if method == REGRESS and list(signature.outputs) != ["outputs"]:
        raise failed_precondition(f"No regression outputs found in SignatureDef: {_brief(model, name)}")
    if method == CLASSIFY and not signature.outputs.keys() <= {"classes", "scores"}:
        raise failed_precondition(
            'Expected classification signature outputs to contain at least one of "classes" or "scores". '
            f"Signature was: {_brief(model, name)}"
        )
    return signature


def _brief(model: Model, name: str) -> Any:
    return " ".join(str(model.definitions[name]).split())


def _serialized(examples: list[bytes]) -> np.ndarray:
    if not examples:
        raise invalid_argument("Input is empty.")
    return np.array(examples, object)

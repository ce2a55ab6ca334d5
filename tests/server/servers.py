"""Servers, in a thread or in a process of their own, and clients that know nothing of this package."""

import asyncio
import errno
import json
import logging
import queue
import re
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import grpc
import numpy as np
import pytest
import requests
import tensorflow as tf
from prometheus_client.parser import text_string_to_metric_families
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow_serving.apis import (
    predict_pb2,
    prediction_service_pb2_grpc,
)

from keras_bert.server import run

from ..support.processes import ENVIRONMENT, HANGS, PIPES, start_command, start_process

# A test's mark: what it asks of the toy model, an export cannot do.
ONLY_SAVED_MODELS = pytest.mark.parametrize("engine", ["SavedModel"], indirect=True, scope="session")

# As `keras-bert serve` has them, but for the ports: any that are free.
DEFAULTS = {"port": 0, "rest_port": 0, "host": "127.0.0.1", "max_batch": 16, "batching": True, "queue": 1024}
DEFAULTS |= {"timeout": 30.0, "log_requests": False}


class Server:
    """A server of `directory`, on free ports; `post` and the like ask for its model.

    Attributes:
        ready: the line that it announces.
        log: the lines that it logged so far.
    """

    def __init__(self, directory: Path, ready: str) -> None:
        self.name = directory.name
        self.ready = ready
        *rpc_ports, self.rest_port = map(int, re.findall(r"port (\d+)", ready))
        self.port = rpc_ports[0] if rpc_ports else None
        self.root = f"http://127.0.0.1:{self.rest_port}"
        self.url = f"{self.root}/v1/models/{self.name}"
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")
        self.stub = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)

    def post(self, verb: str, body: object, session=requests, **settings) -> requests.Response:
        """To `verb`, such as ":predict", the JSON of `body`, or `body` itself if it is bytes."""
        kind = "data" if isinstance(body, bytes) else "json"
        return session.post(self.url + verb, **{kind: body}, timeout=HANGS, **settings)

    def predict(
        self, signature: str = "", version: int | None = None, outputs=(), timeout: float = HANGS, **inputs
    ) -> predict_pb2.PredictResponse:
        """Over gRPC, of arrays or protos by name."""
        return self.stub.Predict(self.request(signature, version, outputs, **inputs), timeout)

    def request(self, signature: str = "", version: int | None = None, outputs=(), **inputs):
        request = predict_pb2.PredictRequest(model_spec={"name": self.name, "signature_name": signature})
        if version is not None:
            request.model_spec.version.value = version
        request.output_filter.extend(outputs)
        for name, value in inputs.items():
            is_proto = isinstance(value, TensorProto)
            request.inputs[name].CopyFrom(value if is_proto else tf.make_tensor_proto(value))
        return request

    def samples(self, path: str = "/metrics") -> dict[tuple[str, ...], float]:
        """What Prometheus is told: a value for each name, followed by the values of its labels in their order."""
        families = text_string_to_metric_families(requests.get(self.root + path, timeout=HANGS).text)
        samples = [each for family in families for each in family.samples]
        return {(each.name, *(each.labels[name] for name in sorted(each.labels))): each.value for each in samples}

    def in_progress(self) -> float:
        """The number of requests without an answer."""
        return self.samples()[("keras_bert_requests_in_progress",)]

    def wait_for_requests(self, number: int) -> None:
        """Until so many requests are in progress."""
        wait_until(lambda: self.in_progress() == number, self.in_progress)

    def wait_until_closed(self) -> None:
        """Until nobody can connect."""

        def is_closed() -> bool:
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", self.rest_port)) == errno.ECONNREFUSED

        wait_until(is_closed)

    def states(self) -> dict[int, str]:
        """The state of every version that the server knows."""
        document = requests.get(self.url, timeout=HANGS).json()
        return {int(each["version"]): each["state"] for each in document["model_version_status"]}

    def wait_for(self, **states: str) -> None:
        """Until the versions are in these states: `wait_for(v2="AVAILABLE")`."""
        wanted = {int(name[1:]): state for name, state in states.items()}
        wait_until(lambda: wanted.items() <= self.states().items(), lambda: (self.states(), self.log))

    def close(self) -> None:
        self.channel.close()


class Thread(Server):
    """In a thread of this process: what signals do is left to `Process`.

    Args:
        directory: holds the versions.
        *others: directories of more models.
        **settings: fields of `run.Settings` that differ from `DEFAULTS`.
    """

    def __init__(self, directory: Path, *others: Path, **settings: object) -> None:
        self.log: list[str] = []
        self._error: BaseException | None = None
        self._handler = logging.Handler()
        self._handler.emit = lambda record: self.log.append(record.getMessage())
        logging.getLogger("keras_bert.server").addHandler(self._handler)
        logging.getLogger("keras_bert.server").setLevel(logging.INFO)
        told: queue.Queue[str | None] = queue.Queue()
        directories = {each.name: each for each in (directory, *others)}
        settings = run.Settings(directories=directories, **{**DEFAULTS, **settings})
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, args=(settings, told), daemon=True)
        with mock.patch.object(run, "_stop_signal", return_value=self._stopped):  # only a main thread has signals
            self._thread.start()
            ready = told.get(timeout=HANGS)
        assert ready, (self._error, self.log)
        super().__init__(directory, ready)

    def _serve(self, settings: run.Settings, told: "queue.Queue[str | None]") -> None:
        def announce(line: str) -> None:
            """Connects at once: what is announced accepts connections."""
            socket.create_connection(("127.0.0.1", int(line.rpartition(" ")[2])), HANGS).close()
            told.put(line)

        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await run._serve(settings, announce)

        try:
            asyncio.run(serve())
        except BaseException as error:
            self._error = error
        finally:
            told.put(None)

    def stop(self) -> None:
        """As the first signal does: what was accepted is answered, and then the server ends."""
        self._loop.call_soon_threadsafe(self._stopped.set)

    def wait(self) -> None:
        """Until the server has ended."""
        self._thread.join(HANGS)
        assert not self._thread.is_alive()
        assert self._error is None

    def close(self) -> None:
        super().close()
        if self._thread.is_alive():
            self.stop()
        self.wait()
        logging.getLogger("keras_bert.server").removeHandler(self._handler)


class Process(Server):
    """`keras-bert serve DIRECTORY`, of exports alone if `code` is given, which runs the command."""

    def __init__(self, directory: Path, *options: str, code: str | None = None) -> None:
        command = ("serve", str(directory), "--rest-port", "0", *options)
        if code is None:
            self.process = start_command(*command, "--port", "0", text=True)
        else:
            self.process = start_process([sys.executable, "-c", code, *command], **PIPES, env=ENVIRONMENT, text=True)
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        ready = self.process.stdout.readline()
        assert ready, self.log
        super().__init__(directory, ready)

    def _read_log(self) -> None:
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))

    def terminate(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal, and returns the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """The exit code; by then the log is complete."""
        self._reader.join(HANGS)
        return self.process.wait(timeout=HANGS)

    def close(self) -> None:
        super().close()
        self.process.kill()
        self.process.wait()


def wait_until(condition, explanation=lambda: "") -> None:
    deadline = time.monotonic() + HANGS
    while not condition():
        assert time.monotonic() < deadline, explanation()
        time.sleep(0.05)


def at_once(jobs) -> list:
    """Runs all jobs, each in a thread of its own, and returns their results or exceptions in order."""
    jobs = list(jobs)
    with ThreadPoolExecutor(len(jobs)) as threads:
        running = [threads.submit(job) for job in jobs]
        return [each.exception(HANGS) or each.result() for each in running]


def output(response: predict_pb2.PredictResponse, name: str) -> np.ndarray:
    return tf.make_ndarray(response.outputs[name])


def post(server, path, body):
    return requests.post(server.root + path, json.dumps(body), timeout=HANGS)  # `json=` would refuse NaN


def error(response):
    """The status and the fields of an error of OpenAI's form."""
    (fields,) = response.json().values()
    assert list(response.json()) == ["error"]
    assert sorted(fields) == ["code", "message", "param", "type"]
    return response.status_code, fields


def tei_error(response):
    """The status and the fields of an error of text-embeddings-inference's form."""
    assert list(response.json()) == ["error", "error_type"]
    return response.status_code, response.json()["error_type"], response.json()["error"]

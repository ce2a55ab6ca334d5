"""A `keras-bert serve` process, and clients of it that know nothing of this package."""

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import numpy as np
import psutil
import requests
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from ..processes import start_process

# Not a measure of speed: what takes this long hangs.
HANGS = 600

# As a user's shell has it: TensorFlow's messages not yet silenced.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}


class Server:
    """`keras-bert serve DIRECTORY` on free ports.

    Attributes:
        log: the lines that it wrote to standard error so far.
    """

    def __init__(self, directory: Path, *options: str) -> None:
        command = [sys.executable, "-m", "keras_bert.cli", "serve", directory, "--port", "0", "--rest-port", "0"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = start_process([*command, *options], text=True, env=ENVIRONMENT, **pipes)
        self.name = directory.name
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        self.ready = self.process.stdout.readline()
        assert self.ready, self.log
        self.port, self.rest_port = map(int, re.findall(r"port (\d+)", self.ready))
        self.url = f"http://127.0.0.1:{self.rest_port}/v1/models/{self.name}"
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")
        self.stub = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)

    def _read_log(self) -> None:
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))

    def post(self, verb: str, body: object, **settings) -> requests.Response:
        """To `verb`, such as ":predict", the JSON of `body`, or `body` itself if it is bytes."""
        kind = "data" if isinstance(body, bytes) else "json"
        return requests.post(self.url + verb, **{kind: body}, timeout=HANGS, **settings)

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

    def states(self) -> dict[int, str]:
        """The state of every version that the server knows, by GetModelStatus."""
        request = get_model_status_pb2.GetModelStatusRequest(model_spec={"name": self.name})
        response = model_service_pb2_grpc.ModelServiceStub(self.channel).GetModelStatus(request, HANGS)
        names = get_model_status_pb2.ModelVersionStatus.State
        return {each.version: names.Name(each.state) for each in response.model_version_status}

    def wait_for(self, **states: str) -> None:
        """Until the versions are in these states: `wait_for(v2="AVAILABLE")`."""
        wanted = {int(name[1:]): state for name, state in states.items()}
        wait_until(lambda: wanted.items() <= self.states().items(), lambda: (self.states(), self.log))

    def healthy(self) -> bool:
        request = health_pb2.HealthCheckRequest()
        response = health_pb2_grpc.HealthStub(self.channel).Check(request, HANGS)
        return response.status == health_pb2.HealthCheckResponse.SERVING

    def memory(self) -> int:
        """Bytes of memory that the process holds."""
        return psutil.Process(self.process.pid).memory_info().rss

    def terminate(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal, and returns the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """The exit code; by then the log is complete."""
        self._reader.join(HANGS)
        return self.process.wait(timeout=HANGS)

    def close(self) -> None:
        self.channel.close()
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
    results: queue.Queue = queue.Queue()

    def work(number, job):
        try:
            results.put((number, job()))
        except Exception as error:
            results.put((number, error))

    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in enumerate(jobs)]
    for thread in threads:
        thread.start()
    found = dict(results.get(timeout=HANGS) for _ in jobs)
    return [found[number] for number in range(len(jobs))]


def output(response: predict_pb2.PredictResponse, name: str) -> np.ndarray:
    return tf.make_ndarray(response.outputs[name])

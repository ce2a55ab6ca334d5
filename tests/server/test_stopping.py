"""Signals: what was accepted is answered."""

import re
import signal
import time

import grpc
import numpy as np
import pytest
import requests

from .process import HANGS, at_once, output, wait_until

A_SECOND = 2000  # rounds, or so


def test_what_was_accepted_is_answered(start, toy_versions):
    server = start(toy_versions, "--no-batching")
    rounds = np.array([A_SECOND], np.int32)
    calls = [server.stub.Predict.future(server.request("busy", rounds=rounds), HANGS) for _ in range(4)]

    def post():
        return server.post(":predict", {"signature_name": "busy", "instances": [A_SECOND]})

    def stop():
        time.sleep(1)  # all have been sent by then
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        with pytest.raises(requests.ConnectionError):  # nothing new
            server.post(":predict", {"instances": [1]})

    *responses, stopped = at_once([post] * 4 + [stop])
    assert stopped is None, stopped
    assert [response.json()["predictions"] for response in responses] == [[A_SECOND]] * 4
    assert [output(call.result(), "rounds").tolist() for call in calls] == [[A_SECOND]] * 4
    assert server.wait() == 0
    assert server.log[-1].endswith(" stopped; requests answered: 8")


def test_a_second_signal_ends_at_once(start, toy_versions):
    server = start(toy_versions, "--timeout", "600")
    rounds = np.array([100_000_000], np.int32)
    call = server.stub.Predict.future(server.request("busy", rounds=rounds), HANGS)
    time.sleep(0.5)
    server.process.send_signal(signal.SIGTERM)
    wait_until(lambda: any("stopping" in line for line in server.log))
    assert server.terminate() == 128 + signal.SIGTERM
    assert call.code() == grpc.StatusCode.UNAVAILABLE


@pytest.mark.slow
def test_large_answers_are_sent_to_the_end(start, toy_versions):
    """More than fits in the buffers between the processes, when the server stops while they are on their way."""
    server = start(toy_versions)
    texts = ["x" * 1000] * 8000
    body = {"signature_name": "text", "inputs": texts}

    def slow_reader():
        with requests.post(server.url + ":predict", json=body, timeout=HANGS, stream=True) as response:
            server.process.send_signal(signal.SIGTERM)
            time.sleep(1)
            return response.json()

    (answer,) = at_once([slow_reader])
    assert answer["outputs"]["upper"] == [text.upper() for text in texts]
    assert server.wait() == 0


@pytest.mark.slow
def test_the_log_is_for_people(start, toy_versions):
    server = start(toy_versions)
    assert re.fullmatch(r"Serving toy version 1 at 127\.0\.0\.1: gRPC port \d+, REST port \d+\n", server.ready)
    output(server.predict(x=np.array([1], np.float32)), "y")
    assert server.terminate(signal.SIGINT) == 0
    # TensorFlow 2.20 heeds no log level when it says that an optimization is off.
    log = [line for line in server.log if not re.match("WARNING: All log messages before|I0000 .*mlir", line)]
    assert [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in log] == [
        "version 1: loading",
        "version 1: loaded, 0 warm-up requests answered",
        "version 1: serving",
        "stopping: what was accepted is answered first",
        "version 1: unloaded",
        "stopped; requests answered: 1",
    ]
    assert server.process.stdout.read() == ""

"""The end of a server: what was accepted is answered."""

import re
import signal
import socket
import time

import grpc
import numpy as np
import pytest
import requests

from .servers import HANGS, at_once, output, wait_until

pytestmark = pytest.mark.timing

A_WHILE = 500  # rounds: half a second or so
ONE = np.array([1], np.float32)


def test_what_was_accepted_is_answered(start, toy_versions):
    server = start(toy_versions, batching=False)
    rounds = np.array([A_WHILE], np.int32)
    calls = [server.stub.Predict.future(server.request("busy", rounds=rounds), HANGS) for _ in range(2)]

    def post():
        return server.post(":predict", {"signature_name": "busy", "instances": [A_WHILE]})

    def stop():
        time.sleep(0.3)  # all have been sent by then
        server.stop()
        time.sleep(0.2)
        with pytest.raises(requests.ConnectionError):  # nothing new
            server.post(":predict", {"instances": [1]})

    *responses, stopped = at_once([post] * 2 + [stop])
    assert stopped is None, stopped
    assert [response.json()["predictions"] for response in responses] == [[A_WHILE]] * 2
    assert [output(call.result(), "rounds").tolist() for call in calls] == [[A_WHILE]] * 2
    server.wait()
    assert server.log[-1] == "stopped; requests answered: 4"


def test_a_body_on_its_way_is_waited_for(start, toy_versions):
    server = start(toy_versions)
    body = b'{"instances": [1]}'
    head = b"POST /v1/models/toy:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", server.rest_port)) as connection:
        connection.sendall(head + body[:5])
        time.sleep(0.3)
        server.stop()
        time.sleep(0.3)
        connection.sendall(body[5:])
        assert connection.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"


@pytest.mark.slow
def test_large_answers_are_sent_to_the_end(start, toy_versions):
    """More than fits in the buffers between the two, when the server stops while they are on their way."""
    server = start(toy_versions)
    texts = ["x" * 1000] * 8000
    body = {"signature_name": "text", "inputs": texts}

    def slow_reader():
        with requests.post(server.url + ":predict", json=body, timeout=HANGS, stream=True) as response:
            server.stop()
            time.sleep(1)
            return response.json()

    (answer,) = at_once([slow_reader])
    assert answer["outputs"]["upper"] == [text.upper() for text in texts]
    server.wait()


@pytest.mark.slow
def test_a_process_and_its_log(start_process, toy_versions):
    server = start_process(toy_versions)
    assert re.fullmatch(r"Serving toy version 1 at 127\.0\.0\.1: gRPC port \d+, REST port \d+\n", server.ready)
    assert output(server.predict(x=ONE), "y").tolist() == [2]
    assert server.post(":predict", {"instances": [1]}).json() == {"predictions": [2.0]}
    assert server.terminate(signal.SIGTERM) == 0
    # TensorFlow 2.20 heeds no log level when it says that an optimization is off.
    log = [line for line in server.log if not re.match("WARNING: All log messages before|I0000 .*mlir", line)]
    assert [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in log] == [
        "version 1: loading",
        "version 1: loaded, 0 warm-up requests answered",
        "version 1: serving",
        "stopping: accepted requests are answered first",
        "version 1: unloaded",
        "stopped; requests answered: 2",
    ]
    assert server.process.stdout.read() == ""


@pytest.mark.slow
def test_a_second_signal_ends_at_once(start_process, toy_versions):
    server = start_process(toy_versions, "--timeout", "600")
    rounds = np.array([100_000_000], np.int32)
    call = server.stub.Predict.future(server.request("busy", rounds=rounds), HANGS)
    time.sleep(0.5)
    server.process.send_signal(signal.SIGINT)
    wait_until(lambda: any("stopping" in line for line in server.log))
    assert server.terminate(signal.SIGTERM) == 128 + signal.SIGTERM
    assert call.code() == grpc.StatusCode.UNAVAILABLE

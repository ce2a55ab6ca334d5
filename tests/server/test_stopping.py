"""The end of a server: what was accepted is answered."""

import asyncio
import os
import signal
import socket

import numpy as np
import pytest
import requests
from grpc_health.v1 import health_pb2, health_pb2_grpc

from keras_bert.server import requests as requests_module
from keras_bert.server import run

from . import toy
from .servers import HANGS, at_once, output

pytestmark = pytest.mark.timing
ENGINES = toy.ENGINES

A_WHILE = 500  # rounds: half a second or so


def test_what_was_accepted_is_answered(start, toy_versions):
    server = start(toy_versions, batching=False)
    rounds = np.array([A_WHILE], np.int32)
    calls = [server.stub.Predict.future(server.request("busy", rounds=rounds), HANGS) for _ in range(2)]

    def post():
        return server.post(":predict", {"signature_name": "busy", "instances": [A_WHILE]})

    def stop():
        server.wait_for_requests(4)
        server.stop()
        server.wait_until_closed()  # nothing new

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
        server.wait_for_requests(1)
        server.stop()
        server.wait_until_closed()
        connection.sendall(body[5:])
        assert connection.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"


def test_what_does_not_come_or_does_not_end_does_not_hold_the_stop(start, toy_versions, monkeypatch):
    monkeypatch.setattr(requests_module, "_SECONDS_TO_ARRIVE", 0.5)
    server = start(toy_versions, timeout=HANGS)
    watch = health_pb2_grpc.HealthStub(server.channel).Watch(health_pb2.HealthCheckRequest())
    next(watch)
    with socket.create_connection(("127.0.0.1", server.rest_port)) as connection:
        connection.sendall(b"POST /v1/models/toy:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        server.wait_for_requests(1)
        server.stop()
        assert connection.makefile("rb").readline() == b"HTTP/1.1 503 Service Unavailable\r\n"
        server.wait()


def test_a_stop_that_takes_too_long_ends_with_the_process(monkeypatch):
    codes = []
    monkeypatch.setattr(run.os, "_exit", codes.append)

    async def stop_without_end():
        assert not run._stop_signal(0.1).is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        while not codes:
            await asyncio.sleep(0.01)

    asyncio.run(stop_without_end())
    assert codes == [128 + signal.SIGTERM]


@pytest.mark.slow
def test_large_answers_are_sent_to_the_end(start, toy_versions):
    """More than fits in the buffers between the two, when the server stops while they are on their way."""
    server = start(toy_versions)
    texts = ["x" * 1000] * 8000
    body = {"signature_name": "text", "inputs": texts}

    def slow_reader():
        with requests.post(server.url + ":predict", json=body, timeout=HANGS, stream=True) as response:
            server.stop()
            server.wait_until_closed()
            return response.json()

    (answer,) = at_once([slow_reader])
    assert answer["outputs"]["upper"] == [text.upper() for text in texts]
    server.wait()

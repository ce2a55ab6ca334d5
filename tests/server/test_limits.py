"""What happens to requests that are too many, or that take too long."""

import contextlib
import http.client
import io
import logging
import os
import resource
import signal
import socket
import time

import grpc
import numpy as np
import pytest

from keras_bert.cli.serve import Repetitions
from keras_bert.server import connections as module
from keras_bert.server import run

from . import toy
from .servers import HANGS, ONLY_SAVED_MODELS, at_once, output, wait_until

pytestmark = pytest.mark.timing
ENGINES = toy.ENGINES

FOREVER = {"rounds": np.array([100_000_000], np.int32)}


@contextlib.contextmanager
def one_more_file():
    """All that may be opened in this block."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def codes(results):
    return [result.code() if isinstance(result, grpc.RpcError) else grpc.StatusCode.OK for result in results]


def test_a_full_queue_and_time_that_is_up(start, toy_versions):
    server = start(toy_versions, queue=3, batching=False, timeout=0.7)

    def post():
        return server.post(":predict", {"signature_name": "busy", "instances": [100_000_000]})

    results = at_once([lambda: server.predict("busy", **FOREVER)] * 12 + [post] * 12)
    # Two run and three wait, who are told that time is up; the others are refused at once.
    late, full = "No answer within 0.7 seconds", "The queue is full, with 3 requests; try again later"
    found = codes(results[:12]), [response.status_code for response in results[12:]]
    assert set(found[0]) <= {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert set(found[1]) <= {504, 429}
    refused = found[0].count(grpc.StatusCode.RESOURCE_EXHAUSTED) + found[1].count(429)
    assert 0 < refused <= 24 - 5
    for result, code in zip(results[:12], found[0], strict=True):
        assert result.details() == (late if code == grpc.StatusCode.DEADLINE_EXCEEDED else full)
    for response, status in zip(results[12:], found[1], strict=True):
        assert response.json() == {"error": late if status == 504 else full}

    # What nobody waits for any more does not take the place of what comes after, and nothing is merged.
    def rows():
        results = at_once([lambda: server.predict("together", x=np.zeros(2, np.float32))] * 3)
        return {
            code if code != grpc.StatusCode.OK else tuple(output(result, "rows").tolist())
            for code, result in zip(codes(results), results, strict=True)
        }

    wait_until(lambda: rows() == {(2, 2)})  # on a busy machine, not at once


def test_a_body_that_does_not_arrive(start, toy_versions):
    server = start(toy_versions, timeout=0.5)
    with socket.create_connection(("127.0.0.1", server.rest_port)) as connection:
        connection.sendall(b"POST /v1/models/toy:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        assert connection.makefile("rb").readline() == b"HTTP/1.1 504 Gateway Timeout\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nX: ", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET"])
def test_a_connection_without_a_whole_request_is_closed(start, toy_versions, sent):
    server = start(toy_versions, timeout=0.5)
    with socket.create_connection(("127.0.0.1", server.rest_port), HANGS) as connection:
        connection.sendall(sent)
        answer = connection.makefile("rb").read()  # to the end of the connection
    assert answer.startswith(b"HTTP/1.1 200" if sent.count(b"\r\n\r\n") else b"")
    with socket.create_connection(("127.0.0.1", server.port), HANGS) as connection:
        connection.sendall(sent)
        connection.makefile("rb").read()


@pytest.fixture
def connections(monkeypatch):
    """Those of the server that is started: room for three, and as many over gRPC."""
    made = []
    monkeypatch.setattr(run, "most_connections", lambda: (3, 3))
    monkeypatch.setattr(module, "_SECONDS_TO_BEGIN", 0.1)
    monkeypatch.setattr(run, "Connections", lambda *settings: made.append(module.Connections(*settings)) or made[-1])
    return made


def test_idle_connections_give_way_and_those_with_requests_do_not(connections, start, toy_versions):
    server = start(toy_versions, timeout=HANGS)
    idle = [socket.create_connection(("127.0.0.1", server.rest_port)) for _ in range(5)]
    for each in idle:
        each.sendall(b"POST /v1/models/toy:predict HTTP/1.1\r\n")
    uploads = [socket.create_connection(("127.0.0.1", server.rest_port)) for _ in range(2)]
    body = b'{"instances": [1]}'
    for each in uploads:
        each.sendall(b"POST /v1/models/toy:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n\r\n")
    for _ in range(2):
        assert server.post(":predict", {"instances": [1]}).status_code == 200
    for each in uploads:
        each.sendall(body)
        assert each.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"
    for each in idle + uploads:
        each.close()


def test_a_client_that_does_not_read_its_answer_is_left(connections, start, toy_versions):
    server = start(toy_versions)
    connections[0]._seconds = 0.3
    body = b'{"signature_name": "text", "inputs": [' + b'"%s", ' % (b"x" * 1000) * 7999 + b'"x"]}'
    with socket.create_connection(("127.0.0.1", server.rest_port)) as connection:
        head = b"POST /v1/models/toy:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
        connection.sendall(head + body)
        wait_until(lambda: connections[0]._busy)
        wait_until(lambda: not connections[0]._busy)
        with connection.makefile("rb") as answer:
            headers = http.client.parse_headers(answer) if answer.readline() == b"HTTP/1.1 200 OK\r\n" else {}
            assert 0 < len(answer.read()) < int(headers["Content-Length"])


def test_a_process_without_files_left_accepts_connections_again(start, toy_versions):
    server = start(toy_versions)
    with one_more_file(), socket.create_connection(("127.0.0.1", server.rest_port)):
        wait_until(lambda: any(line.startswith("cannot accept connections: ") for line in server.log))
    assert server.post(":predict", {"instances": [1]}).status_code == 200
    assert sum(line.startswith("cannot accept connections: ") for line in server.log) < 10


NO_HTTP = [
    b"\x16\x03\x01\x02\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n",
    b"GET http://[ HTTP/1.1\r\n\r\n",
]


@pytest.mark.parametrize("sent", NO_HTTP)
def test_what_is_not_http_is_refused_and_not_logged(server, caplog, sent):
    with socket.create_connection(("127.0.0.1", server.rest_port)) as connection:
        connection.sendall(sent)
        assert connection.makefile("rb").readline().startswith(b"HTTP/1.0 400 ")
    assert not caplog.records


def test_a_log_leaves_out_what_it_repeats_and_says_so(monkeypatch):
    stream, now = io.StringIO(), 1000.0
    log, handler = logging.Logger("log"), logging.StreamHandler(stream)
    handler.addFilter(Repetitions())
    log.addHandler(handler)
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def warn(number):
        log.warning("cannot %d", number)
        log.info("request")

    for number in range(8):
        warn(number)
    log.error("other")
    now += 61
    warn(8)
    assert stream.getvalue().count("request\n") == 9
    assert stream.getvalue().replace("request\n", "").splitlines() == [
        *(f"cannot {number}" for number in range(4)),
        "cannot 4 (more like it are left out for a minute)",
        "other",
        "cannot 8 (3 like it were left out)",
    ]


@pytest.mark.slow
@ONLY_SAVED_MODELS
def test_a_client_that_gives_up_gives_its_place_away_and_a_second_signal_ends_at_once(start_process, toy_versions):
    """In a process, which ends although what was begun goes on for ever."""
    server = start_process(toy_versions, "--queue", "1", "--no-batching", "--timeout", "600")

    def ask_forever():
        return server.stub.Predict.future(server.request("busy", **FOREVER), HANGS)

    asking = [ask_forever() for _ in range(3)]  # two run, or are about to, and one waits

    def code_of_another():
        with pytest.raises(grpc.RpcError) as caught:
            server.predict("busy", timeout=1, **FOREVER)
        return caught.value.code()

    def is_full():
        # One that came while another was let in for its second was sent away, and asks again.
        sent_away = [each for each in asking if each.done()]
        asking[:] = [each for each in asking if not each.done()] + [ask_forever() for _ in sent_away]
        wait_until(lambda: server.in_progress() == 3 or any(each.done() for each in asking))
        return code_of_another() == grpc.StatusCode.RESOURCE_EXHAUSTED

    wait_until(is_full)
    for each in asking:  # which of them waits, only the server knows
        each.cancel()
    wait_until(lambda: code_of_another() == grpc.StatusCode.DEADLINE_EXCEEDED)  # which was let in

    call = ask_forever()
    server.wait_for_requests(1)
    server.process.send_signal(signal.SIGINT)
    wait_until(lambda: any("stopping" in line for line in server.log))
    assert server.terminate(signal.SIGTERM) == 128 + signal.SIGTERM
    assert call.code() == grpc.StatusCode.UNAVAILABLE


@ONLY_SAVED_MODELS
def test_the_deadline_of_a_client_ends_its_run(start, toy_versions):
    server = start(toy_versions, timeout=600)
    results = at_once([lambda: server.predict("busy", timeout=0.5, **FOREVER)] * 4)
    assert set(codes(results)) == {grpc.StatusCode.DEADLINE_EXCEEDED}
    # If they still ran, this would wait for as long.
    assert output(server.predict(timeout=120, x=np.float32([1])), "y").tolist() == [2]

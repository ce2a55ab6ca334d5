"""What happens to requests that are too many, or that take too long."""

import signal
import socket
import time

import grpc
import numpy as np
import pytest

from .servers import HANGS, at_once, output, wait_until

pytestmark = pytest.mark.timing

FOREVER = {"rounds": np.array([100_000_000], np.int32)}


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


@pytest.mark.slow
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
        if sent_away:
            time.sleep(0.5)  # it is to come before another
        return code_of_another() == grpc.StatusCode.RESOURCE_EXHAUSTED

    wait_until(is_full)
    for each in asking:  # which of them waits, only the server knows
        each.cancel()
    wait_until(lambda: code_of_another() == grpc.StatusCode.DEADLINE_EXCEEDED)  # which was let in

    call = ask_forever()
    time.sleep(0.5)
    server.process.send_signal(signal.SIGINT)
    wait_until(lambda: any("stopping" in line for line in server.log))
    assert server.terminate(signal.SIGTERM) == 128 + signal.SIGTERM
    assert call.code() == grpc.StatusCode.UNAVAILABLE


def test_the_deadline_of_a_client_ends_its_run(start, toy_versions):
    server = start(toy_versions, timeout=600)
    results = at_once([lambda: server.predict("busy", timeout=0.5, **FOREVER)] * 4)
    assert set(codes(results)) == {grpc.StatusCode.DEADLINE_EXCEEDED}
    # If they still ran, this would wait for as long.
    assert output(server.predict(timeout=120, x=np.float32([1])), "y").tolist() == [2]

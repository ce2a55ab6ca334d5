"""What happens to requests that are too many, or that take too long."""

import grpc
import numpy as np
import pytest

from .process import HANGS, at_once, output, wait_until

pytestmark = pytest.mark.slow  # each starts processes

FOREVER = {"rounds": np.array([100_000_000], np.int32)}
A_SECOND = {"rounds": np.array([2000], np.int32)}  # or so


def codes(results):
    return [result.code() if isinstance(result, grpc.RpcError) else grpc.StatusCode.OK for result in results]


def test_a_full_queue(start, toy_versions):
    server = start(toy_versions, "--queue", "3", "--no-batching")
    jobs = [lambda: server.predict("busy", **A_SECOND)] * 12
    jobs += [lambda: server.post(":predict", {"signature_name": "busy", "instances": [2000]}).status_code] * 12
    results = at_once(jobs)
    found = codes(results[:12])
    assert set(found) <= {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert set(results[12:]) <= {200, 429}
    answered = found.count(grpc.StatusCode.OK) + results[12:].count(200)
    assert 5 <= answered < 24  # two run and three wait; the others are refused at once
    refused = next(result for result in results[:12] if isinstance(result, grpc.RpcError))
    assert refused.details() == "The queue is full: 3 requests wait already; try again later"
    assert output(server.predict("busy", **A_SECOND), "rounds").tolist() == [2000]
    # Without batching nothing is merged, queue or not.
    results = at_once([lambda: server.predict("together", x=np.zeros(2, np.float32))] * 3)
    assert {tuple(output(result, "rows").tolist()) for result in results} == {(2, 2)}


def test_time_is_up(start, toy_versions):
    server = start(toy_versions, "--timeout", "0.5")
    # More than can run at a time: the last ones do not even begin.
    results = at_once([lambda: server.predict("busy", **FOREVER)] * 40)
    assert set(codes(results)) == {grpc.StatusCode.DEADLINE_EXCEEDED}
    response = server.post(":predict", {"signature_name": "busy", "instances": [100_000_000]})
    assert response.status_code == 504
    assert response.json() == {"error": "No answer within 0.5 seconds"}
    # What nobody waits for any more does not take the place of what comes after.
    assert output(server.predict(x=np.array([1], np.float32)), "y").tolist() == [2]
    assert server.terminate() == 0


def test_a_client_that_gives_up_gives_its_place_away(start, toy_versions):
    server = start(toy_versions, "--queue", "1", "--no-batching", "--timeout", "600")

    def ask_forever():
        return server.stub.Predict.future(server.request("busy", **FOREVER), HANGS)

    asking = [ask_forever() for _ in range(3)]  # two run, or are about to, and one waits

    def code_of_another():
        with pytest.raises(grpc.RpcError) as caught:
            server.predict("busy", timeout=3, **FOREVER)
        return caught.value.code()

    def is_full():
        # One that came while another was let in for its three seconds was sent away, and asks again.
        sent_away = [each for each in asking if each.done()]
        asking[:] = [each for each in asking if not each.done()] + [ask_forever() for _ in sent_away]
        return code_of_another() == grpc.StatusCode.RESOURCE_EXHAUSTED

    wait_until(is_full)
    asking[-1].cancel()
    wait_until(lambda: code_of_another() == grpc.StatusCode.DEADLINE_EXCEEDED)  # which was let in


def test_the_deadline_of_a_client_ends_its_run(start, toy_versions):
    server = start(toy_versions, "--timeout", "600")
    results = at_once([lambda: server.predict("busy", timeout=0.5, **FOREVER)] * 4)
    assert set(codes(results)) == {grpc.StatusCode.DEADLINE_EXCEEDED}
    # If they still ran, this would wait for as long.
    assert output(server.predict(timeout=120, x=np.array([1], np.float32)), "y").tolist() == [2]

"""An API key, which requests of every protocol must have."""

import json

import grpc
import numpy as np
import pytest
import requests
from grpc_health.v1 import health_pb2, health_pb2_grpc

from .servers import HANGS, Thread

pytestmark = pytest.mark.timing

KEY = "s3cret"


@pytest.fixture(scope="module")
def locked(toy_versions):
    server = Thread(toy_versions, api_key=KEY, log_requests=True)
    yield server
    server.close()


@pytest.mark.parametrize(
    ("method", "path", "form"),
    [
        ("GET", "/v1/models/toy", {"error": str}),
        ("POST", "/v1/models/toy:predict", {"error": str}),
        ("GET", "/v1/models", {"error": dict}),
        ("POST", "/v1/embeddings", {"error": dict}),
        ("POST", "/rerank", {"error": dict}),
        ("POST", "/embed", {"error": str, "error_type": str}),
        ("GET", "/info", {"error": str, "error_type": str}),
        ("GET", "/nothing", {"error": dict}),
        ("GET", "/metrics", None),
    ],
)
def test_requests_without_the_api_key_are_refused(locked, method, path, form):
    def ask(**headers):
        body = None if method == "GET" else json.dumps({"instances": [1], "inputs": "1", "input": "1", "texts": []})
        return requests.request(method, locked.root + path, data=body, headers=headers, timeout=HANGS)

    given = {"Authorization": "Bearer wrong"}, {"Authorization": KEY}, {"Authorization": f"Basic {KEY}"}, {}
    for headers in (
        *given,
        {"Authorization": f"Bearer {KEY}x"},
        {"api-key": "wrong"},
        {"Authorization": "Bearer \xe9"},
    ):
        response = ask(**headers)
        assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert KEY not in response.text
    if form is not None:
        assert {name: type(value) for name, value in response.json().items()} == form
    assert "the request has another API key" in response.text
    assert "the request has no API key; send the server's as Authorization: Bearer KEY" in ask().text
    for headers in ({"Authorization": f"Bearer {KEY}"}, {"authorization": f"bearer  {KEY}"}):
        assert ask(**headers).status_code != 401


def test_health_needs_no_api_key_and_nothing_shows_it(locked):
    assert requests.get(f"{locked.root}/health", timeout=HANGS).status_code == 200
    azure = requests.get(f"{locked.root}/v1/models", headers={"api-key": KEY}, timeout=HANGS)
    assert azure.status_code == 200
    metrics = requests.get(f"{locked.root}/metrics", headers={"Authorization": f"Bearer {KEY}"}, timeout=HANGS).text
    assert 'code="UNAUTHENTICATED"' in metrics
    assert KEY not in metrics
    assert locked.log
    assert not [line for line in locked.log if KEY in line]


def test_grpc_needs_the_api_key_but_for_health(locked):
    request = locked.request(x=np.zeros(1, np.float32))
    for metadata in ((), (("authorization", "Bearer wrong"),), (("authorization", KEY),)):
        with pytest.raises(grpc.RpcError) as caught:
            locked.stub.Predict(request, HANGS, metadata=metadata)
        assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
        assert KEY not in caught.value.details()
    assert locked.stub.Predict(request, HANGS, metadata=[("authorization", f"Bearer {KEY}")]).outputs
    health = health_pb2_grpc.HealthStub(locked.channel).Check(health_pb2.HealthCheckRequest(), HANGS)
    assert health.status == health_pb2.HealthCheckResponse.SERVING

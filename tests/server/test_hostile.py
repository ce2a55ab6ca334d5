"""Clients that send whatever they like are told what is wrong with it, and the others get their answers."""

import gzip
import json
import random
import zlib

import grpc
import numpy as np
import pytest
import requests
import tensorflow as tf
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow_serving.apis import get_model_status_pb2, predict_pb2

from . import toy
from .servers import HANGS, output

pytestmark = pytest.mark.timing
ENGINES = toy.ENGINES

SIGNATURES = ["serving_default", "scaled", "text", "whole", "words", "types", "square", "no", ""]
INPUTS = ["x", "scale", "text", "inputs", "int32", "half", "y", ""]
SCALARS = [0, -1, 1.5, 1e39, 2**31, 2**63, 2**64, 10**400, True, None, "", "a", "\ud800", "b" * 10_000]
SCALARS += [float("nan"), float("inf"), {"b64": "!"}, {"b64": "YQ"}, {"b64": 1}, {}, []]
GOOD = [
    {"instances": [1, 2.5]},
    {"inputs": {"x": [1, 2.5]}},
    {"signature_name": "scaled", "instances": [{"x": [1, 2], "scale": 3}]},
    {"signature_name": "text", "instances": ["a", {"b64": "YQ=="}]},
]
URLS = ["", "/embed", "/embed_sparse", "/predict", "/rerank", "/similarity", "/tokenize", "/decode", "/v1/embeddings"]
FIELDS = [
    "inputs",
    "model",
    "ids",
    "query",
    "texts",
    "parameters",
    "truncate",
    "prompt_name",
    "normalize",
    "dimensions",
]
FIELDS += ["source_sentence", "sentences", "raw_scores", "input", "documents"]
METHODS = ["Predict", "Classify", "Regress", "GetModelMetadata", "MultiInference", "NoSuchMethod"]


def tree(chance, depth=0, names=INPUTS):
    """Any JSON value."""
    kind = chance.random()
    if depth > 4 or kind < 0.4:
        return chance.choice(SCALARS)
    if kind < 0.7:
        return [tree(chance, depth + 1, names) for _ in range(chance.randrange(4))]
    return {chance.choice(names): tree(chance, depth + 1, names) for _ in range(chance.randrange(4))}


def damaged(chance, data):
    """The bytes with some replaced, cut off or repeated."""
    data = bytearray(data)
    for _ in range(chance.randrange(1, 6)):
        start = chance.randrange(len(data) + 1)
        end = start + chance.randrange(4)
        data[start:end] = chance.choice([b"", chance.randbytes(2), b"\xff" * 9, b"[" * 70, b"9" * 5000, data[:20]])
    return bytes(data)


def document(chance):
    asked = {"signature_name": chance.choice(SIGNATURES)}
    return asked | {chance.choice(["instances", "inputs", "examples", "context"]): tree(chance) for _ in range(2)}


def send_http(chance, server):
    body = json.dumps(chance.choice([document(chance), chance.choice(GOOD)])).encode()
    headers = {}
    if chance.random() < 0.2:
        body, headers = gzip.compress(body), {"Content-Encoding": chance.choice(["gzip", "br", "deflate", "x"])}
    if chance.random() < 0.5:
        body = damaged(chance, body)
    elif chance.random() < 0.5:
        fields = {chance.choice(FIELDS): tree(chance, 2, FIELDS) for _ in range(3)}
        asked = chance.choice([fields, {"inputs": ["1", "2"]}, {"inputs": ["1"]} | fields])
        return requests.post(server.root + chance.choice(URLS), json.dumps(asked), timeout=HANGS)
    which = chance.choice(["", "", "/versions/1", f"/versions/{10 ** chance.randrange(4000)}", "/labels/%ff", "/%00"])
    verb = chance.choice([":predict", ":predict", ":classify", ":regress", ":PREDICT", "", "/metadata", ":%70redict"])
    method = chance.choice(["POST"] * 8 + ["GET", "PUT", "HEAD", "OPTIONS"])
    return requests.request(method, server.url + which + verb, data=body, headers=headers, timeout=HANGS)


def tensor(chance):
    proto = TensorProto(dtype=chance.choice([1, 1, 3, 7, 7, 9, 19, 20, 21, 101, 999, -1]))
    for _ in range(chance.randrange(3)):
        proto.tensor_shape.dim.add(size=chance.choice([0, 1, 2, 3, -1, 2**31, 2**62]))
    proto.float_val.extend([1.0] * chance.randrange(4))
    proto.int_val.extend([300, -1][: chance.randrange(3)])
    proto.string_val.extend([b"\xff", b"a" * 1000][: chance.randrange(3)])
    proto.tensor_content = chance.choice([b"", b"", chance.randbytes(8)])
    return proto


def send_rpc(chance, server):
    spec = {"name": chance.choice([server.name] * 5 + ["", "other"]), "signature_name": chance.choice(SIGNATURES)}
    predict = predict_pb2.PredictRequest(model_spec=spec, output_filter=["y"][: chance.randrange(2)])
    for _ in range(chance.randrange(3)):
        predict.inputs[chance.choice(INPUTS)].CopyFrom(tensor(chance))
    status = get_model_status_pb2.GetModelStatusRequest(model_spec=spec)
    status.model_spec.version.value = chance.choice([0, 1, -1, 2**63 - 1])
    message = chance.choice([predict, predict, status]).SerializeToString()
    if chance.random() < 0.3:
        message = damaged(chance, message)
    service, method = "PredictionService", chance.choice(METHODS)
    if method == "GetModelMetadata" and chance.random() < 0.5:
        service, method = "ModelService", "GetModelStatus"
    return server.channel.unary_unary(f"/tensorflow.serving.{service}/{method}").future(message, HANGS)


NO_FAULTS = {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}
NO_FAULTS |= {grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.RESOURCE_EXHAUSTED}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_hostile_clients(start, toy_versions, seed):
    chance, server = random.Random(seed), start(toy_versions)
    answered = 0
    for number in range(100):
        response = send_http(chance, server)
        assert response.status_code < 500 or response.status_code == 501, (
            number,
            response.request.url,
            response.request.body,
            response.text,
        )
        call = send_rpc(chance, server)
        assert call.code() in NO_FAULTS, (number, call.code(), call.details())
        answered += (response.status_code == 200) + (call.code() == grpc.StatusCode.OK)
    assert 0 < answered < 150  # not all was refused, and much was
    assert server.post(":predict", {"instances": [1]}).json() == {"predictions": [2.0]}
    assert output(server.predict(x=np.array([1], np.float32)), "y").tolist() == [2]
    assert not [line for line in server.log if "failed" in line]


@pytest.mark.slow
def test_requests_that_hold_too_much(server):
    """Each is refused in short, though parsing or computing it would take a minute."""

    def refused(body, **headers):
        response = server.post(":predict", body, headers=headers)
        assert list(response.json()) == ["error"]
        return response.status_code, response.json()["error"]

    def rows(unit, count):
        return b'{"signature_name": "text", "instances": [' + b",".join([unit] * count) + b"]}"

    values = "the body has more than 1048576 commas and opening brackets; send several requests, or use gRPC"
    assert refused(rows(b'""', 5_000_000)) == (400, values)
    assert refused(rows(b"[[0]]", 2_500_000)) == (400, values)
    too_many = "the request has {} rows, more than 65536; send several requests"
    assert refused(rows(b'""', 65_537)) == (400, too_many.format(65_537))
    assert refused(json.dumps({"inputs": [1] * 70_000}).encode()) == (400, too_many.format(70_000))
    packer = zlib.compressobj(wbits=31)
    first, other = (packer.compress(b" " * 2**20) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    bomb = first + 1023 * other
    assert refused(bomb, **{"Content-Encoding": "gzip"}) == (413, "the body is larger than 16777216 bytes")
    for count, message in (
        (70_000, too_many.format(70_000)),
        (2**21, f"the input text of shape [{2**21}] takes more than 16777216 bytes"),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            server.predict("text", text=tf.make_tensor_proto(["a"], shape=[count]))
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.INVALID_ARGUMENT, message)
    most = server.post(":predict", json.dumps({"inputs": [1] * 65_536}).encode())
    assert most.json() == {"outputs": [2.0] * 65_536}

"""What a client of TF Serving's REST interface sees."""

import base64
import gzip
import json
import math
import socket
import struct
from pathlib import Path

import numpy as np
import pytest
import requests

from keras_bert.engines.runtime import Spec
from keras_bert.server import json_arrays
from keras_bert.server.errors import ServingError, without_directories

from ..support.messages import assert_names, error_names
from . import toy
from .servers import HANGS, at_once, wait_until

pytestmark = pytest.mark.timing
ENGINES = toy.ENGINES


def answer(response):
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"] == "application/json"
    return response.json()


def error(response):
    assert response.headers["Content-Type"] == "application/json"
    (message,) = response.json().values()
    assert list(response.json()) == ["error"]
    return response.status_code, message


def test_rows_and_columns(server):
    assert answer(server.post(":predict", {"instances": [1, 2.5]})) == {"predictions": [2.0, 5.0]}
    assert answer(server.post(":predict", {"inputs": [1, 2.5]})) == {"outputs": [2.0, 5.0]}
    assert answer(server.post(":predict", {"inputs": {"x": [1, 2.5]}})) == {"outputs": [2.0, 5.0]}
    assert answer(server.post(":predict", {"instances": [{"x": 1}]})) == {"predictions": [2.0]}


def test_several_inputs_and_outputs(server):
    rows = [{"x": [1, 2], "scale": 3}, {"x": [4, 5], "scale": 1}]
    assert answer(server.post(":predict", {"signature_name": "scaled", "instances": rows})) == {
        "predictions": [{"product": [3.0, 6.0], "total": 9.0}, {"product": [4.0, 5.0], "total": 9.0}]
    }
    columns = {"x": [[1, 2], [4, 5]], "scale": [3, 1]}
    assert answer(server.post(":predict", {"signature_name": "scaled", "inputs": columns})) == {
        "outputs": {"product": [[3.0, 6.0], [4.0, 5.0]], "total": [9.0, 9.0]}
    }


def test_versions_and_names_in_the_url(server):
    expected = {"predictions": [2.0]}
    assert answer(server.post("/versions/1:predict", {"instances": [1]})) == expected
    assert answer(server.post("/VERSIONS/1:Predict", {"instances": [1]})) == expected
    url = server.url.replace("toy", "%74oy")
    assert answer(requests.post(url + ":predict", json={"instances": [1]}, timeout=HANGS)) == expected


def test_strings_and_bytes(server):
    texts = ["Grüße, 世界", "", "🙂"]
    body = {"signature_name": "text", "instances": texts}
    rows = answer(server.post(":predict", body))["predictions"]
    assert [row["length"] for row in rows] == [len(text.encode()) for text in texts]
    assert rows[0]["upper"] == "GRüßE, 世界"
    assert rows[0]["same_bytes"] == {"b64": base64.b64encode(texts[0].encode()).decode()}
    raw = b"\xff\x00not text"
    body["instances"] = [{"b64": base64.b64encode(raw).decode()}, "text"]
    row = answer(server.post(":predict", body))["predictions"][0]
    assert base64.b64decode(row["same_bytes"]["b64"]) == raw
    body["inputs"] = {"text": [{"b64": base64.b64encode(raw).decode().rstrip("=")}]}
    del body["instances"]
    assert answer(server.post(":predict", body))["outputs"]["length"] == [len(raw)]


def test_numbers_survive_unchanged(server):
    numbers = [0.1, 1 / 3, -0.0, 16777215, math.inf, -math.inf, math.nan, 1e-5, 123456.7]
    text = server.post(":predict", json.dumps({"instances": numbers}).encode()).text
    # Times 2 as the model does, in its own precision.
    expected = np.array(numbers, np.float32) * np.float32(2)
    np.testing.assert_array_equal(np.array(json.loads(text)["predictions"], np.float32), expected)
    assert text.startswith('{"predictions":[0.2,0.6666667,-0.0,')  # a whole number still looks like a decimal
    assert ",Infinity,-Infinity,NaN," in text


def test_floats_have_the_digits_of_numpy():
    short = np.outer(np.arange(1, 1000), 10.0 ** np.arange(-12, 12)).ravel()
    values = np.concatenate([short, np.random.default_rng(0).normal(size=10_000)])
    for dtype in (np.float32, np.float16):
        array = values[values < float(np.finfo(dtype).max)].astype(dtype)
        body = json_arrays.to_body({"values": json_arrays.to_lists(array)})
        assert json.loads(body)["values"] == [float(str(value)) for value in array]


def test_every_type(server):
    values = {"int32": [-(2**31)], "int64": [-(2**63)], "uint8": [255], "bool": [True], "double": [1 / 3], "half": [1]}
    body = {"signature_name": "types", "inputs": values}
    assert error(server.post(":predict", body)) == (400, "JSON cannot hold float16; use gRPC")
    del values["half"]
    assert error(server.post(":predict", body)) == (400, '"inputs" lacks half')


@pytest.mark.parametrize(("dtype", "least", "most"), [
    (np.int32, -(2**31), 2**31 - 1), (np.int64, -(2**63), 2**63 - 1), (np.uint8, 0, 255),
    (np.float32, 1 - 2**24, 2**24 - 1), (np.float64, 1 - 2**53, 2**53 - 1),
])  # fmt: skip
def test_the_lowest_and_the_highest_whole_number_of_a_type(dtype, least, most):
    spec = Spec(np.dtype(dtype), (None,))
    assert json_arrays.to_array([least, most], "x", spec).tolist() == [least, most]
    for value in (least - 1, most + 1):
        with error_names(ServingError, "x[0]", value, np.dtype(dtype).name):
            json_arrays.to_array([value], "x", spec)


def test_what_cannot_be_merged(server):
    assert answer(server.post(":predict", {"signature_name": "whole", "inputs": [1, 2]})) == {"outputs": 1.5}
    message = 'the outputs cannot be split into rows: mean (); ask with "inputs"'
    assert error(server.post(":predict", {"signature_name": "whole", "instances": [1, 2]})) == (400, message)
    texts = ["one two three", "one", "one two"] * 8
    responses = at_once(
        lambda text=text: server.post(":predict", {"signature_name": "words", "instances": [text]}) for text in texts
    )
    assert [answer(response)["predictions"] for response in responses] == [[text.split()] for text in texts]


def test_inputs_of_different_widths_at_once(server):
    rows = [[float(i)] * (i % 4) for i in range(1, 40) if i % 4]
    responses = at_once(
        lambda row=row: server.post(":predict", {"signature_name": "square", "instances": [row]}) for row in rows
    )
    assert [answer(response)["predictions"] for response in responses] == [[sum(x * x for x in row)] for row in rows]


@pytest.mark.parametrize("verb", ["classify", "regress"])
def test_other_verbs_of_tf_serving_are_unimplemented(server, verb):
    status, message = error(server.post(f":{verb}", {"examples": [{"x": 1.0}]}))
    assert (status, message) == (501, f"this server answers :predict; use TF Serving for :{verb}")


NOT_A_LIST = '"{}" is not a list of at least one row'
ALIKE = "a list of another length or depth than its neighbours; the input takes float32"
SEVERAL = "the signature scaled has several inputs: give objects with the keys scale, x"
KEYS = "instances[{}] is not an object with exactly the keys {}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "the body is not JSON: Expecting value"),
        (b'{"instances": [1', "the body is not JSON: Expecting ',' delimiter"),
        (b'{"instances": ["\xff"]}', "the body is not JSON: 'utf-8' codec can't decode byte 0xff in position 16"),
        (b'{"a":' * 100_000, "the body is not JSON: "),
        (b'{"instances": [' + b"1" * 5000 + b"]}", "the body is not JSON: Exceeds the limit"),
        (b"[1, 2]", "the body is a list, not a JSON object"),
        ({}, 'a request has either "instances" or "inputs"'),
        ({"instances": [1], "inputs": [1]}, 'a request has either "instances" or "inputs"'),
        ({"instances": 1}, NOT_A_LIST.format("instances")),
        ({"instances": []}, NOT_A_LIST.format("instances")),
        ({"instances": [1, "a"]}, 'x[1] is "a"; the input takes float32'),
        ({"instances": ["a" * 1000]}, f'x[0] is "{"a" * 99}...; the input takes float32'),
        ({"instances": [True]}, "x[0] is true; the input takes float32"),
        ({"instances": [16777217]}, "x[0] is 16777217; the input takes float32"),
        ({"instances": [1e39]}, "x[0] is 1e+39; the input takes float32"),
        ({"signature_name": "busy", "instances": [2**31]}, f"rounds[0] is {2**31}; the input takes int32"),
        ({"instances": [[1, 2], [1]]}, "x[0] is " + ALIKE),
        ({"instances": [[[1], [2]], [[1, 2]]]}, "x[0] is " + ALIKE),
        ({"inputs": [1, [1]]}, "x[1] is " + ALIKE),
        (b'{"inputs": ' + b"[" * 65 + b"1" + b"]" * 65 + b"}", "x" + "[0]" * 64 + " is " + ALIKE),
        ({"inputs": {"y": [1]}}, '"inputs" lacks x'),
        ({"inputs": [[1, 2]]}, "the input x has the shape (1, 2); the signature needs (None,)"),
        (b'{"inputs": ' + b"[" * 64 + b"1" + b"]" * 64 + b"}", "the input x has the shape (1, 1, 1, "),
        ({"instances": [{"y": 1}]}, KEYS.format(0, "x")),
        ({"instances": [{"x": 1}, 1]}, KEYS.format(1, "x")),
        ({"instances": [1, {"x": 1}]}, "x[1] is an object; the input takes float32"),
        ({"signature_name": "no", "instances": [1]}, "no signature no; the model has "),
        ({"signature_name": 1, "instances": [1]}, "signature_name is 1, not a string"),
        ({"signature_name": "scaled", "instances": [[1, 2]]}, SEVERAL),
        ({"signature_name": "scaled", "instances": [{"x": [1, 2]}]}, KEYS.format(0, "scale, x")),
        ({"signature_name": "text", "instances": ["fine", "poison"]}, "assertion failed: [the text is poison]"),
        ({"signature_name": "text", "instances": [{"b64": "!"}]}, 'not base64: "!"'),
        ({"signature_name": "text", "inputs": [{"b65": "!"}]}, "text[0] is an object; the input takes string"),
        (b'{"signature_name": "text", "inputs": ["\\ud800"]}', "a string has half of a surrogate pair"),
    ],
)
def test_requests_to_predict_that_are_wrong(server, body, expected):
    status, message = error(server.post(":predict", body))
    assert message.startswith(expected)
    assert status == 400


@pytest.mark.parametrize(
    ("method", "path", "status", "expected"),
    [
        ("POST", "/v1/models/toy:run", 400, "no such URL: POST /v1/models/toy:run"),
        ("PUT", "/v1/models/toy:predict", 400, "no such URL: PUT /v1/models/toy:predict"),
        ("POST", "/v1/models/toy/versions/x:predict", 400, "no such URL: POST /v1/models/toy/versions/x:predict"),
        ("POST", f"/v1/models/toy/versions/{'9' * 5000}:predict", 400, "not a model and its version: /v1/models/toy"),
        ("GET", f"/v1/models/toy/versions/{'9' * 5000}", 400, "not a model and its version: /v1/models/toy/versions/9"),
        ("POST", "/v1/models/other:predict", 404, "no model other; toy is served"),
        ("POST", "/v1/models/toy/versions/7:predict", 404, "version 7 of the model toy is not served"),
        ("POST", "/v1/models/toy/labels/new:predict", 400, "no version has the label new: give a number, or none"),
        ("GET", "/v1/models/toy/versions/7", 404, "the model toy has no version 7"),
        ("GET", "/v1/models/toy/versions/7/metadata", 404, "version 7 of the model toy is not served"),
    ],
)
def test_urls_that_are_wrong(server, method, path, status, expected):
    url = f"http://127.0.0.1:{server.rest_port}{path}"
    found, message = error(requests.request(method, url, json={"instances": [1]}, timeout=HANGS))
    assert found == status
    assert message.startswith(expected)


OTHER_URLS = ["GET /", "POST /v1", "POST /v1/chat/completions", "POST /embeddings", "GET /v1/rerank"]
OTHER_URLS += ["GET /v1/embeddings?a=1", "POST /v1/models", "DELETE /v1/models/toy"]


@pytest.mark.parametrize("asked", [*OTHER_URLS, "GET /v1/models/toy/parts"])
def test_other_urls_that_are_wrong_get_openais_error_and_those_that_exist(server, asked):
    method, path = asked.split()
    response = requests.request(method, server.root + path, json={"input": "a"}, timeout=HANGS)
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (404, "invalid_request_error")
    assert (error["code"], error["param"]) == ("not_found", None)
    asked = asked.partition("?")[0]
    assert_names(error["message"], f"no such URL: {asked};", "POST /v1/embeddings", "/v1/rerank", "GET /v1/models")


@pytest.mark.parametrize("end", ["", "/", "?api-version=2024-02-01", "/?a=b/c&d"])
def test_urls_may_have_a_slash_and_a_query_string(server, end):
    urls = {f"{path}/embeddings": {"input": "1"} for path in ("/v1", "/openai/v1", "/openai/deployments/toy")}
    for path, body in (*urls.items(), ("/v1/models/toy:predict", {"instances": [1]})):
        answer(requests.post(server.root + path + end, json=body, timeout=HANGS))
    for path in ("/v1/models", "/v1/models/toy", "/v1/models/toy/metadata", "/health", "/metrics"):
        response = requests.get(server.root + path + end, timeout=HANGS)
        assert (response.status_code, len(response.content)) == (200, int(response.headers["Content-Length"]))
        head = requests.head(server.root + path + end, timeout=HANGS)
        assert (head.status_code, head.content) == (200, b"")
        assert path == "/metrics" or head.headers["Content-Length"] == response.headers["Content-Length"]


def test_what_clients_expect(server):
    body = b'{"instances": [1]}'
    for expect, status in ((b"100-continue", b"100"), (b"\xff", b"417"), (b"", b"200")):
        with socket.create_connection(("127.0.0.1", server.rest_port)) as connection:
            head = b"POST /v1/models/toy:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\nExpect: %s\r\n\r\n"
            connection.sendall(head % expect + body)
            assert connection.makefile("rb").readline().split()[1] == status


def test_a_byte_order_mark_before_json(server):
    assert answer(server.post(":predict", b'\xef\xbb\xbf{"instances": [1]}')) == {"predictions": [2.0]}


def test_where_the_servers_files_are_is_not_told():
    for message, expected in (
        ("no file at: /srv/models/toy/2/{a|b}", "no file at: {a|b}"),
        ("/srv/my models/toy/2/variables/x: no file", "variables/x: no file"),
        ("OSError: [Errno 2] no file: '/tmp/a/b.txt'", "OSError: [Errno 2] no file: 'b.txt'"),
        ("no such URL: GET http://host/v1/a; node a/b/c, 1/2", "no such URL: GET http://host/v1/a; node a/b/c, 1/2"),
    ):
        assert without_directories(message, Path("/srv/my models/toy/2")) == expected


@pytest.mark.parametrize("accept", ["text/plain; version=x", "application/openmetrics-text; version=1.0.0.\xff", "a/b"])
def test_metrics_for_clients_that_accept_what_there_is_not(server, accept):
    response = requests.get(f"{server.root}/metrics", headers={"Accept": accept.encode("latin-1")}, timeout=HANGS)
    assert (response.status_code, response.headers["Content-Type"][:26]) == (200, "text/plain; version=0.0.4;")


def test_status_and_metadata(server):
    status = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    found = answer(requests.get(f"{server.url}/versions/1", timeout=HANGS))
    assert found == {"model_version_status": [status]}
    whole = answer(requests.get(server.url, timeout=HANGS))
    assert whole.pop("created") > 0
    assert whole == found | {"id": "toy", "object": "model", "owned_by": "keras_bert"}  # for OpenAI's clients
    for path in ("/metadata", "/versions/1/metadata"):
        found = answer(requests.get(server.url + path, timeout=HANGS))
        assert found["model_spec"] == {"name": "toy", "version": "1", "signature_name": ""}
        signatures = found["metadata"]["signature_def"]["signature_def"]
        assert signatures["serving_default"]["method_name"] == "tensorflow/serving/predict"
        tensor = signatures["scaled"]["inputs"]["x"]
        assert tensor["dtype"] == "DT_FLOAT"
        assert [each["size"] for each in tensor["tensor_shape"]["dim"]] == ["-1", "2"]


def test_gzip(server):
    packed = gzip.compress(json.dumps({"instances": [1]}).encode())
    headers = {"Content-Encoding": "gzip"}
    assert answer(server.post(":predict", packed, headers=headers)) == {"predictions": [2.0]}
    for body, coding, expected in (
        (b"not packed", "gzip", "the body is not in gzip's format: Er"),
        (packed[:-9], "gzip", "the body ends before its gzip data does"),
        (packed, "compress", "the Content-Encoding is compress; use gzip, or none"),
    ):
        status, message = error(server.post(":predict", body, headers={"Content-Encoding": coding}))
        assert (status, message[: len(expected)]) == (400, expected)


def test_too_large(server):
    too_large = (413, "the body is larger than 16777216 bytes")
    assert error(server.post(":predict", b" " * (16 * 2**20 + 1))) == too_large
    bomb = gzip.compress(b" " * 17 * 2**20)
    assert error(server.post(":predict", bomb, headers={"Content-Encoding": "gzip"})) == too_large
    assert answer(server.post(":predict", b'{"instances": [1]}' + b" " * (16 * 2**20 - 18)))


def test_a_client_that_hangs_up(start, toy_versions):
    server = start(toy_versions)
    for linger in (struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)):  # with a reset, and without
        with socket.create_connection(("127.0.0.1", server.rest_port)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.sendall(b"POST /v1/models/toy:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert answer(server.post(":predict", {"instances": [1]}))
    counter = 'requests_total{code="CANCELLED",method="predict",model="",protocol="http"} 2.0'
    wait_until(lambda: counter in requests.get(f"{server.root}/metrics", timeout=HANGS).text)
    assert not [line for line in server.log if "failed" in line]

"""What a client of TF Serving's REST interface sees."""

import base64
import gzip
import json
import math
import socket
import struct

import numpy as np
import pytest
import requests

from .servers import HANGS, at_once


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
    assert text.startswith('{"predictions": [0.2, 0.6666667, -0.0, ')  # a whole number still looks like a decimal
    assert ", Infinity, -Infinity, NaN, " in text


def test_every_type(server):
    values = {"int32": [-(2**31)], "int64": [-(2**63)], "uint8": [255], "bool": [True], "double": [1 / 3], "half": [1]}
    body = {"signature_name": "types", "inputs": values}
    status, message = error(server.post(":predict", body))
    assert (status, message) == (501, "Conversion of JSON Value: 1 to type: half")
    del values["half"]
    assert error(server.post(":predict", body)) == (400, "Missing named input: half in 'inputs' object.")


def test_what_cannot_be_merged(server):
    assert answer(server.post(":predict", {"signature_name": "whole", "inputs": [1, 2]})) == {"outputs": 1.5}
    assert error(server.post(":predict", {"signature_name": "whole", "instances": [1, 2]})) == (
        400,
        "Tensor name: mean has no shape information ",
    )
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


def test_classify_and_regress(server):
    body = {"signature_name": "classify", "examples": [{"x": 0.25}, {"x": [1.0]}]}
    assert answer(server.post(":classify", body)) == {
        "results": [[["small", 0.25], ["smaller", 0.75]], [["small", 1.0], ["smaller", 0.0]]]
    }
    body = {"signature_name": "classify_scores", "context": {"x": 0.5}, "examples": [{}, {"other": "text"}]}
    assert answer(server.post(":classify", body)) == {"results": [[["", 0.5]], [["", 0.5]]]}
    body = {"signature_name": "regress", "examples": [{"x": 80.0}, {"x": 3.0}]}
    assert answer(server.post(":regress", body)) == {"results": [40.0, 1.5]}


CLASSIFY = "tensorflow/serving/classify"


@pytest.mark.parametrize(
    ("verb", "body", "expected"),
    [
        (":classify", {}, "JSON Value: {} When method is classify, key 'examples' is expected and was not found"),
        (":classify", {"examples": 1}, "JSON Value: {\"examples\": 1} Expecting 'examples' value to be an list/array"),
        (":classify", {"examples": []}, "JSON Value: {\"examples\": []} 'examples' value is an empty array"),
        (":classify", {"examples": [1]}, "Example must be JSON object but got JSON Number"),
        (":classify", {"examples": [{"x": None}]}, "Feature: x has element with unexpected JSON type: Null"),
        (":classify", {"examples": [{"x": [[1]]}]}, "Feature: x has element with unexpected JSON type: Array"),
        (
            ":classify",
            {"examples": [{"x": [1, "a"]}]},
            "Unexpected element type in feature: x expecting type: int64",
        ),
        (":classify", {"examples": [{"x": 2**63}]}, "Feature: x has uint64 element. Only int64 is supported."),
        (
            ":classify",
            {"examples": [{"x": 1.0}]},
            f"Expected classification signature method_name to be {CLASSIFY}. Was: tensorflow/serving/predict",
        ),
        (
            ":regress",
            {"examples": [{"x": 1.0}], "signature_name": "classify"},
            f"Expected regression signature method_name to be tensorflow/serving/regress. Was: {CLASSIFY}",
        ),
        (
            ":classify",
            {"examples": [{"x": 1.0}], "signature_name": "missing"},
            "No signature was found with the name: missing",
        ),
    ],
)
def test_requests_to_classify_that_are_wrong(server, verb, body, expected):
    assert error(server.post(verb, body)) == (400, expected)


IN_ROW = "Failed to process element: {} of 'instances' list. Error: INVALID_ARGUMENT: "


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "JSON Parse error: The document is empty"),
        (b"instances = [1, 2]", "JSON Parse error: Invalid value. at offset: 0"),
        (b'{"instances": [1', "JSON Parse error: Missing a comma or ] after an array element. at offset: 16"),
        (b'{"instances": [1]} x', "JSON Parse error: The document root must not be followed by other values. at"),
        (b'{"instances": ["\xff"]}', "JSON Parse error: Invalid encoding in string. at offset: 16"),
        (b'{"a":' * 100_000, "JSON Parse error: "),
        (b"[1, 2]", "JSON Value: [1, 2] Is not object"),
        ({}, "Missing 'inputs' or 'instances' key"),
        ({"instances": [1], "inputs": [1]}, "JSON Value: {"),
        ({"instances": 1}, "JSON Value: {\"instances\": 1} Excepting 'instances' to be an list/array"),
        ({"instances": []}, "JSON Value: {\"instances\": []} No values in 'instances' array"),
        ({"instances": ["a"]}, IN_ROW.format(0) + 'JSON Value: "a" Type: String is not of expected type: float'),
        ({"instances": [True]}, IN_ROW.format(0) + "JSON Value: true Type: True is not of expected type: float"),
        ({"instances": [None]}, IN_ROW.format(0) + "JSON Value: null Type: Null is not of expected type: float"),
        ({"instances": [16777217]}, IN_ROW.format(0) + "Cannot convert JSON value: 16777217 to float without loss of"),
        ({"instances": [1e39]}, IN_ROW.format(0) + "Cannot convert JSON value: 1e+39 to float without loss of"),
        ({"instances": [[1, 2], [1]]}, IN_ROW.format(1) + "Expecting tensor size: 2 but got: 1"),
        ({"instances": [[[1], [2]], [[1, 2]]]}, IN_ROW.format(1) + "Expecting shape [2,1] but got: [1,2]"),
        ({"inputs": [[1, 2], [1]]}, "Encountered list at unexpected size: 1 at level: 1 expected size: 2"),
        ({"inputs": [1, [1]]}, "Encountered list at unexpected level: 1 expected < 1"),
        ({"inputs": [[1], 1]}, "JSON Value: 1 found at incorrect level: 2 in the JSON DOM. Expected at level: 2"),
        ({"inputs": {"y": [1]}}, "Missing named input: x in 'inputs' object."),
        ({"inputs": [[1, 2]]}, "input x has shape [1,2], but the signature expects [-1]"),
        ({"inputs": 1}, "input x has shape [], but the signature expects [-1]"),
        (
            {"instances": [{"y": 1}]},
            IN_ROW.format("0 key: y") + "JSON object: does not have named input: y",
        ),
        ({"instances": [{"x": 1}, 1]}, "Expecting object but got list at item 1 of input list"),
        ({"instances": [1, {"x": 1}]}, "Expecting value/list but got object at item 1 of input list"),
        ({"signature_name": "no", "instances": [1]}, 'Serving signature name: "no" not found in signature def'),
        ({"signature_name": 1, "instances": [1]}, "JSON Value: {"),
        (
            {"signature_name": "scaled", "instances": [[1, 2]]},
            "instances is a plain list, but expecting list of objects as multiple input tensors required",
        ),
        (
            {"signature_name": "scaled", "inputs": [[1, 2]]},
            "inputs is a plain value/list, but expecting an object as multiple input tensors required",
        ),
        (
            {"signature_name": "scaled", "instances": [{"x": [1, 2]}]},
            "Failed to process element: 0 of 'instances' list. JSON object: {\"x\": [1, 2]} keys must be",
        ),
        ({"signature_name": "text", "instances": ["fine", "poison"]}, "assertion failed: [the text is poison]"),
        ({"signature_name": "text", "instances": [{"b64": "!"}]}, IN_ROW.format(0) + "Unable to base64 decode"),
        (
            {"signature_name": "text", "inputs": [{"b65": "!"}]},
            'JSON Value: {"b65": "!"} not formatted correctly for base64 data',
        ),
        (
            b'{"signature_name": "text", "inputs": ["\\ud800"]}',
            "JSON Parse error: The surrogate pair in string is invalid.",
        ),
    ],
)
def test_requests_to_predict_that_are_wrong(server, body, expected):
    status, message = error(server.post(":predict", body))
    assert message.startswith(expected)
    assert status == 400


@pytest.mark.parametrize(
    ("method", "path", "status", "expected"),
    [
        ("GET", "/v1/models", 400, "Missing model name in request."),
        ("POST", "/v1/models", 400, "Malformed request: POST /v1/models"),
        ("GET", "/v1/foo", 400, "Malformed request: GET /v1/foo"),
        ("GET", "/v1/models/toy:predict", 400, "Malformed request: GET /v1/models/toy:predict"),
        ("POST", "/v1/models/toy:run", 400, "Malformed request: POST /v1/models/toy:run"),
        ("PUT", "/v1/models/toy:predict", 400, "Malformed request: PUT /v1/models/toy:predict"),
        ("POST", "/v1/models/toy/versions/x:predict", 400, "Malformed request: POST /v1/models/toy/versions/x:predict"),
        ("POST", f"/v1/models/toy/versions/{2**64}:predict", 400, f"Failed to convert version: {2**64} to numeric."),
        ("POST", "/v1/models/other:predict", 404, "Servable not found for request: Latest(other)"),
        ("POST", "/v1/models/toy/versions/7:predict", 404, "Servable not found for request: Specific(toy, 7)"),
        ("POST", "/v1/models/toy/labels/new:predict", 400, "Unrecognized servable version label: new"),
        ("GET", "/v1/models/other", 404, "Could not find any versions of model other"),
        ("GET", "/v1/models/toy/versions/7", 404, "Could not find version 7 of model toy"),
        ("GET", "/v1/models/toy/versions/7/metadata", 404, "Servable not found for request: Specific(toy, 7)"),
        ("GET", "/", 404, "Not found: /"),
    ],
)
def test_urls_that_are_wrong(server, method, path, status, expected):
    url = f"http://127.0.0.1:{server.rest_port}{path}"
    assert error(requests.request(method, url, json={"instances": [1]}, timeout=HANGS)) == (status, expected)


def test_status_and_metadata(server):
    status = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    for path in ("", "/versions/1"):
        assert answer(requests.get(server.url + path, timeout=HANGS)) == {"model_version_status": [status]}
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
    status, _ = error(server.post(":predict", b"not packed", headers=headers))
    assert status == 400
    bomb = gzip.compress(b" " * 17 * 2**20)
    status, _ = error(server.post(":predict", bomb, headers=headers))
    assert status == 413


def test_too_large(server):
    status, message = error(server.post(":predict", b" " * (16 * 2**20 + 1)))
    assert (status, message) == (413, "Maximum request body size 16777216 exceeded.")
    assert answer(server.post(":predict", b'{"instances": [1]}' + b" " * (16 * 2**20 - 18)))


def test_a_client_that_hangs_up(server):
    for linger in (struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)):  # with a reset, and without
        with socket.create_connection(("127.0.0.1", server.rest_port)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.sendall(b"POST /v1/models/toy:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert answer(server.post(":predict", {"instances": [1]}))

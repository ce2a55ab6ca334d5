"""What a client made of tensorflow-serving-api alone sees."""

import grpc
import numpy as np
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_service_pb2_grpc, predict_pb2

from .servers import HANGS, at_once, output

pytestmark = pytest.mark.timing

BAD = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND


def fails(call) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code(), caught.value.details()


def floats(*values):
    return np.array(values, np.float32)


def test_predict(server):
    response = server.predict(x=floats(1, 2.5))
    assert list(response.outputs["y"].float_val) == [2, 5]  # the field that clients read
    assert output(response, "y").tolist() == [2, 5]
    assert response.model_spec.name == "toy"
    assert response.model_spec.version.value == 1
    assert response.model_spec.signature_name == "serving_default"
    assert output(server.predict(version=1, signature="serving_default", x=floats(3)), "y").tolist() == [6]


def test_output_filter(server):
    inputs = {"x": floats([1, 2], [4, 5]), "scale": floats(3, 1)}
    everything = server.predict("scaled", **inputs)
    assert set(everything.outputs) == {"product", "total"}
    assert output(everything, "product").tolist() == [[3, 6], [4, 5]]
    one = server.predict("scaled", outputs=["total"], **inputs)
    assert set(one.outputs) == {"total"}
    assert output(one, "total").tolist() == [9, 9]


def test_a_default_for_an_input_that_is_left_out(server):
    assert output(server.predict("scaled", x=floats([1, 2])), "total").tolist() == [30]


def test_strings(server):
    texts = np.array(["Grüße".encode(), b"", b"\xff\x00"], object)
    response = server.predict("text", text=texts)
    assert response.outputs["same_bytes"].string_val == list(texts)
    assert list(response.outputs["length"].int_val) == [7, 0, 2]


def test_every_type(server):
    inputs = {
        "int32": np.array([-(2**31)], np.int32),
        "int64": np.array([-(2**63)], np.int64),
        "uint8": np.array([255], np.uint8),
        "bool": np.array([True]),
        "double": np.array([1 / 3]),
        "half": np.array([1.5], np.float16),
    }
    response = server.predict("types", **inputs)
    for name, value in inputs.items():
        found = output(response, name)
        assert (found.dtype, found.tolist()) == (value.dtype, value.tolist())


def test_rows_none_and_many(server):
    assert output(server.predict(x=floats()), "y").tolist() == []
    many = np.arange(10_000, dtype=np.float32)
    np.testing.assert_array_equal(output(server.predict(x=many), "y"), many * 2)
    assert output(server.predict("together", x=many), "rows").max() == 16  # computed in parts


def test_scalars_and_fixed_shapes(server):
    response = server.predict("whole", x=floats(1, 2))
    assert output(response, "mean").shape == ()
    assert output(response, "mean") == 1.5


def test_equal_values_spelled_once(server):
    numbers = tf.make_tensor_proto(2.0, tf.float32, [3])
    assert len(numbers.float_val) == 1
    assert output(server.predict(x=numbers), "y").tolist() == [4, 4, 4]
    texts = tf.make_tensor_proto("a" * 1000, shape=[3])
    assert output(server.predict("text", text=texts), "length").tolist() == [1000] * 3
    for signature, name, value, rows in (("", "x", numbers, 10**12), ("text", "text", texts, 20_000)):
        value.tensor_shape.dim[0].size = rows
        code, message = fails(lambda: server.predict(signature, **{name: value}))  # noqa: B023
        assert (code, message) == (BAD, f"the input {name} of shape [{rows}] takes more than 16777216 bytes")


def to(**model):
    return lambda server: predict_pb2.PredictRequest(model_spec=model)


def asking(signature="", **settings):
    return lambda server: server.request(signature, **settings)


def proto(dtype, *sizes, **values):
    return TensorProto(dtype=dtype, tensor_shape={"dim": [{"size": size} for size in sizes]}, **values)


NO_INT8 = "the values of the input uint8 do not fit its shape [0] and its type"
SCALED = {"x": floats([1, 2], [1, 2]), "scale": floats(1, 2, 3)}


@pytest.mark.parametrize(
    ("request_of", "code", "message"),
    [
        (to(), BAD, "the request names no model"),
        (to(name="other"), NOT_FOUND, "no model other; toy is served"),
        (asking(version=7, x=floats(1)), NOT_FOUND, "version 7 of the model toy is not served"),
        (to(name="toy", version_label="new"), BAD, "no version has the label new: give a number, or none"),
        (asking("no", x=floats(1)), grpc.StatusCode.FAILED_PRECONDITION, "no signature no; the model has "),
        (asking(), BAD, "the signature serving_default also needs the input x"),
        (asking(x=floats(1), y=floats(1)), BAD, "the signature serving_default has no input y; it has x"),
        (asking(x=np.array([1], np.int64)), BAD, "the input x takes float32, not DT_INT64"),
        (asking("scaled", x=floats([1, 2, 3])), BAD, "the input x has the shape (1, 3); the signature needs (None, 2)"),
        (asking(x=TensorProto()), BAD, "the input x takes float32, not DT_INVALID"),
        (asking(x=TensorProto(dtype=9999)), BAD, "the input x takes float32, not 9999"),
        (asking(x=TensorProto(dtype=1, tensor_shape={"unknown_rank": True})), BAD, "the input x has no shape"),
        (asking(x=proto(1, -1)), BAD, "the input x has no shape"),
        (asking(x=proto(1, 2, float_val=[1, 2, 3])), BAD, "the values of the input x do not fit its shape [2] and its"),
        (asking("types", uint8=proto(tf.uint8.as_datatype_enum, 0, int_val=[300])), BAD, NO_INT8),
        (asking(x=floats(1), outputs=["z"]), BAD, "the signature serving_default has no output z; it has y"),
        (asking(x=floats(1), outputs=["y", "y"]), BAD, "output_filter has y twice"),
        (asking("text", text=["fine", "poison"]), BAD, "assertion failed: [the text is poison]"),
        (asking("scaled", **SCALED), BAD, "Incompatible shapes: [3,1] vs. [2,2]"),
    ],
)
def test_requests_to_predict_that_are_wrong(server, request_of, code, message):
    found, text = fails(lambda: server.stub.Predict(request_of(server), HANGS))
    assert found == code
    assert text.startswith(message)


@pytest.mark.parametrize("signature", ["", "text", "types"])
def test_tensors_without_values(server, signature):
    """Of each type there is, and of some there are not: zeros if it is the right one, and else a plain refusal."""
    for dtype in [*range(40), 101, 9999, -1]:
        for shape in ([], [1], [0, 2], [2**40, 2**40]):
            name = {"": "x", "text": "text", "types": "half"}[signature]
            call = server.stub.Predict.future(server.request(signature, **{name: proto(dtype, *shape)}), HANGS)
            assert call.code() in (grpc.StatusCode.OK, BAD), (dtype, shape, call.details())


def test_a_message_that_cannot_be_parsed(server):
    served = "tensorflow.serving."
    for method in (
        *(f"{served}PredictionService/Predict", f"{served}PredictionService/GetModelMetadata"),
        *(f"{served}ModelService/GetModelStatus", "grpc.health.v1.Health/Check"),
    ):
        call = server.channel.unary_unary(f"/{method}")
        code, message = fails(lambda: call(b"\xff\xff", HANGS))  # noqa: B023
        assert (code, message[:29]) == (BAD, "the request cannot be parsed:"), method
    watch = server.channel.unary_stream("/grpc.health.v1.Health/Watch")
    assert fails(lambda: list(watch(b"\xff\xff", HANGS)))[0] == BAD


def test_too_large(server):
    code, message = fails(lambda: server.predict(x=np.zeros(5_000_000, np.float32)))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in message
    assert output(server.predict(x=floats(1)), "y").tolist() == [2]


@pytest.mark.parametrize("method", ["Classify", "Regress", "MultiInference"])
def test_other_methods_of_tf_serving_are_unimplemented(server, method):
    call = server.channel.unary_unary(f"/tensorflow.serving.PredictionService/{method}")
    message = f"/tensorflow.serving.PredictionService/{method} is not implemented"
    assert fails(lambda: call(b"", HANGS)) == (grpc.StatusCode.UNIMPLEMENTED, message)


def test_metadata(server):
    fields = {"model_spec": {"name": "toy"}, "metadata_field": ["signature_def"]}
    request = get_model_metadata_pb2.GetModelMetadataRequest(**fields)
    response = server.stub.GetModelMetadata(request, HANGS)
    assert response.model_spec.version.value == 1
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    assert signatures.signature_def["text"].inputs["text"].dtype == tf.string.as_datatype_enum
    for fields in (["other"], []):
        request.metadata_field[:] = fields
        code, message = fails(lambda: server.stub.GetModelMetadata(request, HANGS))
        assert (code, message) == (BAD, f"metadata_field is {', '.join(fields) or 'empty'}; expected signature_def")


def test_status(server):
    assert server.states() == {1: "AVAILABLE"}
    stub = model_service_pb2_grpc.ModelServiceStub(server.channel)
    for model, message in (
        ({"name": "other"}, "no model other; toy is served"),
        ({"name": "toy", "version": {"value": 7}}, "the model toy has no version 7"),
    ):
        request = get_model_status_pb2.GetModelStatusRequest(model_spec=model)
        assert fails(lambda request=request: stub.GetModelStatus(request, HANGS)) == (NOT_FOUND, message)


def test_health(server):
    stub = health_pb2_grpc.HealthStub(server.channel)
    response = stub.Check(health_pb2.HealthCheckRequest(), HANGS)
    assert response.status == health_pb2.HealthCheckResponse.SERVING
    code, _ = fails(lambda: stub.Check(health_pb2.HealthCheckRequest(service="other"), HANGS))
    assert code == NOT_FOUND


def test_requests_at_once_are_told_apart(server):
    """64 clients with different numbers of rows, every fourth of whom asks for the impossible."""

    def ask(client):
        texts = [f"{client} {row}" for row in range(client % 5)] + ["poison"] * (client % 4 == 0)
        return server.predict("text", text=np.array(texts, object))

    for client, result in enumerate(at_once(lambda client=client: ask(client) for client in range(64))):
        if client % 4 == 0:
            assert (result.code(), result.details()) == (BAD, "assertion failed: [the text is poison]")
        else:
            expected = [f"{client} {row}".encode() for row in range(client % 5)]
            assert list(result.outputs["same_bytes"].string_val) == expected


def test_requests_at_once_are_computed_together(server):
    most = 0
    for _ in range(20):  # on a busy machine, even what is sent at once may come one after the other
        results = at_once(lambda: server.predict("together", x=floats(*range(3))) for _ in range(64))
        rows = [output(result, "rows").tolist() for result in results]
        assert all(len(row) == 3 for row in rows)
        most = max(most, *(max(row) for row in rows))
        if most > 3:
            break
    assert 3 < most <= 16

"""Exports: served without TensorFlow, and with the answers of SavedModels."""

import grpc
import numpy as np
import pytest
import requests
from tensorflow_serving.apis.get_model_metadata_pb2 import GetModelMetadataRequest, SignatureDefMap

from keras_bert.runtimes import export_onnx
from keras_bert.saved_model import export_serving

from ..support import small
from ..support.tasks import CASES
from . import toy
from .servers import HANGS, output

pytestmark = pytest.mark.timing


def definitions(server, name):
    """The signatures that a model says that it has."""
    answer = requests.get(f"{server.root}/v1/models/{name}/metadata", timeout=HANGS).json()
    return answer["metadata"]["signature_def"]["signature_def"]


def form(value):
    """Keys, in their order, and values, but for the names of tensors and the values of defaults."""
    if isinstance(value, dict):
        return [(key, key if key in ("name", "defaults") else form(each)) for key, each in value.items()]
    return [form(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("engine", ["export"], indirect=True, scope="session")
def test_exports_are_served_beside_saved_models_over_both_protocols(start, engine, toy_versions, tmp_path):
    saved_model = tmp_path / "saved"
    toy.write(saved_model / "1", factor=3)
    alone = toy.write_export(tmp_path / "alone", factor=5)
    server = start(toy_versions, saved_model, alone)
    assert server.ready.startswith("Serving toy version 1, saved version 1, alone version 1 at ")
    for name, factor in (("toy", 2), ("saved", 3), ("alone", 5)):
        server.name = name
        assert output(server.predict(x=np.array([1], np.float32)), "y").tolist() == [factor]
        url = f"{server.root}/v1/models/{name}:predict"
        assert requests.post(url, json={"instances": [1]}, timeout=HANGS).json() == {"predictions": [factor]}
    with pytest.raises(grpc.RpcError) as caught:
        server.predict("text", text=np.array([b"poison"], object))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT

    exported, saved = definitions(server, "alone"), definitions(server, "saved")
    assert exported.keys() == saved.keys() - {"__saved_model_init_op"} == set(toy.NAMES)
    for name in set(toy.NAMES) - {"scaled", "text", "types", "with_token_count"}:  # maps of several keys have no order
        assert form(exported[name]) == form(saved[name])
    for side in ("inputs", "outputs"):
        assert {*map(str, form(exported["types"][side]))} == {*map(str, form(saved["types"][side]))}
    request = GetModelMetadataRequest(model_spec={"name": "alone"}, metadata_field=["signature_def"])
    over_grpc = SignatureDefMap()
    server.stub.GetModelMetadata(request, HANGS).metadata["signature_def"].Unpack(over_grpc)
    assert over_grpc.signature_def["text"].inputs["text"].dtype == 7  # DT_STRING


ASKED = [*small.TEXTS, "the [MASK] was good", "good " * 60]


def close_to(value):
    """The same JSON, but for numbers, which differ by up to 1e-4."""
    if isinstance(value, dict):
        return {key: close_to(each) for key, each in value.items()}
    if isinstance(value, list):
        return [close_to(each) for each in value]
    return pytest.approx(value, rel=0, abs=1e-4) if isinstance(value, float) else value


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:texts truncated")
@pytest.mark.parametrize("name", CASES)
def test_an_export_answers_requests_as_the_saved_model_does(start, tmp_path, name):
    model = CASES[name].model()
    export_serving(model, tmp_path / "saved")
    export_onnx(model, tmp_path / "exported")
    server = start(tmp_path / "saved", tmp_path / "exported")

    def both(path, **body):
        """The status codes and the JSON of both."""
        urls = {each: f"{server.root}{path.format(each)}" for each in ("saved", "exported")}
        bodies = {each: body if "{}" in path else {"model": each, **body} for each in urls}
        answers = [requests.post(urls[each], json=bodies[each], timeout=HANGS) for each in urls]
        return [each.status_code for each in answers], *(each.json() for each in answers)

    saved, exported = (definitions(server, each) for each in ("saved", "exported"))
    assert exported.keys() == saved.keys() & {"serving_default", "with_token_count"}
    for signature, definition in exported.items():
        for side in ("inputs", "outputs"):
            assert {key: form(each) for key, each in definition[side].items()} == {
                key: form(each) for key, each in saved[signature][side].items()
            }
        names = list(definition["inputs"])
        rows = [dict(zip(names, (text, text[::-1]), strict=False)) for text in ASKED]
        columns = {each: [row[each] for row in rows] for each in names}
        for body in ({"instances": rows}, {"inputs": columns}, {"inputs": {each: [] for each in names}}):
            codes, expected, found = both("/v1/models/{}:predict", signature_name=signature, **body)
            assert (codes, found) == ([200, 200], close_to(expected))
        rows[0] = {each: {"b64": "/w=="} for each in names}  # not UTF-8
        codes, expected, found = both("/v1/models/{}:predict", signature_name=signature, instances=rows)
        print(name, codes, expected if codes[0] != 200 else "", found if codes[1] != 200 else "")

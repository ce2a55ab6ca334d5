"""Exports: served without TensorFlow, and with the answers of SavedModels."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import grpc
import numpy as np
import pytest
import requests
from tensorflow_serving.apis.get_model_metadata_pb2 import GetModelMetadataRequest, SignatureDefMap

from keras_bert import BertMultiVectorEncoder, BertSparseEncoder
from keras_bert import server as server_package
from keras_bert.runtimes import export_onnx
from keras_bert.saved_model import export_serving

from ..support import small
from ..support.messages import assert_names
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


# Requests of text-embeddings-inference, of which a task answers some.
TEI = [(path, {"inputs": each}) for path in ("/embed", "/embed_sparse", "/tokenize", "") for each in (ASKED, ASKED[0])]
TEI += [("/decode", {"ids": [[2, 50, 60, 3], [4]]})]
TEI += [("/similarity", {"inputs": {"source_sentence": "a", "sentences": ASKED}})]
TEI += [
    (path, {"inputs": each}) for path in ("", "/predict") for each in (ASKED[:2], [ASKED[:2]], [[x] for x in ASKED])
]
TASKS = {"BertSentenceEncoder": ["/embed", "/similarity", ""], "BertSparseEncoder": ["/embed_sparse", ""]}
TASKS |= {each: ["/predict"] for each in ("BertClassifier", "BertTokenClassifier")}


def close_to(value):
    """The same JSON, but for numbers, which differ by up to 1e-4."""
    if isinstance(value, dict):
        return {key: close_to(each) for key, each in value.items()}
    if isinstance(value, list):
        return [close_to(each) for each in value]
    return pytest.approx(value, rel=0, abs=1e-4) if isinstance(value, float) else value


def ask_both(server, path, **body):
    """The status codes and the JSON of both; of a path without a model, the models are named by the body."""
    urls = {each: f"{server.root}{path.format(each)}" for each in ("saved", "exported")}
    bodies = {each: body if "{}" in path else {"model": each, **body} for each in urls}
    answers = [requests.post(urls[each], json=bodies[each], timeout=HANGS) for each in urls]
    return [each.status_code for each in answers], *(each.json() for each in answers)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:texts truncated")
# In ONNX Runtime: tests of runtimes compare OpenVINO with a SavedModel. Requests do not see how tokens are pooled.
@pytest.mark.parametrize("name", [name for name in CASES if name != "classes by the mean of tokens"])
def test_an_export_answers_requests_as_the_saved_model_does(start, tmp_path, name):
    model = CASES[name].model()
    export_serving(model, tmp_path / "saved")
    export_onnx(model, tmp_path / "exported")
    server = start(tmp_path / "saved", tmp_path / "exported")
    saved, exported = (definitions(server, each) for each in ("saved", "exported"))
    assert exported.keys() == saved.keys() - {"serialized_examples", "__saved_model_init_op"}
    for signature, definition in exported.items():
        for side in ("inputs", "outputs"):
            assert {key: form(each) for key, each in definition[side].items()} == {
                key: form(each) for key, each in saved[signature][side].items()
            }
        names = list(definition["inputs"])
        rows = [dict(zip(names, (text, text[::-1]), strict=False)) for text in ASKED]
        columns = {each: [row[each] for row in rows] for each in names}
        for body in ({"instances": rows}, {"inputs": columns}, {"inputs": {each: [] for each in names}}):
            codes, expected, found = ask_both(server, "/v1/models/{}:predict", signature_name=signature, **body)
            assert (codes, found) == ([200, 200], close_to(expected))
        rows[0] = {each: {"b64": "/w=="} for each in names}
        codes, *answers = ask_both(server, "/v1/models/{}:predict", signature_name=signature, instances=rows)
        assert codes == [400, 400]
        assert all("not valid UTF-8" in each["error"] for each in answers)
    vectors, rank = {"input": ASKED}, {"query": ASKED[0], "texts": ASKED[1:], "return_text": True}
    for path, body in (("/v1/embeddings", vectors), ("/rerank", rank), ("/rerank", rank | {"truncate": False})):
        codes, expected, found = ask_both(server, path, **body)
        assert codes[0] == codes[1]
        if codes[0] == 200:
            same = json.loads(json.dumps(found).replace('"exported"', '"saved"'))
            assert same == close_to(expected)
    answered = []
    for path, body in TEI:
        codes, expected, found = ask_both(server, f"/v1/models/{{}}{path}", **body)
        assert codes[0] == codes[1]
        answered += [path] * (codes[0] == 200)
        assert json.loads(json.dumps(found).replace("exported", "saved")) == close_to(expected)
    assert {*answered} >= {"/tokenize", "/decode", *TASKS.get(type(model).__name__, ())}
    if hasattr(model, "entities"):  # the last one
        names = {"entity_group": "label", "score": "probability", "word": "text", "start": "start", "end": "end"}
        entities = [
            [{name: each[ours] for name, ours in names.items()} for each in row] for row in model.entities(ASKED)
        ]
        assert any(entities)
        assert found == close_to(entities)
    if isinstance(model, BertSparseEncoder):
        texts = model.preprocessor.tokenizer.vocabulary
        _, rows, _ = ask_both(server, "/v1/models/{}/embed_sparse", inputs=ASKED)
        weights = [{texts[each["index"]]: each["value"] for each in row} for row in rows]
        assert weights == close_to(model.encode(ASKED, progress=False))
    if isinstance(model, BertMultiVectorEncoder):
        scores = {each["index"]: each["score"] for each in model.rank("good film", ASKED)}
        for answer in ask_both(server, "/v1/models/{}/rerank", query="good film", texts=ASKED)[1:]:
            assert {each["index"]: each["score"] for each in answer} == close_to(scores)


# Nothing of the machine that only TensorFlow needs, nor the other backends of Keras.
ABSENT = """
import sys
NAMES = {"tensorflow", "tensorflow_text", "tensorflow_serving", "keras", "grpc", "jax", "torch"}
class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in NAMES:
            raise ModuleNotFoundError(f"there is no {name}", name=name)
sys.meta_path.insert(0, Absent)
"""


def test_the_server_is_imported_where_tensorflow_is_not():
    modules = [path.stem for path in Path(server_package.__file__).parent.glob("[!_]*.py")]
    light = sorted({*modules} - {"grpc_service", "saved_model"})
    assert len(light) > 10
    code = ABSENT + f"import importlib; [importlib.import_module(f'keras_bert.server.{{each}}') for each in {light}]"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_exports_are_served_where_tensorflow_is_not(start_process, tmp_path):
    models = {name: CASES[case].model() for name, case in (("vectors", "vectors"), ("ranks", "scores"))}
    for name, model in models.items():
        export_onnx(model, tmp_path / name)
    broken = shutil.copytree(tmp_path / "ranks", tmp_path / "broken")
    (broken / "onnx/model.onnx").write_bytes(b"not a model")
    versions = tmp_path / "versions"
    shutil.copytree(tmp_path / "vectors", versions / "7")
    code = ABSENT + "from keras_bert.cli.__main__ import main; main(prog_name='keras-bert')"
    others = [str(each) for each in (versions, broken, tmp_path / "ranks")]
    server = start_process(tmp_path / "vectors", *others, "--log-requests", code=code)
    assert re.fullmatch(
        r"Serving vectors version 1, versions version 7, ranks version 1 at 127\.0\.0\.1: REST port \d+\n", server.ready
    )
    texts = ["good film", "a cold river"]
    expected = models["vectors"].encode(texts, progress=False)
    for name in ("vectors", "versions"):
        rows = requests.post(f"{server.root}/v1/models/{name}:predict", json={"instances": texts}, timeout=HANGS).json()
        np.testing.assert_allclose(rows["predictions"], expected, rtol=0, atol=1e-4)
    answer = requests.post(f"{server.root}/rerank", json={"query": texts[0], "texts": texts}, timeout=HANGS).json()
    scores = models["ranks"].score([texts[0]] * 2, texts)
    assert {each["index"]: pytest.approx(each["score"], abs=1e-4) for each in answer} == dict(enumerate(scores))
    samples = server.samples()
    assert samples["keras_bert_tokenization_seconds_count", "versions"] == 1
    assert samples["keras_bert_tokenization_seconds_sum", "versions"] > 0
    assert samples["keras_bert_requests_total", "OK", "predict", "versions", "http"] == 1
    assert server.terminate() == 0
    assert server.log[-1].endswith("stopped; requests answered: 3")
    (line,) = [line for line in server.log if "the other models are served" in line]
    assert_names(line, broken, "version 1", "onnx/model.onnx is damaged")

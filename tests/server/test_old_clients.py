"""Clients of transformers' TensorFlow models: the same request gets the same answer from an export of ours."""

import json

import numpy as np
import pytest
import requests

from keras_bert import BertEncoder, BertTokenClassifier
from keras_bert.saved_model import export_encoder, export_serving
from keras_bert.saved_model.transformers_signature import HeadedEncoder

from ..support import small, transformers4
from ..support.messages import error_names
from .servers import HANGS, output

pytestmark = [pytest.mark.slow, pytest.mark.timing]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return transformers4.unpack(tmp_path_factory.mktemp("transformers4"))


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(np.asarray(found[name]), np.asarray(values), rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in transformers4.names() if name.startswith("bert-") and name.count("-") == 1),
        *("distilbert-tokens", "roberta-encoder", "mpnet-encoder", "albert-pretraining", "electra-pretraining"),
        *("electra-encoder", "deberta-v3-sequence"),
    ],
)
def test_outputs_are_those_of_the_old_library_at_padding_too(models, name, untraced):
    (models / name / "vocab.txt").unlink()  # ids need no tokenizer
    inputs, expected = transformers4.arrays(models / name)
    model = HeadedEncoder.from_preset(models / name)
    same(model({each: inputs.get(each, 0 * inputs["input_ids"]) for each in model.input_names}), expected)


@pytest.mark.parametrize("name", ["bert-encoder", "bert-spans", "bert-choices", "distilbert-sequence"])
def test_answers_and_signatures_stay(models, start, tmp_path, name):
    inputs, expected = transformers4.arrays(models / name)
    export_serving(models / name, tmp_path / "model", signature="transformers")
    new = start(tmp_path / "model")
    assert "4 warm-up requests answered" in " ".join(new.log)
    servers = [new]
    if name == "bert-encoder":
        old = start(models / "bert-encoder-saved-model/saved_model")
        servers.append(old)
        assert signatures(old) == signatures(new)
    for server in servers:
        assert signatures(server)["serving_default"]["inputs"] == {
            each: ("DT_INT32", [-1] * values.ndim) for each, values in inputs.items()
        }
        columns = {each: values.tolist() for each, values in inputs.items()}
        answer = server.post(":predict", {"inputs": columns}).json()["outputs"]
        same(answer if len(expected) > 1 else dict.fromkeys(expected, answer), expected)
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        answers = server.post(":predict", {"instances": rows}).json()["predictions"]
        by_name = [each if len(expected) > 1 else dict.fromkeys(expected, each) for each in answers]
        same({each: [answer[each] for answer in by_name] for each in by_name[0]}, expected)
        for signature, dtype in (("", np.int32), ("int64_serving", np.int64)):
            response = server.predict(signature, **{each: values.astype(dtype) for each, values in inputs.items()})
            same({each: output(response, each) for each in response.outputs}, expected)


def signatures(server):
    """Name -> inputs and outputs, each by name: type and sizes."""
    metadata = requests.get(f"{server.url}/metadata", timeout=HANGS).json()["metadata"]
    found = {}
    for name, definition in metadata["signature_def"]["signature_def"].items():
        found[name] = {
            kind: {
                key: (each["dtype"], [int(size["size"]) for size in each["tensor_shape"]["dim"]])
                for key, each in definition[kind].items()
            }
            for kind in ("inputs", "outputs")
        }
    found.pop("__saved_model_init_op", None)
    return found


def test_an_encoder_for_programs_and_old_clients(models, start, tmp_path):
    inputs, expected = transformers4.arrays(models / "bert-encoder")
    export_encoder(BertEncoder.from_preset(models / "bert-encoder"), tmp_path / "model/1", signature="transformers")
    server = start(tmp_path / "model")
    response = server.predict(**inputs)
    same({each: output(response, each) for each in response.outputs}, expected)
    too_long = {each: np.ones([1, 21], np.int32) for each in inputs}
    response = server.post(":predict", {"inputs": {each: values.tolist() for each, values in too_long.items()}})
    assert (response.status_code, "20 positions" in json.dumps(response.json())) == (400, True)
    again = BertEncoder.from_preset(tmp_path / "model/1")
    assert small.same(again, BertEncoder.from_preset(models / "bert-encoder"))


def test_what_the_old_library_had_not_is_refused(models, tmp_path):
    tagger = small.task(BertTokenClassifier, ["O", "B-A", "I-A"], crf="BIO")
    for model, signature, error, words in (
        (models / "bert-encoder", "tf4", ValueError, ["signature", "tf4", "transformers"]),
        (tagger, "transformers", ValueError, ["CRF"]),
        (tagger.head, "transformers", TypeError, ["ClassifierHead", "encoders and tasks"]),
        (str(models / "bert-encoder"), None, TypeError, ["str", "takes strings"]),
    ):
        with error_names(error, *words):
            export_serving(model, tmp_path / "model", signature=signature)
    tagger.save_preset(tmp_path / "tagger")
    with error_names(ValueError, "tagger", "CRF"):
        export_serving(tmp_path / "tagger", tmp_path / "model", signature="transformers")
    assert not (tmp_path / "model").exists()

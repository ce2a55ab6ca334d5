"""`load`: exports in ONNX Runtime and OpenVINO that take texts, with the answers of the Keras model."""

import functools
import json
import shutil
import warnings

import numpy as np
import pytest

from keras_bert import (
    BertClassifier,
    BertReranker,
    BertSentenceEncoder,
    BertTokenClassifier,
)
from keras_bert.runtimes import export_onnx, export_openvino, load

from ..support import small
from ..support.messages import error_names, warning_names
from ..support.processes import run_python

pytest.importorskip("tf2onnx", reason="needs the extra runtimes")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")
pytestmark = pytest.mark.parity

EXPORTS = {"onnx": export_onnx, "openvino": export_openvino}
TEXTS = [*small.TEXTS, "one", "good " * 8, "she loved watching it"]


@pytest.fixture(scope="module")
def encoder():
    prompts = {"query": "the film : ", "none": ""}
    encoder = small.encoder(num_layers=1)
    return BertSentenceEncoder(encoder, small.preprocessor(), prompts=prompts, default_prompt="query")


@pytest.fixture(scope="module")
def exported(encoder, tmp_path_factory):
    """A runtime -> the directory of the encoder's export."""

    @functools.cache
    def export(name):
        directory = tmp_path_factory.mktemp(name) / "out"
        EXPORTS[name](encoder, directory)
        return directory

    return export


@pytest.fixture(scope="module", params=EXPORTS)
def loaded(request, exported):
    return load(exported(request.param))


@pytest.mark.parametrize("prompt", [None, "", "query", "none"])
def test_vectors_are_those_of_the_sentence_encoder(loaded, encoder, prompt):
    ours = encoder.encode(TEXTS, prompt=prompt)
    np.testing.assert_allclose(loaded.encode(TEXTS, prompt=prompt), ours, atol=1e-5)
    np.testing.assert_allclose(loaded.encode(iter(TEXTS), batch_tokens=1, prompt=prompt), ours, atol=1e-5)
    np.testing.assert_allclose(loaded.encode(TEXTS[1], prompt=prompt), ours[1], atol=1e-5)


def test_no_texts_have_no_vectors(loaded, encoder):
    assert loaded.encode([]).shape == encoder.encode([]).shape


def test_texts_that_are_cut_are_counted(loaded, encoder):
    longest = encoder.preprocessor.longest
    texts = ["good " * (longest + 5), "good", "good " * (longest + 9)]
    with warning_names(longest, 2):
        vectors = loaded.encode(texts, prompt="")
    with warning_names(longest, 2):
        np.testing.assert_allclose(vectors, encoder.encode(texts, prompt=""), atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded.encode("good " * (longest - 2), prompt="")  # with [CLS] and [SEP], a full row


def test_a_text_that_is_no_str_or_an_unknown_prompt_is_refused(loaded):
    for call in (loaded, loaded.encode):
        with error_names(TypeError, "text 1", "None", "str"):
            call(["good", None])
    with error_names(TypeError, "str"):
        loaded("good")
    with error_names(ValueError, "passage", "query"):
        loaded.encode("good", prompt="passage")
    with error_names(ValueError, "batch_tokens", 0):
        loaded.encode("good", batch_tokens=0)


def test_other_tasks_give_the_outputs_of_their_signature(tmp_path):
    one_layer = {"config": {"num_layers": 1}}
    tasks = {
        "classes": (small.task(BertClassifier, ["bad", "good"], **one_layer), (TEXTS,), "probabilities"),
        "words": (small.task(BertTokenClassifier, ["O", "B-PER"], **one_layer), (TEXTS,), "probabilities"),
        "ranks": (small.task(BertReranker, **one_layer), (TEXTS, TEXTS[::-1]), "score"),
    }
    for name, (task, columns, output) in tasks.items():
        export_onnx(task, tmp_path / name)
        model = load(tmp_path / name)
        assert model.labels == getattr(task, "labels", None)
        packed = task.preprocessor(columns if len(columns) > 1 else columns[0])
        expected = task.serve_packed(packed)[output]
        found = model(columns if len(columns) > 1 else columns[0])[output]
        is_token = np.array(packed["input_mask"]) > 0 if name == "words" else ...
        np.testing.assert_allclose(found[is_token], np.array(expected)[is_token], atol=1e-5)
        with error_names(ValueError, "sentence encoder", output):
            model.encode("good")


def test_a_directory_without_such_an_export_is_refused(tmp_path):
    (tmp_path / "litert").mkdir()
    (tmp_path / "litert/model.tflite").touch()
    for directory in (tmp_path / "litert", tmp_path, tmp_path / "nowhere"):
        with error_names(FileNotFoundError, directory, "model.onnx", "export_onnx"):
            load(directory)


@pytest.mark.parametrize(
    ("runtime", "name"),
    [("onnx", "onnx/model.onnx"), *(("openvino", f"openvino/openvino_model.{end}") for end in ("bin", "xml"))],
)
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"no model", lambda data: b""])
def test_a_damaged_model_is_refused_in_one_line(runtime, name, damage, exported, tmp_path):
    shutil.copytree(exported(runtime), tmp_path / "out")
    path = tmp_path / "out" / name
    path.write_bytes(damage(path.read_bytes()))
    with error_names(ValueError, path.with_suffix(".xml") if runtime == "openvino" else path, "damaged") as error:
        load(tmp_path / "out")
    assert "\n" not in str(error.value)


def test_prompts_that_the_pooling_leaves_out_are_refused(tmp_path):
    settings = {"prompts": {"query": "the film : "}, "include_prompt": False}
    model = BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor(), **settings)
    export_onnx(model, tmp_path / "out")
    with error_names(ValueError, tmp_path / "out", "prompts", "BertSentenceEncoder"):
        load(tmp_path / "out")


PROGRAM = """
import json, sys
from keras_bert.runtimes import load
vectors = load(sys.argv[1]).encode(json.loads(sys.argv[2]))
print(json.dumps([vectors.tolist(), sorted({"tensorflow", "tensorflow_text"} & sys.modules.keys())]))
"""


def test_no_tensorflow_is_imported(encoder, exported):
    pytest.importorskip("jax")
    output = run_python(PROGRAM, exported("onnx"), json.dumps(TEXTS), KERAS_BACKEND="jax", JAX_PLATFORMS="cpu")
    vectors, imported = json.loads(output.splitlines()[-1])
    assert imported == []
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS), atol=1e-5)

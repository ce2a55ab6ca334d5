"""`load`: exports in ONNX Runtime and OpenVINO that take texts, with the answers of the Keras model."""

import functools
import json
import re
import shutil
import warnings

import numpy as np
import pytest

from keras_bert import (
    BertClassifier,
    BertQuestionAnswerer,
    BertReranker,
    BertSentenceEncoder,
    BertTokenClassifier,
)
from keras_bert.runtimes import export_onnx, export_openvino, load
from keras_bert.tasks.registry import load_as

from ..support import small
from ..support.commands import invoke
from ..support.messages import error_names, warning_names
from ..support.processes import run_python
from .test_models import close

pytest.importorskip("tf2onnx", reason="needs the extra runtimes")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")
pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("untraced_module")]

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
    with warning_names(longest, 2):
        loaded(texts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded.encode("good " * (longest - 2), prompt="")  # with [CLS] and [SEP], a full row
        loaded(["good " * (longest - 2)])


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
        with error_names(AttributeError, type(task).__name__, "encode", task.VERB):
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


@pytest.mark.parametrize("stride", [None, 4])
def test_prompts_may_be_left_out_of_the_pooling(stride, tmp_path):
    settings = {"prompts": {"query": "the film : "}, "include_prompt": False}
    model = BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor(stride=stride), **settings)
    export_onnx(model, tmp_path / "out")
    for prompt in ("query", ""):
        ours = model.encode(TEXTS, prompt=prompt)
        np.testing.assert_allclose(load(tmp_path / "out").encode(TEXTS, prompt=prompt), ours, atol=1e-5)


@pytest.mark.parametrize(("runtime", "name"), [("onnx", "model.onnx"), ("openvino", "openvino_model.bin")])
def test_other_weights_have_another_digest(runtime, name, exported, tmp_path):
    """An index knows the model that made it by its digest."""
    shutil.copytree(exported(runtime), tmp_path / "out")
    path = tmp_path / "out" / runtime / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert load(tmp_path / "out").digest != load(exported(runtime)).digest


def test_an_export_of_a_newer_version_is_refused(exported, tmp_path):
    shutil.copytree(exported("onnx"), tmp_path / "out")
    path = tmp_path / "out/config.json"
    text = path.read_text()
    for changed, words in (
        (text.replace("BertSentenceEncoder", "BertClairvoyant"), ["BertClairvoyant", "later"]),
        (text.replace('"column_prompts"', '"crystal_ball"'), ["crystal_ball", "later version"]),
    ):
        assert changed != text
        path.write_text(changed)
        with error_names(ValueError, path, *words):
            load(tmp_path / "out")


# Refuses what an export must not need, then runs the command once for each line of arguments.
PROGRAM = """
import json, sys

class Refuse:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("tensorflow", "tensorflow_text", "keras", "jax", "torch"):
            raise ImportError(f"{name} is imported")

sys.meta_path.insert(0, Refuse())
from click.testing import CliRunner
from keras_bert.cli import main

for arguments in json.loads(sys.argv[1]):
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    print(json.dumps([result.exit_code, result.output]))
"""
TABLE = "text,label,second\ngood film,good,bad\nbad plot,bad,good film\ncold river,good,the river\n"
SQUAD = '{"question": "what is good?", "context": "the film was good"}\n'


def test_the_command_needs_no_tensorflow_for_exports(encoder, exported, tmp_path):
    """Each command prints and writes what it does for the model itself."""
    classifier = small.task(BertClassifier, ["bad", "good"], config={"num_layers": 1})
    answerer = small.task(BertQuestionAnswerer, text={"stride": 4}, config={"num_layers": 1})
    (tmp_path / "data.csv").write_text(TABLE)
    (tmp_path / "asked.jsonl").write_text(SQUAD)
    places = {"model": {}, "export": {"vectors": exported("onnx")}}
    for name, task in {"vectors": encoder, "classes": classifier, "answers": answerer}.items():
        places["model"][name] = tmp_path / f"{name}-model"
        task.save_preset(places["model"][name])
        if task is not encoder:
            places["export"][name] = tmp_path / f"{name}-export"
            export_onnx(task, places["export"][name])

    def commands(kind):
        vectors, classes, answers = (str(places[kind][name]) for name in ("vectors", "classes", "answers"))
        out, data = str(tmp_path / f"{kind}-out"), str(tmp_path / "data.csv")
        pairs = ["--query-column", "text", "--positive-column", "second"]
        return [
            ["predict", classes, "good film", "dull"],
            ["predict", answers, "--file", str(tmp_path / "asked.jsonl")],
            ["evaluate", classes, data],
            ["evaluate", vectors, data, *pairs],
            ["encode", "--preset", vectors, "good film", "dull", "--format", "text"],
            ["similarity", "--preset", vectors, "good film", "dull", "river", "--prompt", "none"],
            ["duplicates", data, "--preset", vectors, "--threshold", "0.1"],
            ["embed", data, "--preset", vectors, "--output", f"{out}-embed"],
            ["index", data, "--preset", vectors, "--output", f"{out}-index"],
            ["search", f"{out}-index", "a film", "--top-k", "2"],
            ["mine", data, "--preset", vectors, *pairs, "--output", f"{out}-mined.jsonl"],
        ]

    output = run_python(PROGRAM, json.dumps(commands("export")))
    found = [json.loads(line) for line in output.splitlines()[-len(commands("export")) :]]
    for arguments, (code, printed) in zip(commands("model"), found, strict=True):
        expected = invoke(*arguments).output.replace("model-out", "export-out")
        assert code == 0, printed
        close(_values(expected), _values(printed))
    for name in ("embed/data.csv",):
        close(*(_values((tmp_path / f"{kind}-out-{name}").read_text()) for kind in ("model", "export")))


def _values(text):
    """The words of a text, and its numbers."""
    words = re.split(r"[\s,:\"\[\]]+", text)
    return [float(word) if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", word) else word for word in words]


def test_what_needs_tensorflow_says_so(exported, tmp_path):
    directory = exported("onnx")
    with error_names(ValueError, "precision", "fixed"):
        load_as("BertSentenceEncoder", directory, precision="int8")
    with error_names(ValueError, directory, "BertSentenceEncoder", "BertMaskedLM"):
        load_as("BertMaskedLM", directory)
    result = invoke("encode", "--preset", directory, "good", "--precision", "int8", exit_code=2)
    assert "export" in result.output

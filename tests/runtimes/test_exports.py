"""Exports in their real runtimes: every task and family computes there what it does in Keras, for any shape."""

import collections
import functools
import itertools
import json
import re
import runpy
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_bert import (
    BertClassifier,
    BertConfig,
    BertMaskedLM,
    BertNextSentence,
    BertQuestionAnswerer,
    BertReranker,
    BertSentenceEncoder,
    BertTokenClassifier,
)
from keras_bert.runtimes import RUNTIMES, export_litert, export_onnx, export_openvino, load
from keras_bert.runtimes.comparison import check_differences, compare, sample
from keras_bert.runtimes.export import HeadModel, PackedModel
from keras_bert.tasks import BertSparseEncoder

from ..support import small
from ..support.encoders import SMALL, random_encoder
from ..support.messages import error_names
from ..support.processes import run_python

onnx = pytest.importorskip("onnx", reason="needs the extra runtimes")
pytest.importorskip("tf2onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")
pytest.importorskip("nncf")
pytest.importorskip("ai_edge_litert")
pytestmark = pytest.mark.parity

EXPORTS = {"onnx": export_onnx, "openvino": export_openvino, "litert": export_litert}
SIZES = ("vocab_size", "hidden_size", "num_heads", "intermediate_size", "max_positions")
NAMES = ("input_word_ids", "input_mask", "input_type_ids")
TASKS = {
    "vectors": (BertSentenceEncoder, {}, ("embedding",)),
    "classes": (BertClassifier, {"labels": ["good", "bad", "so-so"]}, ("probabilities",)),
    "pairs": (BertClassifier, {"labels": ["yes", "no"], "pairs": True}, ("probabilities",)),
    "numbers": (BertClassifier, {"labels": ["stars"], "problem_type": "regression"}, ("values",)),
    "words": (BertTokenClassifier, {"labels": ["O", "B-PER", "I-PER"]}, ("probabilities",)),
    "answers": (BertQuestionAnswerer, {"text": {"stride": 8}}, ("start_logits", "end_logits")),
    "ranks": (BertReranker, {}, ("score",)),
    "sparse": (BertSparseEncoder, {"query_table": True}, ("weights",)),
    "path": (BertTokenClassifier, {"labels": ["O", "B-PER", "I-PER"], "crf": "BIO"}, ("logits",)),
    "masks": (BertMaskedLM, {}, ("logits",)),
    "follows": (BertNextSentence, {}, ("probability",)),
}
# An export compares itself with Keras. What differs by runtime are operations and shapes, so only families and tasks
# with operations of their own go into each.
FAMILIES = {
    "roberta-base": {},
    "modernbert-base": {"local_window": 6, "num_layers": 2},
    "mpnet-base": {},
    "deberta-v3-base": {"disentangled_buckets": 4},
    "gte-large-en-v1.5": {},
    "eurobert-610m": {"num_key_value_heads": 2, "head_dim": 12},
}
# `test_models.py` has the other tasks in OpenVINO.
CASES = [
    *(("onnx", task) for task in TASKS),
    ("openvino", "vectors"),
    *(("litert", task) for task in ("vectors", "words", "answers", "masks")),
]


def made(task):
    kind, settings, _ = TASKS[task]
    if kind is BertSentenceEncoder:
        return vectors(num_layers=2, max_positions=512)
    if kind in (BertSparseEncoder, BertMaskedLM):
        tokenizer = small.tokenizer(special_tokens_in_text=kind is BertMaskedLM)
        encoder = small.encoder(num_layers=1, vocab_size=len(small.VOCABULARY) + 8)  # rows without a token
        return small.shaken(kind(encoder, small.preprocessor(tokenizer=tokenizer), **settings))
    return small.task(kind, **settings, config={"num_layers": 1})


def vectors(scale=0.3, **changes):
    encoder = small.encoder(scale=scale, **{"num_layers": 1, **changes})
    return BertSentenceEncoder(encoder, small.preprocessor())


def rows(model, batch, length, seed=0):
    """Ids of rows of different lengths, the first as long as the batch."""
    config = model.config if hasattr(model, "config") else model.encoder.config
    generator = np.random.default_rng(seed)
    mask = np.arange(length) < generator.integers(3, length + 1, (batch, 1))
    mask[0] = True
    ids = np.where(mask, generator.integers(5, config.vocab_size, mask.shape), config.pad_token_id)
    types = np.where(mask, np.arange(length) > length // 2, False)
    used = NAMES if config.type_vocab_size > 1 else NAMES[:2]
    return {name: each.astype("int32") for name, each in zip(NAMES, (ids, mask, types), strict=True) if name in used}


def opened(form, directory):
    """A function from inputs to outputs, both by TF Hub's names."""
    runtime = RUNTIMES[form]
    run = runtime.open(directory / runtime.file)
    return lambda inputs: run({runtime.names[name]: each for name, each in inputs.items()})


def check(form, directory, model, shapes, names):
    run = opened(form, directory)
    for batch, length in shapes:
        inputs = rows(model, batch, length)
        found, expected, mask = run(inputs), model.serve_packed(inputs), inputs["input_mask"] > 0
        for name in names:
            of_tokens = found[name].shape[:2] == mask.shape
            one, other = (each[mask] if of_tokens else each for each in (found[name], np.asarray(expected[name])))
            np.testing.assert_allclose(one, other, atol=1e-4, err_msg=f"{name} {batch} x {length}")


@pytest.fixture(scope="module", params=RUNTIMES)
def form(request):
    return request.param


@pytest.fixture(scope="module")
def export_of(tmp_path_factory):
    """A model of a task, and the directory of its export into a runtime, which tests must not change."""

    @functools.cache
    def export_of(form, task):
        model, directory = made(task), tmp_path_factory.mktemp(f"{form}-{task}") / "out"
        assert EXPORTS[form](model, directory)
        return model, directory

    return export_of


@pytest.mark.parametrize(("form", "task"), CASES)
def test_tasks_and_the_programs_in_the_readme(form, task, export_of, tmp_path, monkeypatch, capsys):
    model, directory = export_of(form, task)
    check(form, directory, model, [(1, 5), (2, model.encoder.config.max_positions), (7, 33)], TASKS[task][2])
    programs = re.findall(r"```python\n(.*?)```", (directory / "README.md").read_text(), re.DOTALL)
    assert len(programs) == (1 if form == "litert" else 2)  # without this package, then with it
    assert "keras" not in programs[0]
    monkeypatch.chdir(directory)
    printed = []
    for program in programs:
        (tmp_path / "program.py").write_text(program)
        runpy.run_path(str(tmp_path / "program.py"))
        printed.append(capsys.readouterr().out)
    assert len(set(printed)) == 1
    assert all(name in printed[0] for name in TASKS[task][2])


def test_a_graph_has_one_operator_for_each_attention_norm_and_activation(export_of):
    """The engine waits for as many nodes as there are. `test_families.py` has families where some stay as they are."""
    model, directory = export_of("onnx", "vectors")
    graph = onnx.load(directory / RUNTIMES["onnx"].file).graph
    counts, layers = collections.Counter(node.op_type for node in graph.node), model.encoder.config.num_layers
    expected = {"Attention": layers, "LayerNormalization": 2 * layers + 1, "Gelu": layers, "Gather": 3}
    spelled_out = dict.fromkeys(("Softmax", "ReduceMean", "Erf", "Less"), 0)
    assert {name: counts[name] for name in expected | spelled_out} == expected | spelled_out


OF_OPENVINO = ["modernbert-base", "deberta-v3-base"]  # what it reads is the graph of ONNX Runtime


@pytest.mark.parametrize(
    ("form", "family"), [*itertools.product(["openvino"], OF_OPENVINO), *itertools.product(["litert"], FAMILIES)]
)
def test_families(form, family, tmp_path):
    """`test_families.py` has all families in ONNX Runtime."""
    sizes = {name: SMALL.to_dict()[name] for name in SIZES} | {"num_layers": 1, "pad_token_id": 1}
    model = random_encoder(**BertConfig.named(family).to_dict() | sizes | FAMILIES[family])
    assert EXPORTS[form](model, tmp_path / "out")
    check(form, tmp_path / "out", model, [(1, 5), (7, 21)], ("sequence_output", "pooled_output"))


def test_a_padded_batch_equals_single_rows(form, export_of):
    model, directory = export_of(form, "vectors")
    run, inputs = opened(form, directory), rows(model, 4, 20)
    together = run(inputs)["embedding"]
    for i, length in enumerate(inputs["input_mask"].sum(axis=1)):
        alone = run({name: each[i : i + 1, :length] for name, each in inputs.items()})
        np.testing.assert_allclose(alone["embedding"][0], together[i], atol=1e-5)


@pytest.mark.parametrize("form", ["onnx", "openvino"])
@pytest.mark.parametrize("threads", [None, 1])
def test_several_threads_get_their_own_answers(form, threads, export_of):
    model, directory = export_of(form, "vectors")
    runtime = RUNTIMES[form]
    run = runtime.open(directory / runtime.file, threads)
    batches = [rows(model, 2, length, seed=length) for length in range(5, 45)]
    batches = [{runtime.names[name]: each for name, each in batch.items()} for batch in batches]
    alone = [run(batch)["embedding"] for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda batch: run(batch)["embedding"], batches))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("form", ["onnx", "openvino"])
def test_a_call_computes_on_as_many_threads_as_asked(form, export_of):
    """The process gets threads of the runtime: none for one, which is the caller's own."""
    _, directory = export_of(form, "vectors")
    program = "import os, sys; from pathlib import Path; from keras_bert.runtime_table import RUNTIMES\n"
    program += "import numpy as np; runtime, threads = RUNTIMES[sys.argv[1]], int(sys.argv[3])\n"
    program += "run = runtime.open(Path(sys.argv[2]), threads)\n"
    program += "run({name: np.ones([2, 9], int) for name in runtime.names.values()})\n"
    program += "print(len(os.listdir('/proc/self/task')))"
    one, two = (int(run_python(program, form, directory / RUNTIMES[form].file, each)) for each in (1, 2))
    assert two == one + 1


def test_no_threads_are_refused(form, tmp_path):
    with error_names(ValueError, "threads is 0", "None"):
        RUNTIMES[form].open(tmp_path / "model", 0)


def test_what_lies_beside_a_model(export_of):
    directory = export_of("onnx", "classes")[1]
    names = {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
    expected = {"config.json", "labels.txt", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "README.md"}
    assert names == expected | {"onnx/model.onnx"}
    config = json.loads((directory / "config.json").read_text())
    assert config["id2label"] == {"0": "good", "1": "bad", "2": "so-so"}
    assert config["architectures"] == ["BertForSequenceClassification"]


@pytest.mark.parametrize("task", ["path", "sparse", "classes"])
def test_parts_that_are_not_in_the_graph_lie_beside_it(task, export_of):
    model, directory = export_of("onnx", task)
    weights = {"path": lambda: model.crf.weights, "sparse": lambda: [model.query_weights], "classes": list}[task]()
    path = directory / "parts.safetensors"
    found = load_file(path) if path.exists() else {}
    assert found.keys() == {each.name for each in weights}
    for each in weights:
        np.testing.assert_array_equal(found[each.name], each)
    assert ("parts.safetensors" in (directory / "README.md").read_text()) == bool(weights)
    assert not (directory / "crf.safetensors").exists()


def test_logits_and_weights_have_the_size_of_the_vocabulary(export_of):
    for task, output in (("masks", "logits"), ("sparse", "weights")):
        model, directory = export_of("onnx", task)
        assert opened("onnx", directory)(rows(model, 2, 5))[output].shape[-1] == len(small.VOCABULARY)


@functools.cache
def made_with_head(kind):
    """A model that reads windows, and one that leaves prompts out of the pooling."""
    if kind == "windows":
        return small.task(BertClassifier, ["bad", "fair", "good"], text={"stride": 8}, config={"num_layers": 1})
    prompts = {"query": "the film : "}
    return BertSentenceEncoder(
        small.encoder(num_layers=1), small.preprocessor(), prompts=prompts, include_prompt=False, dense={"units": 5}
    )


def test_a_head_leaves_a_prompt_out_of_the_pooling(tmp_path):
    """In ONNX Runtime: `test_loading.py`. Heads that answer for windows: `test_models.py`."""
    model, runtime, directory = made_with_head("prompts"), RUNTIMES["openvino"], tmp_path / "out"
    assert "embedding of the head" in [each.output for each in export_openvino(model, directory)]
    run = opened("openvino", directory)
    packed = {name: each.numpy() for name, each in model.preprocessor(["the film : good", "the film : a cat"]).items()}
    states = run(packed)
    mask = packed["input_mask"] * (np.arange(packed["input_mask"].shape[1]) > 3)
    found = runtime.open(directory / runtime.head)({**states, "input_mask": mask})["embedding"]
    expected = model.encode(["good", "a cat"], prompt="query")
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.abs(states["embedding"] - expected).max() > 1e-3
    readme = (directory / "README.md").read_text()
    assert "prompts out of the pooling" in readme
    assert "keras_bert.runtimes.load" in readme


def test_a_head_that_differs_from_keras_is_refused(tmp_path, monkeypatch):
    model = made_with_head("prompts")
    wrong = type(
        "Wrong", (HeadModel,), {"call": lambda self, inputs: {"embedding": -HeadModel.call(self, inputs)["embedding"]}}
    )
    monkeypatch.setattr("keras_bert.runtimes.export.HeadModel", wrong)
    with error_names(ValueError, "embedding of the head", "differs"):
        export_onnx(model, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


# How many times the bytes of its weights an export adds to what a process takes at most.
_COPIES = """
import sys
from keras_bert import BertSentenceEncoder
from keras_bert.runtimes import export_onnx
from tests.support import small
from tests.support.memory import most_memory

def export(name, **sizes):
    model = BertSentenceEncoder(small.encoder(scale=0.01, **sizes), small.preprocessor())
    before, weights = most_memory(), sum(each.numpy().nbytes for each in model.weights)
    export_onnx(model, f"{sys.argv[1]}/{name}")
    return (most_memory() - before) / weights

export("tiny")  # imports what it needs
print(export("large", hidden_size=512, num_heads=8, intermediate_size=2048, num_layers=4))
"""


@pytest.mark.slow
def test_an_export_takes_memory_for_few_copies_of_the_weights(tmp_path):
    """tf2onnx would copy those in a graph some eighty times."""
    assert 1 < float(run_python(_COPIES, tmp_path)) < 12


def test_a_new_export_leaves_no_head_or_parts_of_an_old_one(tmp_path):
    seen = []
    for model in (made_with_head("windows"), made("path"), made("classes")):
        export_onnx(model, tmp_path / "out", overwrite=True)
        found = [each for each in ("onnx/head.onnx", "parts.safetensors") if (tmp_path / "out" / each).exists()]
        seen.append(found)
    assert seen == [["onnx/head.onnx"], ["parts.safetensors"], []]


def test_a_crf_in_litert_is_refused_in_one_line(tmp_path):
    with error_names(ValueError, "LiteRT", "CRF", "export_onnx", "without crf") as error:
        export_litert(made("path"), tmp_path / "out")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("task", TASKS)
def test_the_configuration_holds_every_setting(task, export_of):
    """Whoever answers with an export, without TensorFlow, reads one file of settings."""
    model, directory = export_of("onnx", task)
    config = json.loads((directory / "config.json").read_text())
    own, rows = config["keras_bert"]["model"], config["keras_bert"]["preprocessor"]
    expected = model.settings()
    labels, problem = expected.pop("labels", None), expected.pop("problem_type", None)
    assert own == expected
    assert labels is None or [*config["id2label"].values()] == labels
    assert config.get("problem_type") == problem
    for name in ("sequence_length", "max_sequence_length", "truncation", "stride"):
        assert rows[name] == getattr(model.preprocessor, name)
    assert rows.get("special_tokens_in_text", False) == model.preprocessor.tokenizer.special_tokens_in_text


def test_the_tokenizer_beside_a_model_gives_our_ids(form, export_of):
    from tokenizers import Tokenizer

    model, directory = export_of(form, "vectors")
    theirs = Tokenizer.from_file(str(directory / "tokenizer.json"))
    for text in small.TEXTS:
        ours = model.preprocessor.tokenizer.tokenize(text).numpy().tolist()
        assert theirs.encode(text).ids == [2, *ours, 3]


@pytest.mark.parametrize(("precision", "share"), [("float16", 0.53), ("int8", 0.30)])
def test_low_precision_is_small_and_near(form, precision, share, tmp_path):
    model = vectors(0.05, hidden_size=384, intermediate_size=1536)
    differences = EXPORTS[form](model, tmp_path / "low", precision)
    (difference,) = [each for each in differences if each.output == "embedding"]
    assert difference.cosine > (0.9999 if precision == "float16" else 0.98)
    largest = max(path.stat().st_size for path in (tmp_path / "low").rglob("*") if path.is_file())
    assert largest < share * 4 * model.count_params()
    if (form, precision) == ("onnx", "int8"):  # 7 bits, with which no sum overflows in processors without VNNI
        import onnx

        weights = onnx.load(tmp_path / "low" / "onnx" / "model.onnx").graph.initializer
        arrays = [onnx.numpy_helper.to_array(each) for each in weights]
        assert 60 < max(np.abs(each.astype(int)).max() for each in arrays if each.dtype == np.int8) <= 64


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_weights_beyond_a_message_of_protobuf_stand_in_a_file_beside(precision, tmp_path, monkeypatch):
    """Protobuf's limit is 2 GB."""
    model = vectors()
    export_onnx(model, tmp_path / "whole", precision)
    monkeypatch.setattr("keras_bert.runtimes.onnx._LARGEST", 1_000)
    export_onnx(model, tmp_path / "out", precision)
    (tmp_path / "out").rename(tmp_path / "moved")
    whole, beside = (sizes_of(tmp_path / name / "onnx") for name in ("whole", "moved"))
    assert list(whole) == ["model.onnx"]
    assert set(beside) == {"model.onnx", "model.onnx_data"}
    assert beside["model.onnx_data"] > whole["model.onnx"] / 2 > beside["model.onnx"]
    values = (load(tmp_path / name).encode(small.TEXTS) for name in ("whole", "moved"))
    np.testing.assert_array_equal(*values)


def test_float16_finds_the_types_around_operators_that_are_not_onnxs(tmp_path, caplog):
    export_onnx(vectors(), tmp_path / "out", "float16")
    assert "inference failed" not in caplog.text


def sizes_of(directory):
    return {path.name: path.stat().st_size for path in directory.iterdir()}


def test_an_export_that_is_refused_leaves_nothing(tmp_path, monkeypatch):
    model = vectors()
    for name, export in EXPORTS.items():
        with error_names(ValueError, "bfloat16", "export", *RUNTIMES[name].precisions):
            export(model, tmp_path / "out", "bfloat16")
    monkeypatch.setattr("keras_bert.runtimes.comparison._FLOAT", 1e-12)
    with error_names(ValueError, "float32", "differs", "Keras"):
        export_onnx(model, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("mine")
    with error_names(FileExistsError, tmp_path / "out", "something else"):
        export_onnx(model, tmp_path / "out", overwrite=True)


@pytest.mark.parametrize(("form", "precision", "library"), [
    ("onnx", "float16", "onnxruntime"), ("onnx", "int8", "onnxruntime"), ("openvino", "int8", "nncf"),
])  # fmt: skip
def test_a_library_for_a_low_precision_is_missed_before_the_export(form, precision, library, tmp_path, monkeypatch):
    pytest.importorskip({"onnx": "tf2onnx"}.get(form, form))
    monkeypatch.setattr(PackedModel, "export", lambda *_, **__: pytest.fail("it exports"))
    monkeypatch.setitem(sys.modules, library, None)
    with error_names(ImportError, library, "keras-bert-models[runtimes]"):
        EXPORTS[form](vectors(), tmp_path / "out", precision)


@pytest.mark.parametrize("form", RUNTIMES)
def test_no_runtime_takes_a_precision_that_its_converter_does_not_know(form, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_bert.precisions.EXPORTS", ("float32", "int4"))
    with error_names(ValueError, "int4", "float32"):
        EXPORTS[form](vectors(), tmp_path / "out", "int4")
    assert list(tmp_path.iterdir()) == []


def test_zeros_are_not_what_keras_computes():
    model = vectors()
    packed = PackedModel(model, RUNTIMES["onnx"], model.preprocessor)
    inputs = sample(packed)
    zeros = {name: np.zeros(each.shape) for name, each in packed.compute_outputs(dict(inputs)).items()}
    differences = compare(packed, lambda _: zeros, inputs)
    with error_names(ValueError, "int8", "cosine 0.000000", "0.95"):
        check_differences(differences, "int8")


def test_litert_has_no_operations_of_tensorflow(tmp_path):
    from ai_edge_litert.interpreter import Interpreter

    export_litert(vectors(), tmp_path / "out", sequence_length=16)
    interpreter = Interpreter(str(tmp_path / "out/model.tflite"))
    used = {each["op_name"] for each in interpreter._get_ops_details()}
    assert "FULLY_CONNECTED" in used
    assert not {name for name in used if name.startswith(("Flex", "FLEX", "CUSTOM"))}
    assert all(tuple(each["shape_signature"]) == (1, 16) for each in interpreter.get_input_details())


def test_litert_carries_vocabulary_and_labels(export_of):
    with zipfile.ZipFile(export_of("litert", "classes")[1] / "model.tflite") as archive:
        assert archive.read("vocab.txt").decode().split("\n")[:-1] == small.VOCABULARY
        assert archive.read("probabilities.txt") == b"good\nbad\nso-so\n"


def test_litert_carries_the_vocabulary_of_an_encoder(tmp_path):
    export_litert(small.encoder(num_layers=1), tmp_path / "out", preprocessor=small.preprocessor())
    with zipfile.ZipFile(tmp_path / "out/model.tflite") as archive:
        assert archive.read("vocab.txt").decode().split("\n")[:-1] == small.VOCABULARY


def test_mediapipe_classifies_strings(tmp_path):
    text = pytest.importorskip("mediapipe").tasks.text
    model = small.task(BertClassifier, labels=["good", "bad"], config={"num_layers": 1})
    export_litert(model, tmp_path / "out", sequence_length=24)
    with text.TextClassifier.create_from_model_path(str(tmp_path / "out/model.tflite")) as classifier:
        for sentence in ("The film was very good!", "dull music"):
            (found,) = classifier.classify(sentence).classifications
            theirs = {each.category_name: each.score for each in found.categories}
            ours = model.classify(sentence)
            assert theirs.keys() == {"good", "bad"}
            assert abs(theirs[ours["label"]] - ours["probability"]) < 1e-4


def test_mediapipe_embeds_strings(tmp_path):
    text = pytest.importorskip("mediapipe").tasks.text
    model = vectors()
    export_litert(model, tmp_path / "out", sequence_length=24)
    with text.TextEmbedder.create_from_model_path(str(tmp_path / "out/model.tflite")) as embedder:
        (found,) = embedder.embed("The film was very good!").embeddings
    np.testing.assert_allclose(found.embedding, model.encode("The film was very good!"), atol=1e-4)


@pytest.mark.parametrize("end", ["\u2028", "\n", "\r", "\x85", "\x0b"])
def test_labels_that_a_file_of_lines_cannot_hold_are_refused(tmp_path, end):
    model = small.task(BertClassifier, [f"bad{end}very", "fair"], config={"num_layers": 1})
    for export in EXPORTS.values():
        with error_names(ValueError, repr(f"bad{end}very"), "line end", "labels.txt", "id2label"):
            export(model, tmp_path / "export")
    assert not (tmp_path / "export").exists()

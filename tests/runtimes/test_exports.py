"""Exports in their real runtimes: every task and family computes there what it does in Keras, for any shape."""

import json
import re
import runpy
import zipfile

import numpy as np
import pytest

from keras_bert import (
    BertClassifier,
    BertConfig,
    BertQuestionAnswerer,
    BertReranker,
    BertSentenceEncoder,
    BertTokenClassifier,
)
from keras_bert.runtimes import export_litert, export_onnx, export_openvino
from keras_bert.runtimes.litert_export import _RUNTIME as LITERT
from keras_bert.runtimes.onnx_export import _RUNTIME as ONNX
from keras_bert.runtimes.openvino_export import _RUNTIME as OPENVINO

from ..support import small
from ..support.encoders import SMALL, random_encoder
from ..support.messages import error_names

pytest.importorskip("tf2onnx", reason="needs the extra runtimes")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")
pytest.importorskip("nncf")
pytest.importorskip("ai_edge_litert")
pytestmark = pytest.mark.parity

RUNTIMES = {"onnx": (export_onnx, ONNX), "openvino": (export_openvino, OPENVINO), "litert": (export_litert, LITERT)}
SIZES = ("vocab_size", "hidden_size", "num_layers", "num_heads", "intermediate_size", "max_positions")
NAMES = ("input_word_ids", "input_mask", "input_type_ids")
TASKS = {
    "vectors": (BertSentenceEncoder, {}, ("embedding",)),
    "classes": (BertClassifier, {"labels": ["good", "bad", "so-so"]}, ("probabilities",)),
    "pairs": (BertClassifier, {"labels": ["yes", "no"], "pairs": True}, ("probabilities",)),
    "numbers": (BertClassifier, {"labels": ["stars"], "problem_type": "regression"}, ("values",)),
    "words": (BertTokenClassifier, {"labels": ["O", "B-PER", "I-PER"]}, ("probabilities",)),
    "answers": (BertQuestionAnswerer, {"text": {"stride": 8}}, ("start_logits", "end_logits")),
    "ranks": (BertReranker, {}, ("score",)),
}
FAMILIES = {
    "roberta-base": {},
    "distilbert-base": {},
    "albert-base": {"embedding_size": 16},
    "electra-small": {"embedding_size": 16},
    "modernbert-base": {"local_window": 6},
    "nomic-bert-2048": {},
    "mpnet-base": {"relative_buckets": 8},
    "deberta-v3-base": {"disentangled_buckets": 4},
    "gte-large-en-v1.5": {},
    "eurobert-610m": {"num_key_value_heads": 2},
    "neobert": {},
}


def made(task):
    kind, settings, _ = TASKS[task]
    return vectors() if kind is BertSentenceEncoder else small.task(kind, **settings)


def vectors(scale=0.3, **changes):
    return BertSentenceEncoder(small.encoder(scale=scale, **changes), small.preprocessor())


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


def in_runtime(runtime, directory, inputs):
    names = {ours: runtime.names[ours] for ours in inputs}
    return runtime.load(directory / runtime.file)({names[ours]: each for ours, each in inputs.items()})


def in_keras(model, inputs):
    return {name: np.asarray(each) for name, each in model.serve_packed(inputs).items()}


def check(runtime, directory, model, shapes, names):
    for batch, length in shapes:
        inputs = rows(model, batch, length)
        found, expected, mask = (
            in_runtime(runtime, directory, inputs),
            in_keras(model, inputs),
            inputs["input_mask"] > 0,
        )
        for name in names:
            of_tokens = found[name].shape[:2] == mask.shape
            one, other = (each[mask] if of_tokens else each for each in (found[name], expected[name]))
            np.testing.assert_allclose(one, other, atol=1e-4, err_msg=f"{name} {batch} x {length}")


@pytest.fixture(scope="module", params=RUNTIMES)
def form(request):
    return request.param


@pytest.fixture(scope="module", params=TASKS)
def exported(request, form, tmp_path_factory):
    """A task, its model, and the directory of its export, which tests must not change."""
    return request.param, *export_of(request.param, form, tmp_path_factory)


@pytest.fixture(scope="module")
def exported_vectors(form, tmp_path_factory):
    return export_of("vectors", form, tmp_path_factory)


def export_of(task, form, tmp_path_factory):
    model, directory = made(task), tmp_path_factory.mktemp(f"{form}-{task}") / "out"
    assert RUNTIMES[form][0](model, directory)
    return model, directory


def test_tasks(form, exported):
    task, model, directory = exported
    check(RUNTIMES[form][1], directory, model, [(1, 5), (7, 33), (2, 48)], TASKS[task][2])


def test_the_program_in_the_readme_runs(exported, tmp_path, monkeypatch, capsys):
    _, _, directory = exported
    (program,) = re.findall(r"```python\n(.*?)```", (directory / "README.md").read_text(), re.DOTALL)
    (tmp_path / "program.py").write_text(program)
    monkeypatch.chdir(directory)
    runpy.run_path(str(tmp_path / "program.py"))
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("family", FAMILIES)
def test_families(form, family, tmp_path):
    export, runtime = RUNTIMES[form]
    sizes = {**{name: SMALL.to_dict()[name] for name in SIZES}, **FAMILIES[family], "pad_token_id": 1}
    model = random_encoder(**{**BertConfig.named(family).to_dict(), **sizes})
    assert export(model, tmp_path / "out")
    shapes = [(1, 5), (7, 21), (2, 30)]
    check(runtime, tmp_path / "out", model, shapes, ("sequence_output", "pooled_output"))


def test_long_rows(form, tmp_path):
    export, runtime = RUNTIMES[form]
    model = vectors(max_positions=512)
    export(model, tmp_path / "out")
    check(runtime, tmp_path / "out", model, [(2, 512), (1, 5)], ("embedding",))


def test_a_padded_batch_equals_single_rows(form, exported_vectors):
    runtime = RUNTIMES[form][1]
    model, directory = exported_vectors
    inputs = rows(model, 4, 20)
    together = in_runtime(runtime, directory, inputs)["embedding"]
    for i in range(4):
        length = inputs["input_mask"][i].sum()
        alone = in_runtime(runtime, directory, {name: each[i : i + 1, :length] for name, each in inputs.items()})
        np.testing.assert_allclose(alone["embedding"][0], together[i], atol=1e-5)


def test_what_lies_beside_a_model(tmp_path):
    export_onnx(small.task(BertClassifier, labels=["good", "bad"]), tmp_path / "out")
    names = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    expected = {"config.json", "labels.txt", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "README.md"}
    assert names == expected | {"onnx/model.onnx"}
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["id2label"] == {"0": "good", "1": "bad"}
    assert config["architectures"] == ["BertForSequenceClassification"]


def test_the_tokenizer_beside_a_model_gives_our_ids(exported_vectors):
    from tokenizers import Tokenizer

    model, directory = exported_vectors
    theirs = Tokenizer.from_file(str(directory / "tokenizer.json"))
    for text in small.TEXTS:
        ours = model.preprocessor.tokenizer.tokenize(text).numpy().tolist()
        assert theirs.encode(text).ids == [2, *ours, 3]


@pytest.mark.parametrize(("precision", "share"), [("float16", 0.53), ("int8", 0.30)])
def test_low_precision_is_small_and_near(form, precision, share, tmp_path):
    export, _ = RUNTIMES[form]
    model = vectors(0.05, hidden_size=384, intermediate_size=1536)
    export(model, tmp_path / "whole")
    (difference,) = [each for each in export(model, tmp_path / "low", precision) if each.output == "embedding"]
    assert difference.cosine > (0.9999 if precision == "float16" else 0.98)
    sizes = [
        max(path.stat().st_size for path in (tmp_path / name).rglob("*") if path.is_file()) for name in ("low", "whole")
    ]
    assert sizes[0] < share * sizes[1]


def test_an_export_that_is_refused_leaves_nothing(form, tmp_path, monkeypatch):
    export, _ = RUNTIMES[form]
    model = vectors()
    with error_names(ValueError, "bfloat16", "export"):
        export(model, tmp_path / "out", "bfloat16")
    monkeypatch.setattr("keras_bert.runtimes.comparison._FLOAT", 1e-12)
    with error_names(ValueError, "float32", "differs", "Keras"):
        export(model, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("mine")
    with error_names(FileExistsError, tmp_path / "out", "something else"):
        export(model, tmp_path / "out", overwrite=True)


def test_litert_has_no_operations_of_tensorflow(tmp_path):
    from ai_edge_litert.interpreter import Interpreter

    export_litert(vectors(), tmp_path / "out", sequence_length=16)
    interpreter = Interpreter(str(tmp_path / "out/model.tflite"))
    used = {each["op_name"] for each in interpreter._get_ops_details()}
    assert "FULLY_CONNECTED" in used
    assert not {name for name in used if name.startswith(("Flex", "FLEX", "CUSTOM"))}
    assert all(tuple(each["shape_signature"]) == (1, 16) for each in interpreter.get_input_details())


def test_litert_carries_vocabulary_and_labels(tmp_path):
    export_litert(small.task(BertClassifier, labels=["good", "bad"]), tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "out/model.tflite") as archive:
        assert archive.read("vocab.txt").decode().split("\n")[:-1] == small.VOCABULARY
        assert archive.read("probabilities.txt") == b"good\nbad\n"


def test_mediapipe_classifies_strings(tmp_path):
    text = pytest.importorskip("mediapipe").tasks.text
    model = small.task(BertClassifier, labels=["good", "bad"])
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
    for export, _ in RUNTIMES.values():
        with error_names(ValueError, repr(f"bad{end}very"), "line end", "labels.txt", "id2label"):
            export(model, tmp_path / "export")
    assert not (tmp_path / "export").exists()

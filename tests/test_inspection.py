"""What `inspect` says of each kind of path, made by the library whose it is, in a process without TensorFlow."""

import bz2
import functools
import gzip
import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text
from safetensors.numpy import load_file, save_file

from keras_bert import (
    BertClassifier,
    BertMaskedLM,
    BertReranker,
    BertSentenceEncoder,
    HubLayer,
    files,
    formats,
    processors,
)
from keras_bert import BertTokenClassifier as Tagger
from keras_bert.formats import hugging_face
from keras_bert.formats.tensorflow import tf1
from keras_bert.inspection import inspect
from keras_bert.runtimes import export_onnx
from keras_bert.saved_model import export_encoder
from keras_bert.search import build_index
from keras_bert.tasks import BertMultiVectorEncoder, BertSparseEncoder
from keras_bert.training.run import save_state

from .golden import make_golden_export as golden
from .support import small, transformers4
from .support.checkpoints import CONFIGS, random_weights
from .support.data import unpack
from .support.keras_hub import write_weights, write_wordpiece

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 133\n"
QUESTIONS = [
    {"id": "1", "question": "Who sang?", "answers": [{"text": "Ada", "answer_start": 0}]},
    {"id": "2", "question": "Who slept?", "answers": [], "is_impossible": True},
]
CONFIG = files.to_json(hugging_face.values_of(CONFIGS["bert"])).encode()
ELECTRA = files.to_json(tf1.values_of(CONFIGS["electra"])).encode()


def task(kind, *arguments, **settings):
    preprocessor = functools.partial(small.preprocessor, tokenizer=small.tokenizer(special_tokens_in_text=True))
    return lambda path: kind(small.encoder(), preprocessor(), *arguments, **settings).save_preset(path)


def checkpoint(form):
    return lambda path: formats.write(path, CONFIGS["bert"], random_weights(CONFIGS["bert"], "masked_lm"), form)


def keras_hub(path):
    write_weights(path, "bert")
    write_wordpiece(path)


def keras_hub_with_onnx(path):
    keras_hub(path)
    (path / "onnx").mkdir()
    (path / "onnx/model.onnx").write_bytes(b"?")


def transformers_model(path):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    labels = {"id2label": {0: "bad", 1: "fair", 2: "good"}, "label2id": {"bad": 0, "fair": 1, "good": 2}}
    config = transformers.BertConfig(vocab_size=len(small.VOCABULARY), max_position_embeddings=40, **sizes, **labels)
    transformers.BertForSequenceClassification(config).save_pretrained(path)
    small.tokenizer().save_preset(path)


def pickled(path):
    torch = pytest.importorskip("torch")
    transformers_model(path)
    weights = {name: torch.tensor(value) for name, value in load_file(path / "model.safetensors").items()}
    (path / "model.safetensors").unlink()
    torch.save(weights, path / "pytorch_model.bin")


def transformers_4(name, without=(), part=""):
    """A model that transformers 4 wrote, or a part of it; `path` is the directory, or that part's new name."""

    def write(path):
        unpack(transformers4.ARCHIVE, path.parent, f"{name}/")
        for file in without:
            (path.parent / name / file).unlink()
        (path.parent / name / part).rename(path)

    return write


def with_configuration(path):
    transformers_4("bert-encoder", part=path.name)(path)
    (path.parent / "bert-encoder/config.json").rename(path.parent / "config.json")


def around_transformers_4(path):
    """A model of Keras 2 with such a model inside."""
    transformers_4("bert-encoder", part="tf_model.h5")(path)
    with h5py.File(path, "a") as file:
        layers = [{"class_name": "TFBertModel", "config": {}}, {"class_name": "Dense", "config": {}}]
        file.attrs["model_config"] = json.dumps({"class_name": "Functional", "config": {"layers": layers}})


def sentence_transformers_model(path):
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer, models

    transformers_model(path.with_name("parts"))
    transformer = models.Transformer(str(path.with_name("parts")))
    parts = [transformer, models.Pooling(32, "cls"), models.Dense(32, 8)]
    SentenceTransformer(modules=parts, device="cpu").save_pretrained(str(path))


def onnx_export(path):
    pytest.importorskip("onnxruntime")
    export_onnx(small.task(BertClassifier, ["a", "b"], config={"num_layers": 1}), path)


def other_export(module, file):
    """What `inspect` looks at of an export for another runtime."""

    def write(path):
        pytest.importorskip(module)
        values = {**hugging_face.values_of(CONFIGS["bert"]), "keras_bert": {"task": "BertClassifier"}}
        directory(**{"config_DOT_json": files.to_json(values).encode(), file: b"?"})(path)

    return write


def keras_file(*layers):
    def save(path):
        model = keras.Sequential([keras.layers.Input((4,)), *layers])
        {"weights": model.save_weights, "export": model.export}.get(path.name.split(".")[0], model.save)(path)

    return save


def save_ours(path):
    small.task(BertClassifier, ["a", "b"]).save(path)


def hub_file(path):
    golden_export("preprocessor")(path.with_name("preprocessor"))
    text = keras.Input((), dtype="string")
    keras.Model(text, HubLayer(str(path.with_name("preprocessor")))(text)).save(path)


def archived_keras_hub(path):
    """What KerasHub's own `save` says of the classes of a model."""
    model = {"module": "keras_hub.src.models.bert.bert_text_embedder", "class_name": "BertTextEmbedder", "config": {}}
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("config.json", json.dumps(model))
        file.writestr("metadata.json", '{"keras_version": "3.15.1"}')


def keras_2_file(path):
    keras_2 = pytest.importorskip("tf_keras")
    words = keras_2.Input((4,), name="words")
    keras_2.Model(words, keras_2.layers.Dense(2)(words)).save(path)


def golden_export(part):
    return functools.partial(unpack, golden.EXPORTS / f"{part}.tar.gz")


def weights_lost(path):
    """A preset whose weights are only in an export."""
    task(BertClassifier, ["a", "b"])(path)
    (path / "model.safetensors").unlink()
    golden_export("serving")(path / "saved_model")


def function(body, **specs):
    """A SavedModel of one function."""

    def save(path):
        module = tf.Module()
        module.body = tf.function(body, input_signature=[tf.TensorSpec(*spec, name) for name, spec in specs.items()])
        tf.saved_model.save(module, path, signatures=module.body.get_concrete_function())

    return save


def in_bfloat16(path):
    with pytest.MonkeyPatch.context() as patch:  # tracing needs no AVX-512
        patch.setattr(processors, "has_bfloat16", lambda: True)
        model = small.task(BertClassifier, ["a", "b"])
        model.set_precision("bfloat16")
        export_encoder(model.encoder, path)


def run(**notes):
    def write(path):
        (path / "training").mkdir(parents=True)
        save_state(path / "training/state.safetensors", [np.ones(3)], {"epoch": 1, "step": 5, **notes})

    return write


def finished_run(path):
    run(measures={"accuracy": 0.5})(path)
    task(BertClassifier, ["a", "b"])(path)


def index(path):
    pytest.importorskip("faiss")
    texts = path.with_name("texts.txt")
    texts.write_text("a film\na story\n")
    task(BertSentenceEncoder)(path.with_name("index-preset"))
    build_index(texts, path, path.with_name("index-preset"), progress=False)


def directory(**contents):
    """A directory of files; in their names, __ stands for a slash, _DOT_ for a dot."""

    def write(path):
        path.mkdir()
        for name, content in contents.items():
            file = path / name.replace("__", "/").replace("_DOT_", ".")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    return write


def file(content):
    return lambda path: path.write_bytes(content)


def pipe(name):
    def write(path):
        path.mkdir()
        os.mkfifo(path / name)

    return write


def archive(path):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as written:
            written.writestr("model/saved_model.pb", b"abc")
        return
    with tarfile.open(path, "w:gz") as written:
        info = tarfile.TarInfo("1/saved_model.pb")
        info.size = 3
        written.addfile(info, io.BytesIO(b"abc"))


def torch_file(path):
    pytest.importorskip("torch").save({"a": 1}, path)


def py_function(x):
    return tf.numpy_function(lambda value: value, [x], tf.float32)


IDS = ([None, 128], tf.int32)
LAMBDA, DENSE = (lambda: keras.layers.Lambda(lambda x: x)), (lambda: keras.layers.Dense(2))
# The name of a path -> what makes it, the first class that loads it (or None), and words of the lines.
ROWS = {
    # Directories of models.
    "ours": (task(BertClassifier, ["good", "bad"]), "BertClassifier", ["good, bad", "predict", "export serving"]),
    "tagger": (task(Tagger, ["O", "B-A", "I-A"], crf=True), "BertTokenClassifier", ["crf.safetensors", "O, B-A, I-A"]),
    "reranker": (task(BertReranker), "BertReranker", ["heads       sequence"]),
    "sparse": (task(BertSparseEncoder, "sum", "log1p_relu"), "BertSparseEncoder", ["masked_lm"]),
    "multi-vector": (task(BertMultiVectorEncoder), "BertMultiVectorEncoder", ["BertMultiVectorEncoder of keras_bert"]),
    "masked": (task(BertMaskedLM), "BertMaskedLM", ["keras-bert fill", "--task fill"]),
    "transformers": (transformers_model, "BertClassifier", ["BertForSequenceClassification", "bad, fair, good"]),
    "pickle": (pickled, "BertEncoder", ["BertForSequenceClassification", "a pickle, which is not opened", "convert"]),
    "h5": (
        transformers_4("bert-sequence"),
        "BertClassifier",
        ["no tokenizer", "convert", "--signature transformers"],
    ),
    "transformers-graph": (
        transformers_4("bert-encoder-saved-model"),
        "BertSentenceEncoder",
        ["SavedModel of transformers 4", "input_ids int32 [?, ?]", "last_hidden_state float32 [?, ?, 8]"],
    ),
    "no-configuration": (
        transformers_4("bert-encoder-saved-model", ["config.json", "saved_model/1/keras_metadata.pb"], "saved_model/1"),
        "HubLayer",
        ["copy the model's config.json there"],
    ),
    "sentences": (
        sentence_transformers_model,
        "BertSentenceEncoder",
        ["8 wide, by cls pooling and a dense layer"],
    ),
    "tf1": (checkpoint("tf1"), "BertMaskedLM", ["Google's checkpoint", "convert", "vocabulary  none", "no tokenizer"]),
    "garden": (checkpoint("garden"), "BertMaskedLM", ["Model Garden", "convert"]),
    "keras-hub": (keras_hub, "BertSentenceEncoder", ["KerasHub", "WordPieceTokenizer", "convert"]),
    "strange": (directory(config_DOT_json=b'{"model_type": "mamba"}', model_DOT_safetensors=b"?"), None, ["mamba"]),
    # SavedModels and exports.
    "encoder": (golden_export("encoder"), "BertMaskedLM", ["TF Hub's interface", "keras_bert", "HubLayer", "convert"]),
    "preprocessor": (golden_export("preprocessor"), "HubLayer", ["a preprocessor", "WordPieceTokenizer", "tokenize"]),
    "serving": (
        golden_export("serving"),
        "HubLayer",
        ["an export of keras_bert", "load the preset", "keras-bert serve"],
    ),
    "weights-lost": (weights_lost, "HubLayer", ["takes texts (SavedModel), an export of keras_bert"]),
    "bfloat16": (in_bfloat16, "HubLayer", ["oneDNN: _Mkl", "computes in bfloat16, which needs AVX-512"]),
    "unsafe": (
        function(lambda x: tensorflow_text.FastBertNormalizer().normalize(x), x=([None], tf.string)),
        None,
        ["TensorFlow Text before 2.21.1 reads outside of its memory in FastBertNormalize"],
    ),
    "fixed": (function(lambda ids: ids + 1, ids=IDS), None, ["rows of exactly 128 tokens", "ids int32 [?, 128]"]),
    "python": (function(py_function, x=([None], tf.float32)), None, ["calls back into Python"]),
    "export": (keras_file(DENSE()), "keras.layers.TFSMLayer", ["Keras 3", "float32 [?, 4]"]),
    "keras-2": (keras_2_file, "HubLayer", ["a SavedModel of Keras 2", "words float32 [?, 4]"]),
    "no-variables": (function(lambda x: x, x=([None], tf.float32)), None, ["it is incomplete"]),
    "onnx": (
        onnx_export,
        "keras_bert.runtimes.load",
        ["for ONNX Runtime", "BertClassifier", "keras-bert predict", "keras-bert serve", "README.md"],
    ),
    "openvino": (
        other_export("openvino", "openvino__openvino_model_DOT_xml"),
        "keras_bert.runtimes.load",
        ["OpenVINO"],
    ),
    "litert": (other_export("ai_edge_litert", "model_DOT_tflite"), None, ["LiteRT", "BertClassifier", "README.md"]),
    "hub-module": (directory(tfhub_module_DOT_pb=b"\x08\x03", saved_model_DOT_pb=b""), None, ["TF1 Hub module"]),
    # Other directories.
    "run": (run(measures=None), None, ["not finished", "epoch 1, step 5"]),
    "finished": (finished_run, "BertClassifier", ["training    finished: accuracy 0.5", "predict"]),
    "index": (index, "TextIndex", ["texts       2", "keras-bert search"]),
    "records": (directory(records_DOT_json=b"{}"), "Records", ["pretrain"]),
    "tokenizer": (lambda path: small.tokenizer().save_preset(path), "WordPieceTokenizer", ["a tokenizer without"]),
    "configuration": (directory(config_DOT_json=CONFIG), None, ["without weights", "2 layers, 12 wide"]),
    "electra": (directory(electra_config_DOT_json=ELECTRA), None, ["without weights", "electra", "12 wide"]),
    "adapter": (directory(adapter_config_DOT_json=b"{}", adapter_model_DOT_safetensors=b""), None, ["merge"]),
    "flax": (directory(config_DOT_json=CONFIG, flax_model_DOT_msgpack=b"\x81"), None, ["from_flax=True"]),
    "gguf": (directory(model_DOT_gguf=b"GGUF"), None, ["llama.cpp"]),
    "pointers": (directory(config_DOT_json=CONFIG, model_DOT_safetensors=POINTER), None, ["git lfs pull"]),
    "pipe": (pipe("config.json"), None, ["config.json is a pipe"]),
    "pipes": (pipe("saved_model.pb"), None, ["saved_model.pb is a pipe"]),
    "beir": (
        directory(corpus_DOT_jsonl=b"{}", queries_DOT_jsonl=b"{}"),
        None,
        ["BEIR", "corpus.jsonl: a file of JSON lines", "keras-bert evaluate", "corpus.jsonl --text-column text"],
    ),
    "empty": (directory(), None, ["an empty directory"]),
    "exported-beside": (keras_hub_with_onnx, "BertSentenceEncoder", ["KerasHub"]),
    "models": (
        directory(a__config_DOT_json=CONFIG, b__model_DOT_onnx=b""),
        None,
        ["a: a configuration", "b: a model for ONNX"],
    ),
    "notes": (directory(notes_DOT_odt=b"?"), None, ["no model", "notes.odt: a file that is not known here"]),
    # Files.
    "whole.keras": (keras_file(DENSE()), "keras.saving.load_model", ["Dense", "Keras 3"]),
    "lambda.keras": (keras_file(LAMBDA()), None, ["Lambda", "safe_mode=False", "trust"]),
    "ours.keras": (
        save_ours,
        "keras.saving.load_model, after import keras_bert",
        ["BertClassifier", "import keras, keras_bert; model = keras.saving.load_model("],
    ),
    "embedder.keras": (
        archived_keras_hub,
        "keras.saving.load_model, after import keras_hub",
        ["import keras, keras_hub;", "save_to_preset"],
    ),
    "hub.keras": (hub_file, None, ["HubLayer", "trust", "import keras, keras_bert;", "hub.keras', safe_mode=False)"]),
    "whole.h5": (keras_file(DENSE()), "keras.saving.load_model", ["HDF5", "Dense"]),
    "weights.weights.h5": (keras_file(DENSE()), None, ["without a model"]),
    "keras-2.h5": (keras_2_file, None, ["pip install tf_keras"]),
    "around.h5": (
        around_transformers_4,
        None,
        ["written with transformers 4", "TFBertModel", "cp ", "old/tf_model.h5"],
    ),
    "tf_model.h5": (with_configuration, None, ["inside", ": a model of transformers"]),
    "damaged.h5": (file(b"\x89HDF\r\n\x1a\n" + b"?" * 99), None, ["not a whole HDF5 file"]),
    "a.safetensors": (lambda path: save_file({"a": np.ones(2)}, path), None, ["safetensors", "arrays      a"]),
    "a.pt": (torch_file, None, ["PyTorch", "not opened here"]),
    "a.pkl": (lambda path: path.write_bytes(pickle.dumps([1])), None, ["a pickle", "not opened here"]),
    "a.gguf": (file(b"GGUF\3"), None, ["llama.cpp"]),
    "a.onnx": (file(b"\x08\x08"), None, ["ONNX Runtime"]),
    "a.tflite": (file(b"\0\0\0\0TFL3"), None, ["LiteRT"]),
    "a.msgpack": (file(b"\x81"), None, ["Flax"]),
    "a.npy": (lambda path: np.save(path, np.ones((3, 8), np.float32)), None, ["numpy.load"]),
    "a.zip": (archive, None, ["an archive", "unpack"]),
    "a.tar.gz": (archive, None, ["an archive", "unpack"]),
    "a.gz": (lambda path: path.write_bytes(gzip.compress(b"abc")), None, ["a compressed file", "unpack"]),
    "a.tfrecord": (file(b"?"), None, ["examples"]),
    "pointer.bin": (file(POINTER), None, ["Git LFS pointer", "git lfs pull"]),
    "nothing.bin": (file(b""), None, ["an empty file"]),
    "vocab.txt": (file(b"[PAD]\n"), None, ["a file of a tokenizer", ": a tokenizer without a model"]),
    "a.csv": (file(b"text,label\n"), None, ["a table"]),
    "b.csv": (file(b"id;review;label\n1;a film;good\n"), None, ["';'", "id, review, label", "--text-column review"]),
    "stars.tsv": (
        file(b"id\tsentence\tstars\n" + b"".join(b"%d\ta long film\t%d\n" % (i, i % 3) for i in range(9))),
        None,
        [
            "labels      0, 1, 2 (column stars)",
            "finetune classify --train",
            "--text-column sentence --label-column stars",
        ],
    ),
    "pairs.csv": (
        file(b"A plane takes off.,A plane lands.,5.0\n" + b"A dog runs.,A cat runs.,2.5\nA man.,A boy.,5.0\n" * 2),
        None,
        ["3, without names", "--text-pair-column 2 --label-column 3 --problem-type regression --no-header"],
    ),
    "tie.csv": (
        file(b"a,b,review\n0,x,a film\n1,y,a play\n" + b"0,y,a book\n" * 2),
        None,
        ["in one of the columns a, b"],
    ),
    "table.txt": (file(b"text\tlabel\na film\tgood\n"), None, ["may be a table (TSV)", "--format tsv"]),
    "a.csv.gz": (file(gzip.compress(b"text,label\na film,good\n")), None, ["a table (CSV)", "labels      good"]),
    "a.ndjson": (file(b'{"a {x}": "b"}\n' * 2000), None, ["JSON lines", "at least 200", "--text-column 'a {x}'"]),
    "a.jsonl.gz": (file(gzip.compress(b'{"text": "a"}\n')), None, ["JSON lines", "rows        1"]),
    "lines.json": (file(b'{"text": "a"}\n{"text": "b"}\n'), None, ["JSON lines", "rows        2"]),
    "list.json": (file(b'[\n{"text": "a"}\n]\n'), None, ["a list in JSON, not JSON lines"]),
    "squad.json": (file(b'{"data": [{"paragraphs": []}]}'), None, ["like SQuAD's", "finetune answer", "no questions"]),
    "answers.json": (
        lambda path: path.write_text(
            json.dumps({"data": [{"paragraphs": [{"context": "Ada sang.", "qas": QUESTIONS}]}]})
        ),
        None,
        ["questions   2", "no answer   1", "finetune answer"],
    ),
    "a.conll": (file(b"cats O\n\nAda B-person\n"), None, ["sentences   2", "B-person, O", "CoNLL", "finetune tag"]),
    "a.txt.gz": (file(gzip.compress(b"a film\n")), None, ["text", "keras-bert index"]),
    "texts.txt": (file(b"BZh, GGUF and ustar are names\n"), None, ["what        text"]),
    "a.bz2": (file(bz2.compress(b"a film\n")), None, ["an archive"]),
    "a.png": (file(b"\x89PNG\r\n"), None, ["a picture"]),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Makes a path and inspects it, all in one other process."""
    root, made, skipped = tmp_path_factory.mktemp("paths"), {}, {}
    for name, (make, _, _) in ROWS.items():
        (root / name.replace(".", "-")).mkdir()
        path = root / name.replace(".", "-") / name
        try:
            make(path)
        except pytest.skip.Exception as reason:
            skipped[name] = str(reason)
            continue
        made[name] = str(path)
    shutil.rmtree(f"{made['no-variables']}/variables")
    code = """
import json, sys
from keras_bert.inspection import inspect
found = {name: inspect(path) for name, path in json.load(sys.stdin).items()}
loaded = [name for name in ("tensorflow", "keras", "torch", "transformers") if name in sys.modules]
print(json.dumps([{name: [each.loads_as, [*each.lines()]] for name, each in found.items()}, loaded]))
"""
    result = subprocess.run([sys.executable, "-c", code], input=json.dumps(made), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    inspected, loaded = json.loads(result.stdout)
    assert loaded == []
    return inspected, skipped, made


@pytest.mark.parametrize("name", ROWS)
def test_what_a_path_is(name, told):
    inspected, skipped, _ = told
    if name in skipped:
        pytest.skip(skipped[name])
    _, loads_as, words = ROWS[name]
    classes, lines = inspected[name]
    text = "\n".join(f"{name:<12}{each}" for name, each in lines)
    assert (classes or [None])[0] == loads_as, text
    for word in words:
        assert word in text, text


@pytest.mark.parametrize("name", ["a.xlsx", "a.xlsm", "renamed.bin"])
def test_a_workbook_is_a_table(tmp_path, name):
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (["text", "label"], ["a film", "good"]):
        book.active.append(row)
    book.create_sheet("notes").append(["mine"])
    book.save(tmp_path / name)
    found = inspect(tmp_path / name)
    assert (found.kind, found.what, found.facts["columns"]) == ("data", "a workbook", "text, label")
    assert [each.count("not 'notes'") for each in found.wrong] == [1]


@pytest.mark.parametrize("name", ["a.ods", "a.xls"])
def test_a_damaged_workbook_is_none_the_less(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "a.ods", "w") as written:
        written.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
    (tmp_path / "a.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    found = inspect(tmp_path / name)
    assert (found.kind, found.what) == ("data", "a workbook")
    assert "cannot be read" in found.wrong[0]


def test_names_in_a_file_are_not_code_to_run(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.keras", "w") as written:
        layer = {"class_name": "A}) or exit() #", "config": {}, "registered_name": "other>A"}
        written.writestr("config.json", json.dumps(layer))
        written.writestr("metadata.json", '{"keras_version": "2.15.0"}')
    found = inspect(tmp_path / "a.keras")
    assert found.commands == []
    assert "no names in Python" in found.wrong[-1]


@pytest.mark.parametrize("name", [name for name in ROWS if "." in name])
def test_a_damaged_file_is_told_in_one_line_each(name, told, tmp_path):
    if name in told[1]:
        pytest.skip(told[1][name])
    content, random = Path(told[2][name]).read_bytes(), np.random.default_rng(0)
    for _ in range(20):
        damaged = bytearray(content[: random.integers(len(content) + 1)])
        for place in random.integers(len(damaged), size=min(3, len(damaged))):
            damaged[place] = random.integers(256)
        (tmp_path / name).write_bytes(damaged)
        assert all("\n" not in text for _, text in inspect(tmp_path / name).lines())

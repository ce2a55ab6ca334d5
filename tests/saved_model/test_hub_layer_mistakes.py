"""HubLayer: what people get wrong, damaged directories, and handles."""

import functools
import http.server
import os
import shutil
import sys
import tarfile
import threading
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import HubLayer
from keras_bert.saved_model.saving import callable_object

from ..support.hub import IDS, NAMES, TEXTS
from ..support.messages import error_names
from ..support.processes import run_python

ENCODER = {
    "an input is missing": ({"input_mask": ...}, ValueError, "'input_mask'", "missing"),
    "an input is unknown": ({"mask": IDS["input_mask"]}, ValueError, "'mask'", "not an input"),
    "an input is of floats": ({"input_mask": IDS["input_mask"] * 1.0}, TypeError, "float64 [2, 4]", "not int32"),
    "an input is one row": ({"input_mask": IDS["input_mask"][0]}, ValueError, "int64 [4]", "not int32 [?, ?]"),
    "an input is None": ({"input_mask": None}, ValueError, "input_mask", "cannot be read as int32 [?, ?]"),
    "an input is ragged": ({"input_mask": [[1, 1], [1]]}, ValueError, "input_mask", "cannot be read as int32 [?, ?]"),
    "an input is symbolic": ({"input_mask": keras.KerasTensor((2, 4))}, TypeError, "float32 [2, 4]", "not int32"),
}  # fmt: skip


@pytest.mark.parametrize("what", ENCODER)
def test_an_encoder_says_what_it_takes_if(ours, our_encoder, what):
    change, error, *words = ENCODER[what]
    inputs = {name: value for name, value in (IDS | change).items() if value is not ...}
    takes = ", ".join(f"{name}: int32 [?, ?]" for name in sorted(NAMES))
    with error_names(error, *words, f"{ours['encoder']} takes {{{takes}}}"):
        our_encoder(inputs)


@pytest.mark.parametrize(
    ("texts", "error", "words"),
    [
        ("one", ValueError, "string []"),
        ([["one"]], ValueError, "string [1, 1]"),
        ([1, 2], TypeError, "int32 [2]"),
        (["one", None], ValueError, "cannot be read as string [?]"),
        (keras.KerasTensor((None, 1), "string"), ValueError, "string [?, 1]"),
    ],
)
def test_a_preprocessor_says_that_it_takes_texts(our_preprocessor, texts, error, words):
    with error_names(error, "the input", words, "takes string [?]"):
        our_preprocessor(texts)


def test_arguments_that_a_saved_model_lacks_are_refused(toy, our_encoder):
    with error_names(TypeError, "the input", "string [8]", "dict", "input_mask: int32"):
        our_encoder(TEXTS)
    total = HubLayer(toy, endpoint="total")
    with error_names(ValueError, "[int32 [1, 2]]", "'total'", "takes [ragged int32", "or [ragged int32"):
        total([tf.constant([[1, 2]])])
    with error_names(ValueError, toy, "'nsp'", "double, number, total"):
        HubLayer(toy, endpoint="nsp")
    with error_names(ValueError, toy, "'length'", "training"):
        HubLayer(toy, arguments={"length": 9})


DATA = "variables/variables.data-00000-of-00001"
DAMAGES = {
    "is not there": (shutil.rmtree, FileNotFoundError, "does not exist", "SavedModel"),
    "has no graph": (
        lambda path: (path / "saved_model.pb").unlink(),
        FileNotFoundError, "not a SavedModel", "no saved_model.pb", "holds",
    ),
    "has an empty graph": (lambda path: os.truncate(path / "saved_model.pb", 0), ValueError, "may be damaged"),
    "has half a graph": (
        lambda path: os.truncate(path / "saved_model.pb", 9999), ValueError, "may be damaged", "Cannot parse file",
    ),
    "has no variables": (
        lambda path: shutil.rmtree(path / "variables"), FileNotFoundError, "incomplete", "variables/variables.index",
    ),
    "has no values": (lambda path: (path / DATA).unlink(), ValueError, "may be damaged", "No such file"),
    "has half its values": (lambda path: os.truncate(path / DATA, 999), ValueError, "Read less bytes"),
    "has half an index": (
        lambda path: os.truncate(path / "variables/variables.index", 9), ValueError, "may be damaged",
    ),
    "has no vocabulary": (
        lambda path: shutil.rmtree(path / "assets"), ValueError, "may be damaged", "words.txt; No such file",
    ),
    "is of TF1": (lambda path: (path / "tfhub_module.pb").touch(), ValueError, "TF1 Hub module", "tfhub_module.pb"),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGES)
def test_a_directory_is_refused_that(toy, tmp_path, what):
    damage, error, *words = DAMAGES[what]
    path = Path(shutil.copytree(toy, tmp_path / "model"))
    damage(path)
    with error_names(error, path, *words):
        HubLayer(path)


def test_a_directory_of_something_else_is_refused(tmp_path):
    (tmp_path / "config.json").touch()
    with error_names(FileNotFoundError, tmp_path, "no saved_model.pb", "holds config.json"):
        HubLayer(tmp_path)
    with error_names(FileNotFoundError, tmp_path / "config.json", "a file", "directory"):
        HubLayer(tmp_path / "config.json")


def test_a_saved_model_that_is_not_reusable_is_refused(tmp_path):
    keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)]).export(tmp_path / "keras", verbose=False)
    with error_names(ValueError, tmp_path / "keras", "not a reusable", "TFSMLayer", "serve, serving_default"):
        HubLayer(tmp_path / "keras")
    parts = tf.train.Checkpoint(double=callable_object(tf.function(lambda x: 2 * x, [tf.TensorSpec([None])])))
    tf.saved_model.save(parts, tmp_path / "parts")
    with error_names(ValueError, tmp_path / "parts", "called as a whole", "endpoints are double", "signatures: none"):
        HubLayer(tmp_path / "parts")
    assert HubLayer(tmp_path / "parts", endpoint="double")([1.5]).numpy().tolist() == [3.0]


def test_a_failed_assertion_of_the_saved_model_is_seen(our_encoder):
    inputs = {name: np.ones((1, 60), np.int32) for name in NAMES}
    # The assertion names 48 positions, and so does the look-up of position embeddings, which may run before it.
    with error_names((tf.errors.InvalidArgumentError, ValueError), "48"):
        our_encoder(inputs)


@pytest.mark.timing
def test_an_address(toy, tmp_path, monkeypatch):
    pytest.importorskip("tensorflow_hub")
    (tmp_path / "served").mkdir()
    with tarfile.open(tmp_path / "served/toy.tar.gz", "w:gz") as archive:
        archive.add(toy, ".")
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "cache"))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "served")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        layer = HubLayer(f"http://127.0.0.1:{server.server_port}/toy.tar.gz")
        server.shutdown()
    np.testing.assert_array_equal(layer(np.ones((1, 3))), [[2.0] * 3])


def test_an_address_without_tensorflow_hub(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_hub", None)
    with error_names(ImportError, "tensorflow_hub", "pip install 'keras-bert-models[hub]'"):
        HubLayer("https://tfhub.dev/a/1")


@pytest.mark.parity
def test_other_backends_get_a_clear_error(toy):
    pytest.importorskip("jax")
    code = """
import sys
from keras_bert import HubLayer
try:
    HubLayer(sys.argv[1])
except RuntimeError as error:
    print(error)
"""
    assert "Keras's backend is jax; set KERAS_BACKEND=tensorflow" in run_python(code, toy, KERAS_BACKEND="jax")

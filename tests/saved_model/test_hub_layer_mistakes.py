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
from ..support.processes import run_python


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"input_mask": ...}, ValueError, "'input_mask' is missing"),
        ({"mask": IDS["input_mask"]}, ValueError, "'mask' is not an input"),
        ({"input_mask": IDS["input_mask"] * 1.0}, TypeError, r"input_mask is float64 \[2, 4\], not int32"),
        ({"input_mask": IDS["input_mask"][0]}, ValueError, r"input_mask is int64 \[4\], not int32 \[\?, \?\]"),
        ({"input_mask": None}, ValueError, r"input_mask cannot be read as int32 \[\?, \?\]"),
        ({"input_mask": [[1, 1], [1]]}, ValueError, r"input_mask cannot be read as int32 \[\?, \?\]"),
        ({"input_mask": keras.KerasTensor((2, 4))}, TypeError, r"input_mask is float32 \[2, 4\], not int32"),
    ],
)
def test_bad_inputs_of_an_encoder(ours, our_encoder, change, error, message):
    inputs = {name: value for name, value in (IDS | change).items() if value is not ...}
    with pytest.raises(error, match=message) as caught:
        our_encoder(inputs)
    takes = ", ".join(f"{name}: int32 [?, ?]" for name in sorted(NAMES))
    assert str(caught.value).endswith(f"{ours['encoder']} takes {{{takes}}}")


def test_something_that_is_not_a_dict(our_encoder):
    with pytest.raises(TypeError, match=r"the input is string \[8\], not a dict; .* takes \{input_mask: int32 "):
        our_encoder(TEXTS)


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        ("one", ValueError, r"the input is string \[\], not string \[\?\]; .* takes string \[\?\]"),
        ([["one"]], ValueError, r"the input is string \[1, 1\], not string \[\?\]"),
        ([1, 2], TypeError, r"the input is int32 \[2\], not string"),
        (["one", None], ValueError, r"the input cannot be read as string \[\?\]"),
        (keras.KerasTensor((None, 1), "string"), ValueError, r"the input is string \[\?, 1\], not string \[\?\]"),
    ],
)
def test_bad_inputs_of_a_preprocessor(our_preprocessor, texts, error, message):
    with pytest.raises(error, match=message):
        our_preprocessor(texts)


def test_bad_inputs_where_several_are_good(toy):
    total = HubLayer(toy, endpoint="total")
    with pytest.raises(
        ValueError, match=r"got \[int32 \[1, 2\]\]; the endpoint 'total' of .* takes \[ragged int32 .*, or \["
    ):
        total([tf.constant([[1, 2]])])


def test_unknown_endpoints_and_arguments(toy):
    with pytest.raises(ValueError, match="has no endpoint 'nsp'; its endpoints are double, number, total$"):
        HubLayer(toy, endpoint="nsp")
    with pytest.raises(ValueError, match="has no argument 'length'; besides the inputs it has training"):
        HubLayer(toy, arguments={"length": 9})


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (lambda path: shutil.rmtree(path), FileNotFoundError, "does not exist; expected the directory of a SavedModel"),
        (
            lambda path: (path / "saved_model.pb").unlink(),
            FileNotFoundError,
            "not a SavedModel: it has no saved_model.pb",
        ),
        (lambda path: os.truncate(path / "saved_model.pb", 0), ValueError, "cannot be loaded, it may be damaged"),
        (
            lambda path: os.truncate(path / "saved_model.pb", 9999),
            ValueError,
            "damaged: Cannot parse file .*saved_model.pb",
        ),
        (
            lambda path: shutil.rmtree(path / "variables"),
            FileNotFoundError,
            "incomplete: it has no variables/variables.index",
        ),
        (
            lambda path: (path / "variables/variables.data-00000-of-00001").unlink(),
            ValueError,
            "damaged: .*variables.data-00000-of-00001; No such file",
        ),
        (
            lambda path: os.truncate(path / "variables/variables.data-00000-of-00001", 999),
            ValueError,
            "Read less bytes",
        ),
        (lambda path: os.truncate(path / "variables/variables.index", 9), ValueError, "may be damaged"),
        (lambda path: (path / "tfhub_module.pb").touch(), ValueError, "is a TF1 Hub module"),
    ],
)
def test_damaged_directories(toy, tmp_path, damage, error, message):
    path = Path(shutil.copytree(toy, tmp_path / "model"))
    damage(path)
    with pytest.raises(error, match=message) as caught:
        HubLayer(path)
    assert str(caught.value).startswith(str(path))


def test_a_missing_vocabulary(toy, tmp_path):
    path = Path(shutil.copytree(toy, tmp_path / "model"))
    shutil.rmtree(path / "assets")
    with pytest.raises(ValueError, match=r"cannot be loaded[\s\S]*words.txt; No such file"):
        HubLayer(path)


def test_a_directory_of_something_else(tmp_path):
    (tmp_path / "config.json").touch()
    with pytest.raises(FileNotFoundError, match=r"it has no saved_model\.pb; it holds config\.json$"):
        HubLayer(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"config\.json is a file; expected the directory"):
        HubLayer(tmp_path / "config.json")


def test_a_saved_model_that_is_not_reusable(tmp_path):
    keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)]).export(tmp_path / "keras", verbose=False)
    with pytest.raises(ValueError, match=r"not a reusable one: .* its signatures are serve, serving_default, which"):
        HubLayer(tmp_path / "keras")
    parts = tf.train.Checkpoint(double=callable_object(tf.function(lambda x: 2 * x, [tf.TensorSpec([None])])))
    tf.saved_model.save(parts, tmp_path / "parts")
    with pytest.raises(
        ValueError, match="cannot be called as a whole; its endpoints are double; its signatures are none"
    ):
        HubLayer(tmp_path / "parts")
    assert HubLayer(tmp_path / "parts", endpoint="double")([1.5]).numpy().tolist() == [3.0]


def test_a_failed_assertion_of_the_saved_model_is_seen(our_encoder):
    inputs = {name: np.ones((1, 60), np.int32) for name in NAMES}
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match="48 positions"):
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
    with pytest.raises(ImportError, match=r"this needs tensorflow_hub: pip install 'keras-bert-models\[hub\]'"):
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

"""`import keras_bert` alone lets Keras load the package's classes, and imports neither."""

import re
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert import AdamW
from keras_bert.registered import classes

from .support import small

PACKAGE = Path(keras_bert.__file__).parent


def run(code: str, **options) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, **options).stdout


def test_every_class_that_keras_saves_is_listed():
    found = {}
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        if names := re.findall(r"@keras.saving.register_keras_serializable.*\nclass (\w+)", path.read_text("utf-8")):
            found[module] = sorted(names)
    assert {module: sorted(names) for module, names in classes().items()} == found


@pytest.mark.parametrize("first", ["", "import keras", "import keras_bert, importlib.util as u; u.find_spec('keras')"])
def test_in_any_order_and_keras_is_as_it_was(first, tmp_path):
    (tmp_path / "keras").mkdir()
    (tmp_path / "keras/__init__.py").write_text("here = __loader__, __spec__.loader")
    registry = "class Own: 0\nobjects = {'keras_bert>CRF': Own}\ndef get_custom_objects(): return objects\n"
    (tmp_path / "keras/saving.py").write_text(registry)
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
{first}
import keras_bert
import keras, keras.saving
assert {{type(each).__name__ for each in (*keras.here, keras.__loader__)}} == {{"SourceFileLoader"}}
print(len(keras.saving.objects), keras.saving.objects["keras_bert>CRF"].__name__, "keras_bert.encoder" in sys.modules)
"""
    assert run(code).split() == [str(sum(map(len, classes().values()))), "Own", "False"]


@pytest.mark.slow
def test_a_new_process_loads_a_model(tmp_path):
    text = keras.Input((), dtype="string")
    outputs = small.encoder()(small.preprocessor()(text))["pooled_output"]
    model = keras.Model(text, keras.layers.Dense(2)(outputs))
    model.compile(AdamW(1e-3), "mse")
    model.save(tmp_path / "model.keras")
    code = f"""
import keras_bert, keras, tensorflow as tf
model = keras.models.load_model({str(tmp_path / "model.keras")!r})
print(type(model.optimizer).__name__, *model(tf.constant(["good film"])).numpy().ravel())
"""
    name, *values = run(code).split()
    assert name == "AdamW"
    np.testing.assert_allclose(np.array(values, float), model(np.array(["good film"]))[0], rtol=0, atol=1e-5)

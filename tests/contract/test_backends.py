"""The encoder on the other backends of Keras: the same numbers as TensorFlow's (test_golden.py), and no TensorFlow."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_bert import BertEncoder, presets

from ..support.data import ROOT
from ..support.encoders import LLAMA, MODERN, random_encoder, random_inputs

pytestmark = pytest.mark.parity

GOLDEN = Path(__file__).parent.parent / "golden"
FAMILIES = {
    "modernbert": {**MODERN, "head_activation": "gelu"},
    "nomic_bert": {"rope_theta": 100.0, "attention_bias": False, "feed_forward_bias": False, "gated": True},
    "mpnet": {"relative_buckets": 32, "type_vocab_size": 0, "pad_token_id": 1, "positions_after_padding": True},
    "deberta-v2": {"disentangled_buckets": 4, "type_vocab_size": 0, "pooler": False},
    "eurobert": {**LLAMA, "rope_theta": 50.0, "num_key_value_heads": 2, "head_dim": 12},
    "new": {"rope_theta": 50.0, "rope_factor": 4.0, "gated": True, "intermediate_bias": False},
    "neobert": {**LLAMA, "rope_theta": 10_000.0},
}
# Arguments: the file of a dict of presets, and what must not be importable. Beside that file, each preset has a file of
# inputs, and gets one of outputs.
PROGRAM = """
import json, pathlib, sys
from importlib.machinery import PathFinder

presets, *blocked = sys.argv[1:]


class PathFinderWithout(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        # As if it were not installed: torch asks, and expects None rather than an error.
        return None if name.partition(".")[0] in blocked else super().find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = PathFinderWithout

import keras
import numpy as np
from keras import ops

import keras_bert.config
import keras_bert.encoder
from keras_bert.formats import open_checkpoint
from keras_bert import BertEncoder

folder = pathlib.Path(presets).parent
for name, preset in json.loads(pathlib.Path(presets).read_text()).items():
    assert open_checkpoint(preset).config.hidden_size > 0
    result = BertEncoder.from_preset(preset)(dict(np.load(folder / f"{name}-inputs.npz")))
    np.savez(
        folder / f"{name}-outputs.npz",
        backend=keras.backend.backend(),
        encoder_outputs=np.stack([ops.convert_to_numpy(layer) for layer in result["encoder_outputs"]]),
        pooled_output=ops.convert_to_numpy(result["pooled_output"]),
    )
assert not set(blocked) & {name.partition(".")[0] for name in sys.modules}
"""


def run(backend, presets, inputs, folder, blocked=("tensorflow", "tensorflow_text")):
    """The outputs of a fresh Python under that backend, by name: `encoder_outputs` and `pooled_output`."""
    for name in presets:
        np.savez(folder / f"{name}-inputs.npz", **inputs[name])
    (folder / "presets.json").write_text(json.dumps({name: str(preset) for name, preset in presets.items()}))
    command = [sys.executable, "-c", PROGRAM, str(folder / "presets.json"), *blocked]
    environment = {**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
    result = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    outputs = {name: np.load(folder / f"{name}-outputs.npz") for name in presets}
    assert {str(each["backend"]) for each in outputs.values()} == {backend}
    return outputs


def of(golden, prefix=""):
    """The inputs of golden outputs."""
    return {
        "input_word_ids": golden[f"{prefix}word_ids"],
        "input_mask": golden[f"{prefix}mask"].astype("int32"),
        "input_type_ids": golden[f"{prefix}type_ids"].astype("int32"),
    }


@pytest.fixture(scope="module")
def encoders():
    """One of each family."""
    return {family: random_encoder(family=family, **changes) for family, changes in FAMILIES.items()}


@pytest.fixture(scope="module")
def inputs(encoders):
    found = dict.fromkeys(("tiny-bert", "tiny-bert-old-names"), of(np.load(GOLDEN / "tiny-bert.npz")))
    found["minilm"] = of(np.load(GOLDEN / "minilm.npz"), "single_")
    for family, encoder in encoders.items():
        found[family] = random_inputs()
        found[family]["input_mask"][1, 5:] = 0
        found[family]["input_word_ids"][1, 5:] = encoder.config.pad_token_id
    return found


@pytest.fixture(scope="module", params=["jax", "torch"])
def outputs(request, encoders, inputs, tmp_path_factory):
    """Those of all models on another backend, where TensorFlow cannot be imported."""
    pytest.importorskip(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    models = {name: GOLDEN / name for name in ("tiny-bert", "tiny-bert-old-names")}
    models["minilm"] = presets.resolve("all-MiniLM-L6-v2")
    for family, encoder in encoders.items():
        models[family] = folder / family
        encoder.save_preset(models[family])
    return run(request.param, models, inputs, folder)


def close(found, layers, pooled, mask, tolerance=1e-5):
    real = mask.astype(bool)
    np.testing.assert_allclose(found["encoder_outputs"][:, real], np.stack(layers)[:, real], rtol=0, atol=tolerance)
    if pooled is not None:
        np.testing.assert_allclose(found["pooled_output"], pooled, rtol=0, atol=tolerance)


@pytest.mark.parametrize("names", ["tiny-bert", "tiny-bert-old-names"])
def test_same_numbers(outputs, names):
    golden = np.load(GOLDEN / "tiny-bert.npz")
    close(outputs[names], golden["encoder_outputs"], golden["pooled_output"], golden["mask"])


@pytest.mark.parametrize("family", FAMILIES)
def test_same_numbers_of_encoders_since_bert(outputs, encoders, inputs, family):
    expected = encoders[family](inputs[family])["encoder_outputs"]
    close(outputs[family], expected, None, inputs[family]["input_mask"], 1e-4)


def test_same_numbers_for_a_real_model(outputs, inputs):
    expected = BertEncoder.from_preset("all-MiniLM-L6-v2")(inputs["minilm"])
    mask = inputs["minilm"]["input_mask"]
    close(outputs["minilm"], expected["encoder_outputs"], expected["pooled_output"], mask)


def test_blocking_blocks(tmp_path):
    """The tests above would pass for nothing if a blocked module could be imported after all."""
    models, inputs = {"tiny": GOLDEN / "tiny-bert"}, {"tiny": {"input_word_ids": np.ones((1, 3), "int32")}}
    with pytest.raises(AssertionError, match="No module named 'tensorflow'"):
        run("tensorflow", models, inputs, tmp_path, ("tensorflow",))

"""The encoder on the other backends of Keras: the same numbers as TensorFlow's (test_golden.py), and no TensorFlow."""

import importlib.util
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
BACKENDS = [
    pytest.param(
        backend, marks=pytest.mark.skipif(not importlib.util.find_spec(backend), reason=f"{backend} is not installed")
    )
    for backend in ("jax", "torch")
]

# Arguments: a preset, a file of inputs, where the outputs go, and what must not be importable.
PROGRAM = """
import sys
from importlib.machinery import PathFinder

preset, inputs, outputs, *blocked = sys.argv[1:]


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
from keras_bert import BertEncoder, presets

assert open_checkpoint(presets.resolve(preset)).config.hidden_size > 0
encoder = BertEncoder.from_preset(preset)
result = encoder(dict(np.load(inputs)))
np.savez(
    outputs,
    backend=keras.backend.backend(),
    encoder_outputs=np.stack([ops.convert_to_numpy(layer) for layer in result["encoder_outputs"]]),
    pooled_output=ops.convert_to_numpy(result["pooled_output"]),
)
assert not set(blocked) & {name.partition(".")[0] for name in sys.modules}
"""


def run(backend, preset, inputs, tmp_path, blocked=()):
    """The outputs of a fresh Python under that backend: `encoder_outputs` and `pooled_output`."""
    inputs_file, outputs_file = tmp_path / f"{backend}-inputs.npz", tmp_path / f"{backend}-outputs.npz"
    np.savez(inputs_file, **inputs)
    command = [sys.executable, "-c", PROGRAM, str(preset), str(inputs_file), str(outputs_file)]
    environment = {**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
    result = subprocess.run([*command, *blocked], env=environment, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    outputs = np.load(outputs_file)
    assert outputs["backend"] == backend
    return outputs


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("names", ["tiny-bert", "tiny-bert-old-names"])
def test_same_numbers(backend, names, tmp_path):
    golden = np.load(GOLDEN / "tiny-bert.npz")
    inputs = {
        "input_word_ids": golden["word_ids"],
        "input_mask": golden["mask"].astype("int32"),
        "input_type_ids": golden["type_ids"].astype("int32"),
    }
    outputs = run(backend, GOLDEN / names, inputs, tmp_path, blocked=("tensorflow", "tensorflow_text"))
    real = golden["mask"].astype(bool)
    np.testing.assert_allclose(
        outputs["encoder_outputs"][:, real], golden["encoder_outputs"][:, real], rtol=0, atol=1e-5
    )
    np.testing.assert_allclose(outputs["pooled_output"], golden["pooled_output"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("modernbert", {**MODERN, "head_activation": "gelu"}),
        ("nomic_bert", {"rope_theta": 100.0, "attention_bias": False, "feed_forward_bias": False, "gated": True}),
        ("mpnet", {"relative_buckets": 32, "type_vocab_size": 0, "pad_token_id": 1, "positions_after_padding": True}),
        ("deberta-v2", {"disentangled_buckets": 4, "type_vocab_size": 0, "pooler": False}),
        ("eurobert", {**LLAMA, "rope_theta": 50.0, "num_key_value_heads": 2}),
        ("new", {"rope_theta": 50.0, "rope_factor": 4.0, "gated": True, "intermediate_bias": False}),
        ("neobert", {**LLAMA, "rope_theta": 10_000.0}),
    ],
)
def test_same_numbers_of_encoders_since_bert(backend, family, changes, tmp_path):
    encoder = random_encoder(family=family, **changes)
    encoder.save_preset(tmp_path)
    inputs = random_inputs()
    inputs["input_mask"][1, 5:] = 0
    inputs["input_word_ids"][1, 5:] = encoder.config.pad_token_id
    real = inputs["input_mask"].astype(bool)
    outputs = run(backend, tmp_path, inputs, tmp_path, blocked=("tensorflow", "tensorflow_text"))
    expected = np.stack(encoder(inputs)["encoder_outputs"])
    np.testing.assert_allclose(outputs["encoder_outputs"][:, real], expected[:, real], rtol=0, atol=1e-4)


def test_same_numbers_for_a_real_model(tmp_path):
    golden = np.load(GOLDEN / "minilm.npz")
    inputs = {
        "input_word_ids": golden["single_word_ids"],
        "input_mask": golden["single_mask"].astype("int32"),
        "input_type_ids": golden["single_type_ids"].astype("int32"),
    }
    real = golden["single_mask"].astype(bool)
    expected = BertEncoder.from_preset("all-MiniLM-L6-v2")(inputs)
    layers = np.stack(expected["encoder_outputs"])
    found = [name for name in ("jax", "torch") if importlib.util.find_spec(name)]
    if not found:
        pytest.skip("neither jax nor torch is installed beside tensorflow")
    for backend in found:
        other = run(backend, presets.resolve("all-MiniLM-L6-v2"), inputs, tmp_path)
        np.testing.assert_allclose(other["encoder_outputs"][:, real], layers[:, real], rtol=0, atol=1e-5)
        np.testing.assert_allclose(other["pooled_output"], expected["pooled_output"], rtol=0, atol=1e-5)


def test_blocking_blocks(tmp_path):
    """The test above would pass for nothing if a blocked module could be imported after all."""
    inputs = {"input_word_ids": np.ones((1, 3), "int32")}
    with pytest.raises(AssertionError, match="No module named 'tensorflow'"):
        run("tensorflow", GOLDEN / "tiny-bert", inputs, tmp_path, blocked=("tensorflow",))

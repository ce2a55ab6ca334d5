"""Programs that others have written, on our exports: hub.KerasLayer in Keras 2, a TF 1 session.

None of them knows our code. Each runs in a process of its own, but for the session.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.saved_model import export_encoder

from ..support import small

pytestmark = pytest.mark.slow  # each starts processes

TEXTS = ["A plotless film!", "", "very good"]
NAMES = ("input_word_ids", "input_mask", "input_type_ids")


def run(*command, cwd, **variables):
    """What the command prints. It must not need to find our code, so it starts elsewhere and without PYTHONPATH."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment | variables, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


@pytest.fixture(scope="module")
def keras_2(exported, tmp_path_factory):
    """What the checks of legacy_client.py found on a copy of the exports, and on an encoder without dropout."""
    pytest.importorskip("tensorflow_hub")
    pytest.importorskip("tf_keras")
    scratch = tmp_path_factory.mktemp("keras_2")
    for part in ("preprocessor", "encoder"):
        shutil.copytree(exported(part), scratch / "copy" / part)
    export_encoder(small.encoder(num_layers=1), scratch / "copy/without_dropout")
    checks = ("fine_tuning", "pairs", "frozen", "masked_lm", "mirrored", "reloading")
    script = Path(__file__).with_name("legacy_client.py")
    command = (sys.executable, "-I", script, scratch / "copy", scratch, *checks)
    lines = run(*command, cwd=scratch, TF_USE_LEGACY_KERAS="1").splitlines()
    findings = {}
    for line in lines:
        if line.startswith("{"):
            findings |= json.loads(line)
    assert findings["our modules"] == []
    return findings


def test_fine_tuning(keras_2):
    found = keras_2["fine_tuning"]
    untrained, trained = found["losses"]
    assert trained < 0.6 * untrained
    assert found["accuracy"] == 1
    assert found["weights"] == found["weights changed"] == 31  # all of the encoder's
    assert found["trainable"] == 33  # and the classifier's
    assert found["quiet"]  # no dropout when predicting


def test_pairs(ours, keras_2):
    found = keras_2["pairs"]
    rows = [["[CLS]", "good", "film", "[SEP]", "bad", "[SEP]"], ["[CLS]", "love", "the", "plot", "[SEP]", "hate", "it"]]
    for row, tokens in zip(found["input_word_ids"], rows, strict=False):
        assert row[: len(tokens)] == ours.ids(*tokens)
    assert found["input_type_ids"][0] == [0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0]
    assert [sum(row) for row in found["input_mask"]] == [6, 8, 12, 8]
    assert found["pooled_output"] == [4, 32]


def test_a_saved_classifier_needs_no_export(keras_2):
    found = keras_2["reloading"]["classifier"]
    assert found["difference"] == 0
    assert found["difference, served"] < 1e-5
    assert found["trainable"] == found["changed"] == 33  # and goes on training
    assert found["loss"] < 0.45  # by chance it is 0.69


def test_frozen_and_masked_lm(keras_2):
    assert keras_2["frozen"] == {"weights changed": 0, "trainable": 2}
    first, *_, last = keras_2["masked_lm"]["losses"]
    assert last < 0.9 * first
    assert keras_2["masked_lm"]["trainable"] == 36  # of encoder and head


def test_mirrored_strategy(keras_2):
    found, learned = keras_2["mirrored"], 0.5  # by chance it is 0.69
    assert found["replicas"] == 2
    assert found["inside"][-1] < learned
    assert found["outside"][-1] < learned
    assert found["copies"] == [True] * 19  # all of its weights: the devices hold the same after training
    reloaded = keras_2["reloading"]["mirrored"]
    assert max(reloaded["difference"], reloaded["difference, served"]) < 1e-5  # sums in another order
    assert reloaded["loss"] < learned


def packed(batch=2, seq_length=9):
    generator = np.random.default_rng(0)
    ids = generator.integers(5, len(small.VOCABULARY), (batch, seq_length))
    mask = np.arange(seq_length) < np.array([[seq_length], [5]])
    values = (ids * mask, mask, np.zeros_like(ids))
    return {name: value.astype(np.int32) for name, value in zip(NAMES, values, strict=True)}


def in_a_session(directory, inputs):
    """How TF Serving runs a model: names of tensors, from the signature."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signature = tf.compat.v1.saved_model.load(session, ["serve"], str(directory)).signature_def["serving_default"]
        assert set(signature.inputs) == set(inputs)
        outputs = {name: info.name for name, info in signature.outputs.items()}
        return session.run(outputs, {signature.inputs[name].name: value for name, value in inputs.items()})


def test_preprocessor_in_a_session(exported, our_preprocessor):
    got = in_a_session(exported("preprocessor"), {"sentences": TEXTS})
    want = our_preprocessor(tf.constant(TEXTS))
    assert set(got) == set(NAMES)
    for name in NAMES:
        np.testing.assert_array_equal(got[name], want[name])


def test_encoder_in_a_session(exported, our_encoder):
    got, want = in_a_session(exported("encoder"), packed()), our_encoder(packed())
    assert set(got) == {"pooled_output", "sequence_output"}
    for name, value in got.items():
        np.testing.assert_allclose(value, want[name], atol=1e-5)

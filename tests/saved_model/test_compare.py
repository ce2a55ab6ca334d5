"""compare, and keras-bert convert --check: the same models are found equal, others not, and some cannot be run."""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from keras_bert import BertClassifier, formats
from keras_bert.convert import convert
from keras_bert.saved_model import compare, export_encoder, export_preprocessor, export_serving

from ..support import small, transformers4
from ..support.checkpoints import CONFIGS, random_weights
from ..support.commands import invoke
from ..support.hub import NAMES, save_classifier


@pytest.fixture
def encoder(tmp_path):
    """An export of ours, and the same encoder as a preset."""
    made = small.encoder()
    export_encoder(made, tmp_path / "old")
    convert(tmp_path / "old", tmp_path / "new")
    return tmp_path


def change(directory, name):
    """Adds 1 to a weight of a preset."""
    tensors = load_file(directory / "model.safetensors")
    save_file({**tensors, name: tensors[name] + 1}, directory / "model.safetensors", {"format": "pt"})


def test_an_encoder(encoder):
    found = compare(encoder / "old", encoder / "new")
    assert [each.new for each in found.outputs] == ["pooled_output", "sequence_output"]
    assert [(each.new, each.largest) for each in found.weights] == [("encoder", 0.0)]
    assert all(each.scale > 0 and each.is_within(1e-5) for each in found.outputs)
    change(encoder / "new", "encoder.layer.1.output.LayerNorm.bias")
    found = compare(encoder / "old", encoder / "new")
    assert not any(each.is_within(1e-2) for each in (*found.weights, *found.outputs))


@pytest.mark.slow
def test_the_command(encoder, tmp_path):
    export_preprocessor(small.preprocessor(sequence_length=24), tmp_path / "preprocessor")
    models = {"encoder": encoder / "old", "preprocessor": tmp_path / "preprocessor"}
    save_classifier(tmp_path / "tutorial", models, lambda library, outputs: library.layers.Dense(1)(outputs["default"]))
    done = invoke("convert", tmp_path / "tutorial", tmp_path / "mine", "--check")
    assert done.stderr == ""
    assert "dense -> logit of the second label: largest difference" in done.stdout
    (tmp_path / "texts").write_text("good\nbad film\n")
    change(tmp_path / "mine", "classifier.bias")  # of both labels: their difference stays
    command = ("convert", tmp_path / "tutorial", tmp_path / "mine", "--check", "--texts", tmp_path / "texts")
    done = invoke(*command, exit_code=1)
    assert "1 output compared, for 2 inputs" in done.stdout  # and what exists is not written again
    assert done.stderr.endswith("by more than the bound, 1e-05, in sequence\n")


def test_weights_alone(tmp_path):
    small.task(BertClassifier, ["good", "bad"]).save_preset(tmp_path / "old")
    done = invoke("convert", tmp_path / "old", tmp_path / "new", "--check")
    assert "2 weights -> sequence: largest difference 0.0e+00" in done.stdout
    assert "weights alone, so nothing was run" in done.stdout
    invoke("convert", tmp_path / "old", tmp_path / "newer", "--texts", "x", exit_code=2)


@pytest.fixture(scope="module")
def transformers_models(tmp_path_factory):
    return transformers4.unpack(tmp_path_factory.mktemp("transformers4"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert-choices", "bert-spans", "distilbert-sequence", "albert-pretraining"])
def test_a_saved_model_beside_weights_is_run(name, transformers_models, tmp_path):
    new, old = transformers_models / name, tmp_path / "old"
    shutil.copytree(new, old)
    export_serving(new, old / "saved_model", signature="transformers")
    found = compare(old, new)
    assert [each.old for each in found.outputs] == sorted(transformers4.arrays(new)[1])
    assert all(each.old == each.new and each.is_within(1e-5) for each in found.outputs)
    assert (len(found.weights) > 1, found.missing, found.unread) == (True, [], "")


@pytest.mark.slow
def test_the_newest_saved_model_is_run_or_the_one_that_is_named(transformers_models, tmp_path):
    old, new = tmp_path / "old", transformers_models / "bert-encoder"
    shutil.copytree(transformers_models / "bert-encoder-saved-model", old)
    shutil.copyfile(new / "tf_model.h5", old / "tf_model.h5")
    export_serving(transformers_models / "bert-spans", old / "saved_model", version=10, signature="transformers")
    done = invoke("convert", old, new, "--check", exit_code=1)
    assert "weights -> encoder: largest difference 0.0e+00" in done.stdout
    assert "0 outputs compared, for 8 inputs; no counterpart of end_logits, start_logits\n" in done.stdout
    assert "no counterpart of end_logits, start_logits in" in done.stderr
    done = invoke("convert", old / "saved_model/1", new, "--check")  # of the old library
    assert "last_hidden_state -> last_hidden_state: largest difference" in done.stdout
    assert "2 outputs compared, for 8 inputs\n" in done.stdout


@pytest.mark.slow
def test_without_names_of_weights_the_outputs_are_compared(tmp_path):
    encoder = small.encoder()
    encoder.save_preset(tmp_path / "new")
    inputs = {name: keras.Input([None], dtype="int32", name=name) for name in NAMES}
    outputs = encoder(inputs)
    longer = keras.ops.pad(outputs["sequence_output"], [[0, 0], [0, 3], [0, 0]])  # rows of a fixed length, say
    keras.Model(inputs, [outputs["pooled_output"], longer]).export(tmp_path / "old", verbose=False)
    done = invoke("convert", tmp_path / "old", tmp_path / "new", "--check")
    assert "Warning: no weight was compared: " in done.stderr
    assert "output_0 -> pooled_output: largest difference" in done.stdout
    assert "output_1 -> sequence_output: largest difference" in done.stdout


def save(directory, compute, names=("input_ids", "attention_mask")):
    """Saves a function with a signature of ids."""
    module = tf.Module()
    module.kept = tf.Variable(0)
    module.serve = tf.function(lambda **inputs: compute(inputs["input_ids"]), autograph=False)
    specs = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in names}
    tf.saved_model.save(module, directory, signatures=module.serve.get_concrete_function(**specs))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compute", "names", "said"),
    [
        (lambda ids: tf.numpy_function(np.copy, [ids], tf.int32), {}, "into Python"),
        (lambda ids: ids, {"names": ("input_ids", "weights")}, "inputs input_ids, weights; it can be compared if"),
        (lambda ids: tf.gather([1, 2], ids), {}, "fails on inputs that .* takes: indices.* is not in "),
    ],
)
def test_what_cannot_be_run_is_said(compute, names, said, encoder):
    save(encoder / "other", lambda ids: {"x": compute(ids)}, **names)
    with pytest.raises(ValueError, match=said):
        compare(encoder / "other", encoder / "new")


def test_heads_of_one_model_alone(tmp_path):
    formats.write(tmp_path / "with", CONFIGS["bert"], random_weights(CONFIGS["bert"], "masked_lm"))
    formats.write(tmp_path / "without", CONFIGS["bert"], random_weights(CONFIGS["bert"]))
    lacking, having = compare(tmp_path / "with", tmp_path / "without"), compare(tmp_path / "without", tmp_path / "with")
    assert {each.new: each.largest for each in lacking.weights}["masked_lm"] == np.inf
    assert (lacking.added, having.added) == ([], ["masked_lm"])

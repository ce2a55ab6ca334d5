"""compare, and keras-bert convert --check: the same models are found equal, others not, and some cannot be run."""

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from keras_bert import BertClassifier, BertTokenClassifier, formats
from keras_bert.convert import convert
from keras_bert.encoder.weights import values_by_name
from keras_bert.saved_model import compare, export_encoder, export_preprocessor
from keras_bert.tasks import BertMaskedLM, BertQuestionAnswerer

from ..support import small
from ..support.commands import invoke
from ..support.hub import save_classifier

IDS = {"input_ids": "input_word_ids", "attention_mask": "input_mask", "token_type_ids": "input_type_ids"}


def save_signature(directory, model, compute, names):
    """Saves a model with a signature of ids under transformers' names."""

    def serve(**inputs):
        return compute({ours: inputs.get(theirs, tf.zeros_like(inputs["input_ids"])) for theirs, ours in IDS.items()})

    specs = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in names}
    module = tf.Module()
    module.kept = [variable.value for variable in model.variables]
    module.encoder = [tf.Variable(value, name=name) for name, value in values_by_name(model.encoder).items()]
    module.serve = tf.function(serve, autograph=False)
    tf.saved_model.save(module, directory, signatures=module.serve.get_concrete_function(**specs))
    formats.write_config(directory / "assets.extra" / "config.json", model.encoder.config)


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


def test_the_command(encoder, tmp_path):
    export_preprocessor(small.preprocessor(sequence_length=24), tmp_path / "preprocessor")
    models = {"encoder": encoder / "old", "preprocessor": tmp_path / "preprocessor"}
    save_classifier(tmp_path / "tutorial", models, lambda library, outputs: library.layers.Dense(1)(outputs["default"]))
    done = invoke("convert", tmp_path / "tutorial", tmp_path / "mine", "--check")
    assert done.stderr == ""
    assert "dense -> logit of the second label: largest difference" in done.stdout
    (tmp_path / "texts").write_text("good\nbad film\n")
    done = invoke("convert", tmp_path / "tutorial", tmp_path / "mine", "--check", "--texts", tmp_path / "texts")
    assert "1 outputs compared, for 2 inputs" in done.stdout  # and what exists is not written again
    change(tmp_path / "mine", "classifier.bias")  # of both labels: their difference stays
    done = invoke("convert", tmp_path / "tutorial", tmp_path / "mine", "--check", exit_code=1)
    assert done.stderr.endswith("by more than the bound, 1e-05, in sequence\n")


def test_weights_alone(tmp_path):
    small.task(BertClassifier, ["good", "bad"]).save_preset(tmp_path / "old")
    done = invoke("convert", tmp_path / "old", tmp_path / "new", "--check")
    assert "2 weights -> sequence: largest difference 0.0e+00" in done.stdout
    assert "weights alone, so nothing was run" in done.stdout
    invoke("convert", tmp_path / "old", tmp_path / "newer", "--texts", "x", exit_code=2)


TASKS = {
    "logits": lambda: small.task(BertClassifier, ["good", "fair", "bad"]),
    "tags": lambda: small.task(BertTokenClassifier, ["O", "B-A", "I-A"]),
    "spans": lambda: BertQuestionAnswerer(small.encoder(), small.preprocessor(stride=8)),
    "tokens": lambda: BertMaskedLM(small.encoder()),
}


@pytest.mark.parametrize(("kind", "names"), [(kind, tuple(IDS)[: 2 if kind == "tokens" else 3]) for kind in TASKS])
def test_signatures_of_transformers(kind, names, tmp_path):
    model = TASKS[kind]()
    model.save_preset(tmp_path / "new")

    def compute(packed):
        if kind == "tokens":
            shape = tf.shape(packed["input_mask"])
            return {"logits": model({**packed, "masked_lm_positions": tf.broadcast_to(tf.range(shape[1]), shape)})}
        logits = model(packed)
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]} if kind == "spans" else {"logits": logits}

    save_signature(tmp_path / "old", model, compute, names)
    found = compare(tmp_path / "old", tmp_path / "new")
    assert [each.old for each in found.outputs] == [each.new for each in found.outputs]
    assert all(each.is_within(1e-5) for each in found.outputs)


@pytest.mark.parametrize(
    ("compute", "names", "said"),
    [
        (lambda packed: {"x": tf.numpy_function(np.copy, [packed["input_mask"]], tf.int32)}, tuple(IDS), "into Python"),
        (lambda packed: {"rows": tf.shape(packed["input_mask"])}, tuple(IDS), "no counterpart of rows"),
        (lambda packed: packed, ("input_ids", "weights"), "the inputs input_ids, weights; it can be compared if"),
    ],
)
def test_what_cannot_be_compared_is_said(compute, names, said, tmp_path):
    model = small.task(BertClassifier, ["good", "bad"])
    model.save_preset(tmp_path / "new")
    save_signature(tmp_path / "old", model, compute, names)
    with pytest.raises(ValueError, match=said):
        compare(tmp_path / "old", tmp_path / "new")

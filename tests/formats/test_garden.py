"""TF Model Garden's checkpoints; what its own code makes of them, tests/contract/test_parity_checkpoints.py says."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import formats
from keras_bert.formats.checkpoint import Tensors
from keras_bert.formats.tensorflow import garden, tf1
from keras_bert.formats.tensorflow.bundle import write_object_graph

from ..support.checkpoints import CONFIGS, random_weights, read_all, same
from ..support.messages import error_names

CONFIG = CONFIGS["bert"]
HEADS = [(), ("masked_lm",), ("masked_lm", "next_sentence"), ("sequence",)]


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("with_config", [True, False])
def test_round_trip(heads, with_config, tmp_path):
    weights = random_weights(CONFIG, *heads)
    formats.write(tmp_path, CONFIG, weights, format="garden")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "bert_config.json",
        "bert_model.ckpt.data-00000-of-00001",
        "bert_model.ckpt.index",
    ]
    if not with_config:
        (tmp_path / "bert_config.json").unlink()
    read_format, read_config, read_weights = read_all(tmp_path)
    assert (read_format, read_config) == ("garden", CONFIG)
    assert same(read_weights, weights)


def test_heads_are_kept_apart(tmp_path):
    weights = random_weights(CONFIG)
    formats.write(tmp_path, CONFIG, weights, format="garden")
    reader = tf.train.load_checkpoint(str(tmp_path / "bert_model.ckpt"))
    shapes = reader.get_variable_to_shape_map()
    layer = "encoder/_transformer_layers/1/_attention_layer"
    ending = ".ATTRIBUTES/VARIABLE_VALUE"
    assert shapes[f"{layer}/_value_dense/kernel/{ending}"] == [12, 3, 4]
    assert shapes[f"{layer}/_value_dense/bias/{ending}"] == [3, 4]
    assert shapes[f"{layer}/_output_dense/kernel/{ending}"] == [3, 4, 12]
    ours = weights["encoder"]["block_1/attention/qkv/kernel"]
    np.testing.assert_array_equal(
        reader.get_tensor(f"{layer}/_value_dense/kernel/{ending}"), ours[:, 24:].reshape(12, 3, 4)
    )


def inside_another_model(name):
    return f"bert/{name}" if name.startswith(("cls", "next")) else f"bert_encoder_v2_1/{name}"


@pytest.mark.parametrize(
    ("path_of", "rename"),
    [
        # The keys are paths through the objects; version 1 of the encoder has others than version 2.
        (lambda name: f"model/layer_with_weights-{name.replace('/', '_')}", lambda name: name),
        (lambda name: name, inside_another_model),
        # The next-sentence head of the first pre-trainer.
        (lambda name: name, lambda name: name.replace("next_sentence/logits", "predictions/transform/logits")),
    ],
)
def test_other_objects_and_names_of_the_same_variables(path_of, rename, tmp_path):
    weights = random_weights(CONFIG, "masked_lm", "next_sentence")
    tensors = Tensors(CONFIG, garden.TABLES["bert"], weights)
    paths = {rename(name): path_of(name) for name in tensors.shapes}
    renamed = ((rename(name), value) for name, value in tensors)
    write_object_graph(tmp_path / "ckpt-7", renamed, paths.__getitem__, {})
    assert same(read_all(tmp_path)[2], weights)


def test_the_second_pretrainers_pooler(tmp_path):
    """Its next-sentence head has a pooler; the encoder's own was never trained."""
    weights = random_weights(CONFIG, "masked_lm", "next_sentence")
    trained = {"next_sentence/pooler_dense/kernel": "kernel", "next_sentence/pooler_dense/bias": "bias"}
    tensors = dict(Tensors(CONFIG, garden.TABLES["bert"], weights))
    tensors |= {name: random_weights(CONFIG, seed=1)["encoder"][f"pooler/{kind}"] for name, kind in trained.items()}
    write_object_graph(tmp_path / "ckpt-7", tensors.items(), lambda name: name, {})
    read = read_all(tmp_path)[2]
    for name, kind in trained.items():
        np.testing.assert_array_equal(read["encoder"].pop(f"pooler/{kind}"), tensors[name])
        weights["encoder"].pop(f"pooler/{kind}")
    assert same(read, weights)


def test_an_optimizer_is_not_looked_at(tmp_path):
    weights = random_weights(CONFIG)
    tensors = dict(Tensors(CONFIG, garden.TABLES["bert"], weights))
    tensors |= {"Adam/iter": np.float32(3), "pooler_transform/kernel/m": np.ones(3, "float32"), "stranger": np.ones(2)}
    write_object_graph(
        tmp_path / "ckpt-7",
        tensors.items(),
        lambda name: f"optimizer/{name}" if name.startswith("Adam") or name.endswith("/m") else f"model/{name}",
        {},
    )
    with formats.open_checkpoint(tmp_path) as checkpoint:
        assert (checkpoint.missing, checkpoint.unexpected) == ([], ["stranger"])
        assert same({"encoder": checkpoint.read("encoder")}, weights)


def test_albert_needs_its_configuration(tmp_path):
    """How often the one layer is repeated, no weight tells."""
    config = dataclasses.replace(CONFIGS["albert"], num_groups=1)
    weights = random_weights(config, "masked_lm")
    tensors = Tensors(config, garden.TABLES["albert"], weights)
    write_object_graph(tmp_path / "ckpt-7", tensors, lambda name: f"model/{name}", {})
    with error_names(ValueError, tmp_path / "ckpt-7.index", "no configuration", "sizes"):
        formats.open_checkpoint(tmp_path)
    (tmp_path / "albert_config.json").write_text(json.dumps(tf1.values_of(config)))
    assert same(read_all(tmp_path)[2], weights)


def test_only_bert_is_written(tmp_path):
    with error_names(ValueError, "Model Garden's", "only", "bert", "albert"):
        formats.write(tmp_path, CONFIGS["albert"], random_weights(CONFIGS["albert"]), format="garden")


def test_a_damaged_object_graph(tmp_path):
    names = ["_CHECKPOINTABLE_OBJECT_GRAPH"]
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "ckpt"), tensor_names=names, shape_and_slices=[""], tensors=[tf.constant(b"\xff\xff")]
    )
    with error_names(ValueError, tmp_path / "ckpt.index", "object graph", "damaged"):
        formats.open_checkpoint(tmp_path)

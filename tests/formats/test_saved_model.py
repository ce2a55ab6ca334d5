"""The weights in a SavedModel: TF Hub's, and our own."""

import dataclasses
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from keras_bert import BertEncoder, formats
from keras_bert.encoder.weights import values_by_name
from keras_bert.formats import garden
from keras_bert.formats.checkpoint import Tensors
from keras_bert.saved_model import export_encoder
from keras_bert.tasks import BertMaskedLM

from ..support.checkpoints import CONFIGS, random_weights, read_all, same
from ..support.data import TF_HUB
from ..support.messages import error_names

NO_OPERATIONS = SavedModel(meta_graphs=[MetaGraphDef()]).SerializeToString()


@pytest.fixture(scope="module", params=["roberta", pytest.param("albert", marks=pytest.mark.slow)])
def exported(request, tmp_path_factory):
    """What `export_encoder` writes, and the model."""
    config = dataclasses.replace(CONFIGS[request.param], num_layers=4 if request.param == "albert" else 1)
    directory = tmp_path_factory.mktemp("exported")
    weights = random_weights(config, "masked_lm")
    formats.write(directory / "preset", config, weights)
    export_encoder(BertMaskedLM.from_preset(directory / "preset"), directory / "model")
    return directory / "model", config, weights


@pytest.mark.slow
def test_our_own_need_a_configuration(exported, tmp_path):
    directory, config, weights = exported
    shutil.copytree(directory, tmp_path / "model")
    shutil.rmtree(tmp_path / "model" / "assets.extra", ignore_errors=True)
    with error_names(ValueError, tmp_path / "model", "no assets.extra/config.json", "number of heads"):
        formats.open_checkpoint(tmp_path / "model")
    formats.write_config(tmp_path / "model" / "assets.extra" / "config.json", config)
    read_format, read_config, read_weights = read_all(tmp_path / "model")
    assert (read_format, read_config) == ("saved_model", config)
    assert same(read_weights, weights)
    first = BertEncoder.from_preset(tmp_path / "model").blocks[0]
    np.testing.assert_array_equal(first.intermediate.kernel, weights["encoder"]["block_0/intermediate/kernel"])


def test_a_damaged_graph(tmp_path):
    config, weights = CONFIGS["bert"], random_weights(CONFIGS["bert"])
    formats.write(tmp_path, config, weights, format="garden")
    (tmp_path / "variables").mkdir()
    for path in tmp_path.glob("bert_model.ckpt.*"):
        path.rename(tmp_path / "variables" / path.name.replace("bert_model.ckpt", "variables"))
    (tmp_path / "saved_model.pb").write_bytes(NO_OPERATIONS)
    with error_names(ValueError, tmp_path / "saved_model.pb", "no activation", "from_preset(..., activation="):
        formats.open_checkpoint(tmp_path)
    encoder = BertEncoder.from_preset(tmp_path, activation="gelu_tanh")
    assert same({"encoder": values_by_name(encoder)}, weights)
    (tmp_path / "saved_model.pb").write_bytes(b"\xff" * 9)
    with error_names(ValueError, tmp_path / "saved_model.pb", "SavedModel", "damaged"):
        formats.open_checkpoint(tmp_path)


ACTIVATIONS = {"gelu": tf.nn.gelu, "gelu_tanh": lambda x: tf.nn.gelu(x, approximate=True), "relu": tf.nn.relu}


def save_like_tf_hub(directory, activation, head=None, layer_alone=True):
    """The objects have other names than Model Garden's; the variables have the same.

    Functions: a layer of the encoder; a model of a preprocessor with Relu, the layer and a head.
    """
    weights = random_weights(CONFIGS["bert"], "masked_lm")
    module = tf.Module()
    tensors = Tensors(CONFIGS["bert"], garden.TABLES["bert"], weights)
    module.weights = [tf.Variable(value, name=name) for name, value in tensors]
    module.do_lower_case = tf.Variable(True, trainable=False, name="do_lower_case")
    kernel = next(each for each in module.weights if each.name == "transformer/layer_0/intermediate/kernel:0")
    module.head_kernel = tf.Variable(tf.ones([kernel.shape[1], 2]), name="head/Variable")
    layer = tf.function(lambda x: ACTIVATIONS[activation](x @ kernel), input_signature=[tf.TensorSpec([None, 12])])
    head = ACTIVATIONS.get(head, tf.identity)
    module.preprocessor = tf.function(tf.nn.relu, input_signature=[tf.TensorSpec([None, 12])])
    module.model = tf.function(
        lambda x: tf.tanh(head(layer(x) @ module.head_kernel)), input_signature=[tf.TensorSpec([None, 12])]
    )
    if layer_alone:
        module.layer = layer
    tf.saved_model.save(module, directory)
    return weights


@pytest.mark.parametrize("layer_alone", [True, False])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_variables_and_operations_like_tf_hub_s_are_read(activation, layer_alone, tmp_path):
    weights = save_like_tf_hub(tmp_path, activation, head="relu" if layer_alone else None, layer_alone=layer_alone)
    read_format, config, read_weights = read_all(tmp_path)
    assert (read_format, config) == ("saved_model", dataclasses.replace(CONFIGS["bert"], activation=activation))
    assert same(read_weights, weights)


def test_an_activation_that_may_be_another_part_s_is_asked_for(tmp_path):
    save_like_tf_hub(tmp_path, "gelu_tanh", head="relu", layer_alone=False)
    with error_names(ValueError, tmp_path / "saved_model.pb", "gelu_tanh and relu", "activation="):
        BertEncoder.from_preset(tmp_path)
    assert BertEncoder.from_preset(tmp_path, activation="relu").config.activation == "relu"


def test_the_real_one(shared_data):
    with formats.open_checkpoint(TF_HUB["encoder"]) as checkpoint:
        assert checkpoint.format == "saved_model"
        assert (checkpoint.missing, checkpoint.unexpected) == ([], [])
        assert checkpoint.heads == {"masked_lm"}
        config = checkpoint.config
    assert (config.num_layers, config.hidden_size, config.num_heads, config.activation) == (2, 128, 2, "gelu_tanh")

"""The weights in a SavedModel: TF Hub's, and our own."""

import dataclasses
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from keras_bert import BertEncoder, formats
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
    (tmp_path / "saved_model.pb").write_bytes(NO_OPERATIONS)  # then it is the tanh approximation
    assert same(read_all(tmp_path)[2], weights)
    (tmp_path / "saved_model.pb").write_bytes(b"\xff" * 9)
    with error_names(ValueError, tmp_path / "saved_model.pb", "SavedModel", "damaged"):
        formats.open_checkpoint(tmp_path)


ACTIVATIONS = {"gelu": tf.nn.gelu, "gelu_tanh": lambda x: tf.nn.gelu(x, approximate=True), "relu": tf.nn.relu}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_variables_and_operations_like_tf_hub_s_are_read(activation, tmp_path):
    """The objects have other names than Model Garden's; the variables have the same."""
    weights = random_weights(CONFIGS["bert"], "masked_lm")
    module = tf.Module()
    tensors = Tensors(CONFIGS["bert"], garden.TABLES["bert"], weights)
    module.weights = [tf.Variable(value, name=name) for name, value in tensors]
    module.do_lower_case = tf.Variable(True, trainable=False, name="do_lower_case")
    module.act = tf.function(ACTIVATIONS[activation], input_signature=[tf.TensorSpec([None, 20])])
    tf.saved_model.save(module, tmp_path)
    read_format, config, read_weights = read_all(tmp_path)
    assert (read_format, config) == ("saved_model", dataclasses.replace(CONFIGS["bert"], activation=activation))
    assert same(read_weights, weights)


@pytest.fixture(scope="module")
def tf_hub(shared_data):
    return TF_HUB["encoder"]


def test_the_real_one(tf_hub):
    with formats.open_checkpoint(tf_hub) as checkpoint:
        assert checkpoint.format == "saved_model"
        assert (checkpoint.missing, checkpoint.unexpected) == ([], [])
        assert checkpoint.heads == {"masked_lm"}
        config = checkpoint.config
    assert (config.num_layers, config.hidden_size, config.num_heads, config.activation) == (2, 128, 2, "gelu_tanh")

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
from keras_bert.formats.checkpoint import Tensors
from keras_bert.formats.tensorflow import garden
from keras_bert.saved_model import export_encoder, export_preprocessor
from keras_bert.tasks import BertMaskedLM
from keras_bert.text import load_tokenizer

from ..support import small
from ..support.checkpoints import CONFIGS, random_weights, read_all, same
from ..support.data import TF_HUB
from ..support.messages import error_names, warning_names

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


def save_like_tf_hub(directory, activation="gelu_tanh", head=None, layer_alone=True, lowers=True, vocabulary=None):
    """The objects have other names than Model Garden's; the variables have the same.

    Functions: a layer of the encoder; a model of a preprocessor with Relu, the layer and a head.
    """
    config = dataclasses.replace(CONFIGS["bert"], vocab_size=len(small.VOCABULARY))
    weights = random_weights(config, "masked_lm")
    module = tf.Module()
    module.weights = [tf.Variable(value, name=name) for name, value in Tensors(config, garden.TABLES["bert"], weights)]
    if lowers is not None:
        module.do_lower_case = tf.Variable(lowers, trainable=False)  # the real one has no name either
    if vocabulary is not None:
        module.vocab_file = tf.saved_model.Asset(str(vocabulary))
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
    weights = save_like_tf_hub(tmp_path, activation, "relu" if layer_alone else None, layer_alone)
    read_format, config, read_weights = read_all(tmp_path)
    assert (read_format, config.activation, config.num_layers) == ("saved_model", activation, 2)
    assert same(read_weights, weights)


def test_an_activation_that_may_be_another_part_s_is_asked_for(tmp_path):
    save_like_tf_hub(tmp_path, "gelu_tanh", head="relu", layer_alone=False)
    with error_names(ValueError, tmp_path / "saved_model.pb", "gelu_tanh and relu", "activation="):
        BertEncoder.from_preset(tmp_path)
    assert BertEncoder.from_preset(tmp_path, activation="relu").config.activation == "relu"


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in small.VOCABULARY))
    return path


@pytest.mark.parametrize("lowers", [True, False])
def test_the_vocabulary_of_an_encoder_is_among_its_assets(lowers, vocabulary, tmp_path):
    save_like_tf_hub(tmp_path / "encoder", lowers=lowers, vocabulary=vocabulary)
    tokenizer = load_tokenizer(tmp_path / "encoder")
    assert (tokenizer.lowercase, tokenizer.vocabulary) == (lowers, small.VOCABULARY)


def test_an_encoder_that_does_not_say_whether_it_lowers_texts_is_asked(vocabulary, tmp_path):
    save_like_tf_hub(tmp_path / "encoder", lowers=None, vocabulary=vocabulary)
    with error_names(ValueError, "assets/vocab.txt", '{"do_lower_case": true}', "tokenizer_config.json"):
        load_tokenizer(tmp_path / "encoder")
    (tmp_path / "encoder" / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert not load_tokenizer(tmp_path / "encoder").lowercase


def test_an_encoder_without_a_vocabulary_takes_that_of_the_preprocessor_beside_it(tmp_path):
    save_like_tf_hub(tmp_path / "encoder")
    with error_names(FileNotFoundError, tmp_path / "encoder", "tokenizer"):
        load_tokenizer(tmp_path / "encoder")
    export_preprocessor(small.preprocessor(tokenizer=small.tokenizer(lowercase=False)), tmp_path / "cased")
    for name in ("same", "longer"):
        shutil.copytree(tmp_path / "cased", tmp_path / name)
    vocabulary = tmp_path / "longer/assets/vocab.txt"
    vocabulary.write_text(vocabulary.read_text() + "##word\n")
    with warning_names(tmp_path / "encoder", "no vocabulary", tmp_path / "cased"):
        assert not load_tokenizer(tmp_path / "encoder").lowercase
    with error_names(ValueError, tmp_path / "cased", "is a preprocessor", "give the directory of an encoder"):
        formats.open_checkpoint(tmp_path / "cased")
    export_preprocessor(small.preprocessor(tokenizer=small.tokenizer(lowercase=True)), tmp_path / "other")
    with error_names(ValueError, "several preprocessors", tmp_path / "other", "of the right one"):
        load_tokenizer(tmp_path / "encoder")


def test_the_real_one(shared_data):
    assert load_tokenizer(TF_HUB["encoder"]).lowercase
    with formats.open_checkpoint(TF_HUB["encoder"]) as checkpoint:
        assert checkpoint.format == "saved_model"
        assert (checkpoint.missing, checkpoint.unexpected) == ([], [])
        assert checkpoint.heads == {"masked_lm"}
        config = checkpoint.config
    assert (config.num_layers, config.hidden_size, config.num_heads, config.activation) == (2, 128, 2, "gelu_tanh")

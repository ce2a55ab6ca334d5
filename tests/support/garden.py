"""Small models of tf-models-official (Model Garden). The module is an argument: it is not always installed."""

import numpy as np
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.formats import write_config

SIZES = {
    "vocab_size": 30,
    "hidden_size": 12,
    "num_layers": 2,
    "num_heads": 3,
    "intermediate_size": 20,
    "max_positions": 16,
}
CONFIG = BertConfig(**SIZES, activation="gelu_tanh")
INPUTS = {
    "input_word_ids": np.array([[2, 7, 9, 4, 3], [2, 5, 3, 0, 0]], "int32"),
    "input_mask": np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], "int32"),
    "input_type_ids": np.array([[0, 0, 1, 1, 1], [0, 0, 0, 0, 0]], "int32"),
}
POSITIONS = np.array([[1, 3], [1, 0]], "int32")


def theirs(garden, version):
    """A small encoder of Model Garden with random weights."""
    kind = {1: garden.networks.BertEncoder, 2: garden.networks.BertEncoderV2}[version]
    encoder = kind(
        **({"dict_outputs": True} if version == 1 else {}),
        vocab_size=30,
        hidden_size=12,
        num_layers=2,
        num_attention_heads=3,
        max_sequence_length=16,
        type_vocab_size=2,
        inner_dim=20,
    )
    encoder(encoder.inputs)
    return randomized(encoder)


def pretrainer(garden):
    head = garden.layers.ClassificationHead(inner_dim=12, num_classes=2, name="next_sentence", dropout_rate=0.0)
    model = garden.models.BertPretrainerV2(
        encoder_network=theirs(garden, 2),
        classification_heads=[head],
        mlm_activation=lambda x: tf.nn.gelu(x, approximate=True),
    )
    model(model.inputs)
    return randomized(model)


def randomized(model):
    generator = np.random.default_rng(len(model.variables))
    for variable in model.variables:
        variable.assign(generator.normal(size=variable.shape) * 0.5)
    return model


def saved(prefix, config=None, **items):
    tf.train.Checkpoint(**items).write(str(prefix))
    if config is not None:
        write_config(prefix.parent / f"{config.family}_config.json", config)
    return prefix.parent

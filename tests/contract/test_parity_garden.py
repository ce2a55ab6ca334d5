"""tf-models-official (Model Garden), live: its BertEncoderV2 with the same weights gives the same three outputs."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_bert import BertEncoder, BertPreprocessor, presets
from keras_bert.formats import read_config

from ..support.texts import PAIRS, TEXTS

pytestmark = pytest.mark.parity

MINILM = "all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def networks():
    return pytest.importorskip("official.nlp.modeling.networks")


@pytest.fixture(scope="module")
def theirs(networks):
    """BertEncoderV2, a model of legacy Keras (tf_keras), in MiniLM's sizes, with MiniLM's weights."""
    import tensorflow as tf

    directory = presets.resolve(MINILM)
    config = read_config(directory / "config.json")
    encoder = networks.BertEncoderV2(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        max_sequence_length=config.max_positions,
        type_vocab_size=config.type_vocab_size,
        inner_dim=config.intermediate_size,
        inner_activation=lambda x: tf.nn.gelu(x, approximate=False),  # its default is the approximation
    )
    encoder(encoder.inputs)
    weights = load_file(directory / "model.safetensors")
    for variable, value in zip(encoder.variables, garden_weights(weights, config), strict=True):
        variable.assign(value.reshape(variable.shape))  # theirs keep the heads apart
    return encoder


def garden_weights(weights, config):
    """Hugging Face's weights, in the order of BertEncoderV2's variables."""

    def dense(name):
        return [weights[f"{name}.weight"].T, weights[f"{name}.bias"]]

    def norm(name):
        return [weights[f"{name}.weight"], weights[f"{name}.bias"]]

    values = [weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")]
    values += norm("embeddings.LayerNorm")
    for layer in range(config.num_layers):
        block = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            values += dense(f"{block}.attention.self.{part}")
        values += dense(f"{block}.attention.output.dense")
        values += norm(f"{block}.attention.output.LayerNorm")
        values += dense(f"{block}.intermediate.dense")
        values += dense(f"{block}.output.dense")
        values += norm(f"{block}.output.LayerNorm")
    return values + dense("pooler.dense")


@pytest.mark.parametrize("texts", [TEXTS, tuple(zip(*PAIRS, strict=True))], ids=["mixed lengths", "pairs"])
def test_three_outputs(theirs, texts):
    texts = tuple(list(column) for column in texts) if isinstance(texts, tuple) else texts
    inputs = BertPreprocessor.from_preset(MINILM, sequence_length=None)(texts)
    ours = BertEncoder.from_preset(MINILM)(inputs)
    their_outputs = theirs(inputs)
    real = inputs["input_mask"].numpy().astype(bool)
    assert sorted(their_outputs) == ["encoder_outputs", "pooled_output", "sequence_output"]
    close(ours["pooled_output"], their_outputs["pooled_output"])
    close(ours["sequence_output"].numpy()[real], their_outputs["sequence_output"].numpy()[real])
    assert len(ours["encoder_outputs"]) == len(their_outputs["encoder_outputs"]) == 6
    for our_layer, their_layer in zip(ours["encoder_outputs"], their_outputs["encoder_outputs"], strict=True):
        close(our_layer.numpy()[real], their_layer.numpy()[real])


def close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)

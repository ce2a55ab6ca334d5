"""What a summary counts, against real models and TensorFlow's profiler; tests/test_sizes.py has published figures."""

import dataclasses
import re

import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertEncoder
from keras_bert.encoder.summary import summarize
from keras_bert.encoder.weights import variables_by_name
from keras_bert.formats import FAMILIES
from keras_bert.shapes import shapes
from keras_bert.tasks.heads import ClassifierHead, MaskedLMHead

from ..support.checkpoints import CONFIGS, with_head
from ..support.messages import error_names


@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_of_every_family(family):
    config = with_head(family, "sequence")
    encoder = BertEncoder(config)
    heads = {name: shapes(config, name, 3) for name in FAMILIES[family].heads}
    layers = {name: MaskedLMHead(config) if name == "masked_lm" else ClassifierHead(config, name, 3) for name in heads}
    for layer in layers.values():
        layer.build()
    found = summarize(config, heads, sequence_length=16)
    assert summarize(config, sequence_length=16).parameters == encoder.count_params()
    assert found.parameters == encoder.count_params() + sum(layer.count_params() for layer in layers.values())
    weights = [weight.numpy() for model in (encoder, *layers.values()) for weight in model.weights]
    assert found.weight_bytes == sum(weight.nbytes for weight in weights)
    assert found.training_bytes == 16 * found.parameters + found.activation_bytes
    # Each part is a layer of the model, by its name.
    of_layers = {name.rpartition("/")[0] for name in variables_by_name(encoder)}
    named = [part for part in found.parts if part.name.partition("/")[0] not in heads]
    assert {part.name for part in named} == {re.sub(r"block_\d+/", "layer/", name) for name in of_layers}
    assert sum(part.copies for part in named) == len(of_layers)


@pytest.mark.parametrize("changes", [{"num_groups": 2}, {"embedding_size": 6, "pooler": False}, {"num_groups": 1}])
def test_parameters_of_what_no_family_has(changes):
    config = dataclasses.replace(CONFIGS["bert"], **changes)
    assert summarize(config, sequence_length=16).parameters == BertEncoder(config).count_params()


def test_layers_that_share_their_weights():
    parts = summarize(CONFIGS["albert"], sequence_length=16).parts
    (part,) = (part for part in parts if part.name == "layer/intermediate")
    assert (part.shapes, part.copies, part.uses) == (((12, 20), (20,)), 2, 4)
    assert part.parameters == 2 * (12 * 20 + 20)
    uneven = summarize(dataclasses.replace(CONFIGS["albert"], num_layers=5), sequence_length=16)  # 3 and 2
    (part,) = (part for part in uneven.parts if part.name == "layer/intermediate")
    assert (part.copies, part.uses) == (2, 5)


@pytest.mark.parametrize(("size", "length", "changes"), [
    ("bert-base", 512, {}), ("bert-base", 256, {"head_dim": 100}), ("albert-base", 512, {}),
    ("electra-small", 64, {}), ("distilbert-base", 64, {}),
])  # fmt: skip
def test_operations_are_those_that_tensorflow_counts(size, length, changes):
    narrow = {"hidden_size": 240, "num_heads": 4, "intermediate_size": 1000, "num_layers": 2, "vocab_size": 100}
    config = BertConfig.named(size, **narrow, **changes)
    ids = tf.TensorSpec([3, length], tf.int32)
    graph = tf.function(BertEncoder(config)).get_concrete_function({"input_word_ids": ids}).graph
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    counted = tf.compat.v1.profiler.profile(graph, options=options).total_float_ops
    found = summarize(config, batch_size=3, sequence_length=length)
    assert found.flops_per_token * 3 * length == pytest.approx(counted, rel=0.02)  # which counts what is small, too


def test_operations_of_bert_base():
    """Of a token among 512, and a 512th of the pooler's."""
    of_a_layer = 2 * (4 * 768**2 + 2 * 768 * 3072) + 4 * 512 * 768
    assert summarize(BertConfig.base(), sequence_length=512).flops_per_token == 12 * of_a_layer + 2 * 768**2 / 512


@pytest.mark.parametrize(("name", "value", "limit"), [
    ("batch_size", 0, "at least 1"), ("sequence_length", 0, "512 positions"), ("sequence_length", 513, "512 positions"),
])  # fmt: skip
def test_a_step_of_no_rows_or_too_many_positions_is_refused(name, value, limit):
    with error_names(ValueError, name, value, limit):
        summarize(BertConfig.base(), **{name: value})

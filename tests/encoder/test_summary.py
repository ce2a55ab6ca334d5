"""What a summary counts, against real models, published figures and TensorFlow's profiler."""

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

from ..support.messages import error_names

# One a family, narrow; what makes its encoder different stays.
SMALL = {"vocab_size": 300, "hidden_size": 48, "num_heads": 4, "intermediate_size": 80, "num_layers": 2}
FAMILY_SIZES = {
    "bert": "bert-base",
    "ernie": "bert-base",
    "roberta": "roberta-base",
    "xlm-roberta": "xlm-roberta-base",
    "camembert": "roberta-base",
    "distilbert": "distilbert-base",
    "albert": "albert-base",
    "electra": "electra-small",
    "modernbert": "modernbert-base",
    "nomic_bert": "nomic-bert-2048",
    "mpnet": "mpnet-base",
    "deberta-v2": "deberta-v3-small",
    "new": "gte-base-en-v1.5",
    "gte": "gte-base-en-v1.5",
    "eurobert": "eurobert-210m",
    "neobert": "neobert",
    "jina_embeddings_v3": "jina-embeddings-v3",
}


def small(family: str, **changes) -> BertConfig:
    return BertConfig.named(FAMILY_SIZES[family], **{**SMALL, "family": family, "pad_token_id": 1, **changes})


@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_of_every_family(family):
    config = small(family)
    config = dataclasses.replace(config, pooler=config.pooler or config.reads_pooler("sequence"))
    encoder = BertEncoder(config)
    heads = {name: shapes(config, name, 3) for name in FAMILIES[family].heads}
    layers = {name: MaskedLMHead(config) if name == "masked_lm" else ClassifierHead(config, name, 3) for name in heads}
    for layer in layers.values():
        layer.build()
    found = summarize(config, heads)
    assert summarize(config).parameters == encoder.count_params()
    assert found.parameters == encoder.count_params() + sum(layer.count_params() for layer in layers.values())
    assert found.weight_bytes == sum(
        weight.numpy().nbytes for model in (encoder, *layers.values()) for weight in model.weights
    )
    # Each part is a layer of the model, by its name.
    of_layers = {name.rpartition("/")[0] for name in variables_by_name(encoder)}
    named = [part for part in found.parts if part.name.partition("/")[0] not in heads]
    assert {part.name for part in named} == {re.sub(r"block_\d+/", "layer/", name) for name in of_layers}
    assert sum(part.copies for part in named) == len(of_layers)


@pytest.mark.parametrize("changes", [{"num_groups": 2}, {"embedding_size": 16, "pooler": False}, {"num_groups": 1}])
def test_parameters_of_what_no_family_has(changes):
    config = small("bert", **changes)
    assert summarize(config).parameters == BertEncoder(config).count_params()


# Sums of all weights of the published encoders.
@pytest.mark.parametrize(
    ("size", "parameters"),
    [
        ("bert-base", 109_482_240),
        ("bert-large", 335_141_888),
        ("roberta-base", 124_645_632),
        ("distilbert-base", 66_362_880),
        ("albert-base", 11_683_584),
        ("albert-xxlarge", 222_595_584),
        ("electra-small", 13_483_008),
    ],
)
def test_published_parameters(size, parameters):
    found = summarize(BertConfig.named(size))
    assert found.parameters == parameters
    assert found.training_bytes == 16 * parameters + found.activation_bytes


def test_layers_that_share_their_weights():
    (part,) = (part for part in summarize(small("albert")).parts if part.name == "layer/intermediate")
    assert (part.shapes, part.copies, part.uses) == (((48, 80), (80,)), 1, 2)
    assert part.parameters == 48 * 80 + 80


NARROW = {"hidden_size": 240, "num_heads": 4, "intermediate_size": 1000}


@pytest.mark.parametrize(
    ("size", "length", "changes"),
    [
        ("bert-base", 64, NARROW),
        ("albert-base", 64, NARROW),
        *(pytest.param(size, 512, {}, marks=pytest.mark.slow) for size in ("bert-base", "albert-base")),
        *(pytest.param(size, 64, {}, marks=pytest.mark.slow) for size in ("electra-small", "distilbert-base")),
    ],
)
def test_operations_are_those_that_tensorflow_counts(size, length, changes):
    config = BertConfig.named(size, num_layers=2, vocab_size=100, **changes)
    ids = tf.TensorSpec([3, length], tf.int32)
    graph = tf.function(BertEncoder(config)).get_concrete_function({"input_word_ids": ids}).graph
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    counted = tf.compat.v1.profiler.profile(graph, options=options).total_float_ops
    found = summarize(config, batch_size=3, sequence_length=length)
    assert found.flops_per_token * 3 * length == pytest.approx(counted, rel=0.02)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch_size": 0}, ["batch_size", 0, "at least 1"]),
        ({"sequence_length": 0}, ["sequence_length", 0, "512 positions"]),
        ({"sequence_length": 513}, ["sequence_length", 513, "512 positions"]),
    ],
)
def test_a_step_of_no_rows_or_too_many_positions_is_refused(arguments, words):
    with error_names(ValueError, *words):
        summarize(BertConfig.base(), **arguments)

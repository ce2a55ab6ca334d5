"""BertConfig: the sizes of the paper, and what it says of values that make no sense."""

import json

import numpy as np
import pytest

from keras_bert import BertConfig
from keras_bert.head_table import HEADS

from .support.messages import error_names


def test_defaults_are_bert_base():
    assert BertConfig() == BertConfig.base()


# (layers, hidden, heads) from the README of google-research/bert, "smaller BERT models", and the paper's section 3.
@pytest.mark.parametrize(
    ("name", "layers", "hidden", "heads"),
    [
        ("tiny", 2, 128, 2),
        ("mini", 4, 256, 4),
        ("small", 4, 512, 8),
        ("medium", 8, 512, 8),
        ("base", 12, 768, 12),
        ("large", 24, 1024, 16),
    ],
)
def test_named_sizes(name, layers, hidden, heads):
    config = getattr(BertConfig, name)()
    assert (config.num_layers, config.hidden_size, config.num_heads) == (layers, hidden, heads)
    assert config.intermediate_size == 4 * hidden


def test_a_named_size_takes_changes():
    assert BertConfig.tiny(vocab_size=100, num_layers=3).num_layers == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": 100}, ["hidden_size 100", "multiple", "num_heads 12"]),
        ({"num_layers": 0}, ["num_layers", 0, "at least 1"]),
        ({"vocab_size": 30522.0}, ["vocab_size", 30522.0, "whole number"]),
        ({"max_positions": True}, ["max_positions", True, "whole number"]),
        ({"hidden_dropout": 1.0}, ["hidden_dropout", 1.0, "below 1"]),
        ({"attention_dropout": "0.1"}, ["attention_dropout", "probability"]),
        ({"layer_norm_epsilon": 0}, ["layer_norm_epsilon", 0, "above 0"]),
        ({"family": 3}, ["family", 3, "name"]),
        ({"activation": "gleu"}, ["activation", "'gleu'", "gelu, gelu_tanh, relu, silu"]),
        ({"pad_token_id": 30522}, ["pad_token_id 30522", "vocab_size 30522"]),
        ({"pooler": None}, ["pooler", None, "True or False"]),
    ],
)
def test_bad_values_are_named(changes, words):
    with error_names(ValueError, *words):
        BertConfig(**changes)


@pytest.mark.parametrize("tokens", [30522, 30515, 30528])
def test_a_table_may_be_rounded_up(tokens):
    BertConfig(vocab_size=30528 if tokens != 30515 else 30592).check_vocabulary(tokens)


@pytest.mark.parametrize(("tokens", "rows"), [(250002, 250037), (128001, 128100), (250102, 251000)])
def test_a_table_may_have_spare_rows(tokens, rows):
    """As those of E5's multilingual models and DeBERTa's have."""
    BertConfig(vocab_size=rows).check_vocabulary(tokens, is_whole=True)
    with error_names(ValueError, f"{tokens} tokens", f"{rows} rows"):
        BertConfig(vocab_size=rows).check_vocabulary(tokens)


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("tokens", [30523, 28996])
def test_a_vocabulary_of_another_model(tokens, is_whole):
    with error_names(ValueError, f"{tokens} tokens", "30522 rows"):
        BertConfig().check_vocabulary(tokens, is_whole)


def test_numbers_of_numpy_are_python_s():
    config = BertConfig.tiny(vocab_size=np.int64(100), hidden_dropout=np.float32(0.5), pooler=np.False_)
    assert (
        json.loads(json.dumps(config.to_dict()))
        == BertConfig.tiny(vocab_size=100, hidden_dropout=0.5, pooler=False).to_dict()
    )


@pytest.mark.parametrize(
    ("size", "readers"),
    [
        ("bert-base", {"sequence", "choices", "next_sentence"}),
        ("roberta-base", {"choices", "next_sentence"}),  # its classifier of texts has a layer of its own, choices none
        ("modernbert-base", {"next_sentence"}),
    ],
)
def test_heads_that_read_the_pooler_as_those_of_transformers(size, readers):
    config = BertConfig.named(size)
    assert {head for head in HEADS if config.reads_pooler(head)} == readers

"""BertConfig: the sizes of the paper, and what it says of values that make no sense."""

import json

import numpy as np
import pytest

from keras_bert import BertConfig


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
    ("changes", "message"),
    [
        ({"hidden_size": 100}, "hidden_size 100 is not a multiple of num_heads 12"),
        ({"num_layers": 0}, "num_layers must be a whole number of at least 1, not 0"),
        ({"vocab_size": 30522.0}, "vocab_size must be a whole number of at least 1, not 30522.0"),
        ({"max_positions": True}, "max_positions must be a whole number"),
        ({"hidden_dropout": 1.0}, "hidden_dropout must be a probability, at least 0 and below 1, not 1.0"),
        ({"attention_dropout": "0.1"}, "attention_dropout must be a probability"),
        ({"layer_norm_epsilon": 0}, "layer_norm_epsilon must be a number above 0, not 0"),
        ({"family": 3}, "family must be a name, not 3"),
        ({"activation": "gleu"}, "activation must be one of gelu, gelu_tanh, relu, silu, not 'gleu'"),
        ({"pad_token_id": 30522}, "pad_token_id 30522 is not an id below vocab_size 30522"),
        ({"pooler": None}, "pooler must be True or False, not None"),
    ],
)
def test_bad_values_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        BertConfig(**changes)


@pytest.mark.parametrize("tokens", [30522, 30515, 30528])
def test_a_table_may_be_rounded_up(tokens):
    BertConfig(vocab_size=30528 if tokens != 30515 else 30592).check_vocabulary(tokens)


@pytest.mark.parametrize(("tokens", "rows"), [(250002, 250037), (128001, 128100), (250102, 251000)])
def test_a_table_may_have_spare_rows(tokens, rows):
    """As those of E5's multilingual models and DeBERTa's have."""
    BertConfig(vocab_size=rows).check_vocabulary(tokens, is_whole=True)
    with pytest.raises(ValueError, match=f"the vocabulary has {tokens} tokens, but .* has {rows} rows"):
        BertConfig(vocab_size=rows).check_vocabulary(tokens)


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("tokens", [30523, 28996])
def test_a_vocabulary_of_another_model(tokens, is_whole):
    with pytest.raises(ValueError, match=f"the vocabulary has {tokens} tokens, but .* has 30522 rows"):
        BertConfig().check_vocabulary(tokens, is_whole)


def test_numbers_of_numpy_are_python_s():
    config = BertConfig.tiny(vocab_size=np.int64(100), hidden_dropout=np.float32(0.5), pooler=np.False_)
    assert (
        json.loads(json.dumps(config.to_dict()))
        == BertConfig.tiny(vocab_size=100, hidden_dropout=0.5, pooler=False).to_dict()
    )

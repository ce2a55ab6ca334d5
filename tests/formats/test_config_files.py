"""Configuration files of Hugging Face's and of Google's: what is read is what was written; bad ones are named."""

import json

import pytest

from keras_bert import BertConfig, BertEncoder, formats
from keras_bert.formats import read_config, write_config

from ..support.checkpoints import CONFIGS, random_weights


@pytest.mark.parametrize("name", ["config.json", "bert_config.json"])
def test_files_round_trip(tmp_path, name):
    config = BertConfig.mini(activation="gelu_tanh", hidden_dropout=0.0, type_vocab_size=3)
    write_config(tmp_path / name, config)
    assert read_config(tmp_path / name) == config


def test_gelu_means_something_else_in_googles_files(tmp_path):
    text = json.dumps({**SIZES, "hidden_act": "gelu"})
    (tmp_path / "config.json").write_text(text)
    (tmp_path / "bert_config.json").write_text(text)
    assert read_config(tmp_path / "config.json").activation == "gelu"
    assert read_config(tmp_path / "bert_config.json").activation == "gelu_tanh"


def test_exact_gelu_cannot_be_written_for_google(tmp_path):
    with pytest.raises(ValueError, match="gelu_tanh or relu, not 'gelu'"):
        write_config(tmp_path / "bert_config.json", BertConfig.tiny())


SIZES = {
    "vocab_size": 10,
    "hidden_size": 4,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 16,
}
WRONG_TYPES = [
    ({"hidden_size": None}, "config.json has no hidden_size; expected a whole number"),
    ({"hidden_size": 4.5}, "has 4.5 in hidden_size; expected a whole number"),
    ({"hidden_size": 5}, "config.json: hidden_size 5 is not a multiple of num_heads 2"),
    ({"max_position_embeddings": "512"}, "has '512' in max_position_embeddings; expected a whole number or null"),
    ({"hidden_dropout_prob": [0.1]}, r"has \[0.1\] in hidden_dropout_prob; expected a number or null"),
    ({"pad_token_id": True}, "has True in pad_token_id; expected a whole number or null"),
    ({"hidden_act": {"name": "gelu"}}, "has .* in hidden_act; expected a string or null"),
    ({"hidden_act": "mish"}, "config.json: hidden_act is 'mish'; known are gelu, gelu_python, gelu_new"),
    ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'; only 'absolute' is supp"),
    ({"is_decoder": True}, "is_decoder is True; only False is supported"),
]


@pytest.mark.parametrize(("change", "message"), WRONG_TYPES)
@pytest.mark.parametrize("name", ["config.json", "bert_config.json"])
def test_wrong_values_are_named(tmp_path, name, change, message):
    path = tmp_path / name
    path.write_text(json.dumps({**SIZES, **change}))
    with pytest.raises(ValueError, match=message) as raised:
        read_config(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a JSON file"),
        ("[" * 100_000, "is not a JSON file"),
        ('{"a":' * 100_000, "is not a JSON file"),
        ("[1]", r"has \[1\]; expected an object"),
        ('{"model_type": "t5"}', "config.json: model_type is 't5'; known are bert"),
        ('{"model_type": []}', r"config.json has \[\] in model_type; expected a string or null"),
        ('{"class_name": []}', r"config.json has \[\] in class_name; expected a string"),
        (json.dumps({**SIZES, "model_type": "ernie", "use_task_id": True}), "use_task_id is True; only False"),
        (json.dumps({**SIZES, "model_type": "roberta", "pad_token_id": [1]}), r"has \[1\] in pad_token_id; expected a"),
    ],
)
def test_bad_files_are_named(tmp_path, text, message):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as raised:
        read_config(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("value", [5, [5], {"a": 1}, "BertModel"])
def test_architectures_of_another_type(tmp_path, value):
    formats.write(tmp_path, CONFIGS["bert"], random_weights(CONFIGS["bert"]))
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, "architectures": value}))
    with pytest.raises(ValueError, match=r"config.json has .* in architectures.*; expected a (list|string)"):
        formats.open_checkpoint(tmp_path)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_config(tmp_path / "config.json")


def test_a_family_that_is_not_known(tmp_path):
    config = BertConfig.tiny(family="gpt")
    for use in (lambda: BertEncoder(config), lambda: formats.write(tmp_path, config, {"encoder": {}})):
        with pytest.raises(ValueError, match="family must be one of bert, ernie, .*, electra, not 'gpt'"):
            use()

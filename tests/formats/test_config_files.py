"""Configuration files of Hugging Face's and of Google's: what is read is what was written; bad ones are named."""

import json

import pytest

from keras_bert import BertConfig, BertEncoder, formats
from keras_bert.formats import read_config, write_config


@pytest.mark.parametrize("name", ["config.json", "bert_config.json"])
def test_files_round_trip(tmp_path, name):
    config = BertConfig.mini(activation="gelu_tanh", hidden_dropout=0.0, type_vocab_size=3)
    write_config(tmp_path / name, config)
    assert read_config(tmp_path / name) == config


def test_gelu_means_something_else_in_googles_files(tmp_path):
    values = {"vocab_size": 10, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = json.dumps({**values, "intermediate_size": 8, "hidden_act": "gelu"})
    (tmp_path / "config.json").write_text(text)
    (tmp_path / "bert_config.json").write_text(text)
    assert read_config(tmp_path / "config.json").activation == "gelu"
    assert read_config(tmp_path / "bert_config.json").activation == "gelu_tanh"


def test_exact_gelu_cannot_be_written_for_google(tmp_path):
    with pytest.raises(ValueError, match="gelu_tanh or relu, not 'gelu'"):
        write_config(tmp_path / "bert_config.json", BertConfig.tiny())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a JSON file"),
        ("[1]", r"has \[1\]; expected an object"),
        ('{"model_type": "t5"}', "model_type is 't5'"),
        ('{"hidden_size": 4}', "vocab_size, num_hidden_layers, num_attention_heads, intermediate_size is missing"),
        ('{"position_embedding_type": "relative_key"}', "only 'absolute' is supported"),
        ('{"is_decoder": true}', "this is a decoder"),
        ('{"model_type": "ernie", "use_task_id": true}', "embeddings of tasks"),
        ('{"hidden_act": "mish"}', "hidden_act is 'mish'; known are gelu, gelu_python, gelu_new"),
    ],
)
def test_bad_files_are_named(tmp_path, text, message):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as raised:
        read_config(path)
    assert str(path) in str(raised.value)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_config(tmp_path / "config.json")


def test_a_family_that_is_not_known(tmp_path):
    config = BertConfig.tiny(family="gpt")
    for use in (lambda: BertEncoder(config), lambda: formats.write(tmp_path, config, {"encoder": {}})):
        with pytest.raises(ValueError, match="family must be one of bert, ernie, .*, electra, not 'gpt'"):
            use()

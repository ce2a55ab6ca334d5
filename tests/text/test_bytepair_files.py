"""BytePairTokenizer's files: configurations, presets, tokenizer.json, and what is wrong with them."""

import json

import pytest

from keras_bert import files
from keras_bert.text import BytePairTokenizer, load_tokenizer

from ..support import small
from ..support.messages import error_names
from ..support.tokenization import bytepair_json


def test_preset_round_trip(merges, tmp_path, untraced):
    tokenizer = small.byte_pairs(merges[:20], add_prefix_space=True)
    tokenizer.save_preset(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["merges.txt", "tokenizer_config.json", "vocab.json"]
    assert BytePairTokenizer.from_preset(tmp_path).get_config() == tokenizer.get_config()
    assert not BytePairTokenizer.from_preset(tmp_path, add_prefix_space=False).add_prefix_space
    with error_names(FileExistsError, tmp_path, "vocab.json, merges.txt", "overwrite"):
        tokenizer.save_preset(tmp_path)


def test_an_unknown_token_that_is_the_padding_is_saved(merges, tmp_path, untraced):
    """As EuroBERT's, which names no unknown token."""
    tokenizer = small.byte_pairs(merges[:20], unk_token="<pad>")
    tokenizer.save_preset(tmp_path)
    assert load_tokenizer(tmp_path).get_config() == tokenizer.get_config()


@pytest.mark.parametrize("prefix", [False, True])
def test_reads_tokenizer_json(merges, prefix, tmp_path, untraced):
    tokenizer = small.byte_pairs(merges[:20], add_prefix_space=prefix)
    (tmp_path / "tokenizer.json").write_text(json.dumps(bytepair_json(tokenizer)))
    assert BytePairTokenizer.from_preset(tmp_path).get_config() == tokenizer.get_config()


def test_a_large_file_is_parsed_once(merges, tmp_path, untraced, monkeypatch):
    tokenizer = small.byte_pairs(merges[:20])
    (tmp_path / "tokenizer.json").write_text(json.dumps(bytepair_json(tokenizer)))
    parsed, load_json = [], files.load_json
    monkeypatch.setattr(files, "load_json", lambda path: parsed.append(path.name) or load_json(path))
    assert load_tokenizer(tmp_path).get_config() == tokenizer.get_config()
    assert parsed.count("tokenizer.json") == 1


@pytest.mark.slow
def test_reads_the_published_tokenizer_json(shared_data, roberta, tmp_path):
    (tmp_path / "tokenizer.json").write_bytes((shared_data / "vocabs/roberta_tokenizer.json").read_bytes())
    assert BytePairTokenizer.from_preset(tmp_path).get_config() == roberta.get_config()

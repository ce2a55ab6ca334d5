"""BytePairTokenizer's files: configurations, presets, tokenizer.json, and what is wrong with them."""

import json

import keras
import pytest

from keras_bert import files
from keras_bert.text import BytePairTokenizer, load_tokenizer

from ..support import small
from ..support.reference import bytepair as reference
from ..support.tokenization import bytepair_json

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def test_config_round_trip(merges, untraced):
    tokenizer = small.byte_pairs(merges[:20], add_prefix_space=True, special_tokens_in_text=True)
    config = keras.saving.serialize_keras_object(tokenizer)
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
    assert again.get_config() == tokenizer.get_config()
    texts = ["the <mask> ther", "é"]
    assert again.tokenize(texts).to_list() == tokenizer.tokenize(texts).to_list()


def test_preset_round_trip(merges, tmp_path, untraced):
    tokenizer = small.byte_pairs(merges[:20], add_prefix_space=True)
    tokenizer.save_preset(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["merges.txt", "tokenizer_config.json", "vocab.json"]
    assert BytePairTokenizer.from_preset(tmp_path).get_config() == tokenizer.get_config()
    assert not BytePairTokenizer.from_preset(tmp_path, add_prefix_space=False).add_prefix_space
    with pytest.raises(FileExistsError, match=r"already has vocab\.json, merges\.txt"):
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


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("normalizer", {"type": "NFKC"}, "normalizes with 'NFKC'"),
        ("normalizer", {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Strip"}]}, "with 'NFC, Strip'"),
        ("pre_tokenizer", {"type": "Whitespace"}, "splits text with 'Whitespace'"),
        ("pre_tokenizer", {"use_regex": False}, "by another pattern"),
        ("model", {"dropout": 0.1}, "has dropout 0.1"),
        ("model", {"continuing_subword_prefix": "##"}, "marks continuing tokens with '##'"),
        ("model", {"end_of_word_suffix": "</w>"}, "marks the ends of words with '</w>'"),
        ("post_processor", {"cls": ["<pad>", 0]}, "its post_processor is .*, which packs texts neither"),
        ("post_processor", {"type": "ByteLevel"}, "which packs texts neither"),
        ("model", {"type": "Unigram"}, "holds a Unigram tokenizer, not BPE"),
    ],
)
def test_other_tokenizers_are_refused(part, change, message, tmp_path, untraced):
    content = bytepair_json(small.byte_pairs([]))
    content[part] = (content[part] or {}) | change
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        BytePairTokenizer.from_preset(tmp_path)


@pytest.mark.parametrize("flag", ["single_word", "lstrip", "rstrip"])
def test_added_tokens_found_in_other_ways_are_refused(flag, tmp_path, untraced):
    content = bytepair_json(small.byte_pairs([]))
    added = {"id": len(content["model"]["vocab"]), "content": "<user>", "special": False}
    content["added_tokens"].append({**added, "normalized": True, flag: True})
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"asks that the added token '<user>' .*{flag}: True"):
        BytePairTokenizer.from_preset(tmp_path)
    content["added_tokens"][-1] |= {flag: False, "normalized": False}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="be found in normalized text, normalized: False"):
        BytePairTokenizer.from_preset(tmp_path)


def test_added_tokens_beside_the_old_files_are_refused(merges, tmp_path, untraced):
    """Only tokenizer.json tells how they are found."""
    small.byte_pairs(merges[:20]).save_preset(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    config = json.loads(path.read_text()) | {"added_tokens_decoder": {"300": {"content": "<user>", "special": False}}}
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match="has the added token '<user>'; tokens that are not special"):
        BytePairTokenizer.from_preset(tmp_path)


@pytest.mark.slow
def test_reads_the_published_tokenizer_json(shared_data, roberta, tmp_path):
    (tmp_path / "tokenizer.json").write_bytes((shared_data / "vocabs/roberta_tokenizer.json").read_bytes())
    assert BytePairTokenizer.from_preset(tmp_path).get_config() == roberta.get_config()


TOKENS = {token: i for i, token in enumerate([*SPECIAL, *reference.SYMBOLS.values(), "ab"])}


@pytest.mark.parametrize(
    ("vocabulary", "merges", "message"),
    [
        ({}, [], "has no <unk>; add it, or pass its name there as unk_token="),
        ({**TOKENS, "x1": 999}, [], "ids of its 263 tokens are not 0 to 262"),
        ({**TOKENS, "x1": "7"}, [], "'x1' has the id '7'"),
        ([*TOKENS, "a"], [], "has 'a' twice"),
        ([*TOKENS][:-20], [], "has no .; it stands for byte 143, and byte pairs need all of UTF-8's"),
        (TOKENS, ["a b", "a"], "merge 1 is 'a'; expected two tokens"),
        (TOKENS, ["a b", 1.5], "merge 1 is 1.5; expected two tokens"),
        (TOKENS, [["a", "b"], ["a", 1]], r"merge 1 is \['a', 1\]; expected two tokens"),
        (TOKENS, [["a", "b"], ["a", ""]], r"merge 1 is \['a', ''\]; expected two tokens"),
        (TOKENS, ["a b", "ab c"], "merge 1 makes 'abc' of 'ab' and 'c', but the vocabulary has no 'abc'"),
    ],
)
def test_bad_vocabularies(vocabulary, merges, message):
    with pytest.raises(ValueError, match=message):
        BytePairTokenizer(vocabulary, merges)


def test_bad_files(tmp_path, untraced):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*vocab\.json; expected a vocab\.json with"):
        BytePairTokenizer(tmp_path / "vocab.json", [])
    (tmp_path / "vocab.json").write_text(json.dumps(TOKENS))
    with pytest.raises(FileNotFoundError, match=r"there is no file .*merges\.txt; expected a merges"):
        BytePairTokenizer(tmp_path / "vocab.json", tmp_path / "merges.txt")
    (tmp_path / "merges.txt").write_bytes(b"#version: 0.2\r\na b\r\n")
    assert BytePairTokenizer(tmp_path / "vocab.json", tmp_path / "merges.txt").merges == [("a", "b")]
    (tmp_path / "merges.txt").write_bytes(b"a \xff\n")
    with pytest.raises(ValueError, match=r"merges\.txt, line 1, is not UTF-8"):
        BytePairTokenizer(tmp_path / "vocab.json", tmp_path / "merges.txt")
    (tmp_path / "vocab.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"vocab\.json has \[1\]; expected an object"):
        BytePairTokenizer(tmp_path / "vocab.json", [])

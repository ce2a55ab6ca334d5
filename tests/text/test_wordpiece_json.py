"""A `tokenizer.json` of type WordPiece: each of its settings is honoured or refused by name."""

import copy
import json

import pytest

from keras_bert import BertPreprocessor, presets
from keras_bert.formats.tokenizers.tokenizer_json import template
from keras_bert.text import WordPieceTokenizer, load_tokenizer

from ..support.messages import error_names
from ..support.texts import SENTENCES
from ..support.tokenization import random_texts, wordpiece_json, words_of

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = [*SENTENCES, "Ünïcödé 北京 don't", "x" * 99 + " " + "x" * 100 + " " + "x" * 101, "a b\u3000c"]
VOCABULARY = [*SPECIAL, *words_of(TEXTS), *"xyz", "##x"]
VOCABULARY = [*dict.fromkeys(VOCABULARY)]
CLS, SEP = ("[CLS]", 2), ("[SEP]", 3)
CONTENT = wordpiece_json(WordPieceTokenizer(VOCABULARY))


def write(directory, *keys, **changes):
    """Writes `CONTENT` with other values in the object at `keys`."""
    content = copy.deepcopy(CONTENT)
    part = content
    for key in keys:
        part = part[key]
    part.update(changes)
    (directory / "tokenizer.json").write_text(json.dumps(content))


def test_reads_tokenizer_json(tmp_path):
    """transformers 5 writes no vocab.txt."""
    path = presets.resolve("all-MiniLM-L6-v2") / "tokenizer.json"
    (tmp_path / "tokenizer.json").write_bytes(path.read_bytes())
    tokenizer = WordPieceTokenizer.from_preset(tmp_path)
    original = WordPieceTokenizer.from_preset("all-MiniLM-L6-v2", max_chars_per_word=100)
    assert tokenizer.get_config() == original.get_config() | {"strip_accents": None}


MPNET = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "[PAD]", *VOCABULARY[5:], "<mask>"]
OF_MPNET = {"unk_token": "[UNK]", "cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
ADDED = ["<User>", "don", "北", "né", "[x]"]
PAIR = "Hello, world", "don't"


def write_mpnet(directory, post_processor):
    """Writes a `tokenizer.json` with MPNet's special tokens: two that stand for unknown text, of which one is used."""
    content = copy.deepcopy(CONTENT) | {"post_processor": post_processor}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    special = [*MPNET[:5], "<mask>"]
    content["added_tokens"] = [{"id": MPNET.index(token), "content": token, **flags} for token in special]
    content["model"]["vocab"] = {token: i for i, token in enumerate(MPNET)}
    (directory / "tokenizer.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("post_processor", "class_name"),
    [
        ({"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]}, "MPNetTokenizer"),
        (template(("<s>", 0), ("</s>", 2), 2, 1), "PreTrainedTokenizerFast"),
        (template(("<s>", 0), ("</s>", 2), 1, 0), "PreTrainedTokenizerFast"),
        (template(("<s>", 0), ("</s>", 2), 1, 1), "BertTokenizer"),
    ],
)
def test_mpnet(post_processor, class_name, tmp_path, untraced, tokenizers):
    """Pairs are packed as the file asks for, and as it says again when it is saved."""
    if post_processor["type"] == "RobertaProcessing":
        post_processor = post_processor | {"trim_offsets": True, "add_prefix_space": False}
    write_mpnet(tmp_path, post_processor)
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.special_tokens == OF_MPNET
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode(*PAIR)
    packed = BertPreprocessor(tokenizer, sequence_length=None)(PAIR)
    assert packed["input_word_ids"].numpy().tolist() == theirs.ids
    assert packed["input_type_ids"].numpy().tolist() == theirs.type_ids

    tokenizer.save_preset(tmp_path / "saved")
    assert json.loads((tmp_path / "saved/tokenizer_config.json").read_text())["tokenizer_class"] == class_name
    assert load_tokenizer(tmp_path / "saved").get_config() == tokenizer.get_config()


def test_mpnet_without_tokenizer_json(tmp_path, untraced):
    """Then the class in tokenizer_config.json tells how pairs are packed."""
    (tmp_path / "vocab.txt").write_text("\n".join(MPNET))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MPNetTokenizerFast", **OF_MPNET}))
    (tmp_path / "json").mkdir()
    write_mpnet(tmp_path / "json", {"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]})
    changes = {"strip_accents": None, "more_special_tokens": []}
    assert load_tokenizer(tmp_path).get_config() == load_tokenizer(tmp_path / "json").get_config() | changes


@pytest.mark.parity
@pytest.mark.parametrize("name", ["all-mpnet-base-v2", "all-mpnet-base-v2-st5.5"])
def test_the_published_mpnet(shared_data, name, tmp_path, auto_tokenizer):
    """The published files, and what we save of them, read by transformers."""
    ours = load_tokenizer(shared_data / "modern" / name)
    ours.save_preset(tmp_path)
    probe = "Hello, world!  It's 2026: naïve café 日本語 \n\n    indented"
    ids = "7596 1014 2092 1003 2013 1009 1059 16802 2579 1028 15747 7672 1868 1880 1954 27431 14092"
    assert ours.tokenize(probe).numpy().tolist() == [*map(int, ids.split())]
    texts = [text for text in TEXTS if "Σ" not in text]  # whose final form theirs does not know
    texts += (shared_data / "gutenberg/Dracula_345.txt").read_text("utf-8").split("\n")
    want = ours.tokenize(texts).to_list()
    packed = BertPreprocessor(ours, sequence_length=None)(("Hello", "it is"))["input_word_ids"].numpy().tolist()
    for directory in (shared_data / "modern" / name, tmp_path):
        theirs = auto_tokenizer(directory)
        assert theirs(texts, add_special_tokens=False, padding=False, truncation=False)["input_ids"] == want
        assert theirs("Hello", "it is")["input_ids"] == packed


@pytest.mark.parametrize("lowercase", [True, False])
def test_added_tokens(lowercase, tmp_path, untraced, tokenizers):
    """They are found anywhere in normalized text, as in Hugging Face's tokenizers."""
    vocabulary = [*dict.fromkeys((*VOCABULARY, *ADDED))]
    added = sorted(ADDED, key=vocabulary.index)
    tokenizer = WordPieceTokenizer(vocabulary, lowercase, max_chars_per_word=5, added_tokens=added)
    tokenizer.save_preset(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    theirs.encode_special_tokens = True
    parts = [*ADDED, "<user>", "Don", "NE\u0301", "n\u0301e", "x", "xxxxxx", " ", "\u200b", "[x", "[MASK]", "京", "."]
    texts = [*TEXTS[:4], *random_texts(parts, 300, 9)]
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert ids.to_list() == [each.ids for each in theirs.encode_batch(texts, add_special_tokens=False)]
    assert {*map(vocabulary.index, ADDED)} <= {*ids.flat_values.numpy().tolist()}
    text = "aNE\u0301 \u200b<User>x"
    ids, starts, ends = (each.numpy().tolist() for each in tokenizer.tokenize_with_offsets(text))
    cut = {vocabulary[i]: text.encode()[a:b].decode() for i, a, b in zip(ids, starts, ends, strict=True)}
    assert cut["<User>"] == "<User>"
    assert not lowercase or cut["né"] == "NE\u0301"

    again = load_tokenizer(tmp_path)
    assert again.get_config() == tokenizer.get_config()
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY))  # as transformers 4 leaves it, with the tokens elsewhere
    (tmp_path / "added_tokens.json").write_text(json.dumps({token: vocabulary.index(token) for token in ADDED}))
    assert load_tokenizer(tmp_path).get_config() == tokenizer.get_config()


def test_an_empty_token_is_in_no_text(tmp_path, untraced):
    """transformers 5 writes it in place of U+2028, which BERT's Chinese vocabulary has."""
    vocabulary = {**CONTENT["model"]["vocab"], "": len(VOCABULARY)}
    write(tmp_path, "model", vocab=vocabulary)
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.vocabulary_size == len(vocabulary)
    assert (
        tokenizer.tokenize(TEXTS).to_list()
        == WordPieceTokenizer(VOCABULARY, max_chars_per_word=100).tokenize(TEXTS).to_list()
    )


@pytest.mark.parametrize("is_special", [False, True])
def test_added_tokens_of_older_versions(is_special, tmp_path):
    """Not in tokenizer_config.json, but in files of their own."""
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<user>": len(VOCABULARY), "[MASK]": 4}))
    names = {"mask_token": {"content": "[MASK]"}, "additional_special_tokens": ["<user>"] if is_special else []}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(names))
    if is_special:
        assert WordPieceTokenizer.from_preset(tmp_path).vocabulary == [*VOCABULARY, "<user>"]
    else:
        with error_names(ValueError, tmp_path / "added_tokens.json", "'<user>'", "special", "tokenizer.json"):
            WordPieceTokenizer.from_preset(tmp_path)

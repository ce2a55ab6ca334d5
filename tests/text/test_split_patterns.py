"""Byte pairs of GPT-2's successors: how text is split, tokens with several rules, files as EuroBERT's."""

import json
import random

import pytest
import tensorflow as tf

from keras_bert.formats.tokenizers.byte_pairs import SPLIT_PATTERNS
from keras_bert.text import load_tokenizer
from keras_bert.text.bytepair import MergeRules
from keras_bert.text.packing import pack
from keras_bert.text.words import split_words

from ..support.messages import error_names
from ..support.reference import bytepair as reference
from ..support.texts import SENTENCES
from ..support.tokenization import NASTY, ODD_WORDS, random_texts

# As in the `tokenizer.json` of Llama 3.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|mask|>", "<|reserved_0|>", "<|pad|>"]
# Each alphabet meets other rules; the last ones have capitals, marks and slashes.
ALPHABETS = ["'stmdrevlSLREx  \n\r\té中½1.-", "' s\n1.", "'sſS \n/\u0301aAǅʰ中l", "'ls", "\n/!\u0301 a\r"]
TEXTS = [
    "",
    "a\0b\U0010ffff  c",
    *SENTENCES,
    *ODD_WORDS,
    "DON'T we'LL x's's's 12345\n\n  y !\n/\n",
    "HTTPServer éÉ",
    "x1\U000e0184b\U000e0100!",
]
TEXTS += [text for alphabet in ALPHABETS for text in random_texts(alphabet, 600, 14)]


@pytest.mark.parametrize("split", SPLIT_PATTERNS)
def test_words_are_the_matches_of_the_pattern(split, tokenizers):
    theirs = tokenizers.pre_tokenizers.Split(tokenizers.Regex(SPLIT_PATTERNS[split].expression), "isolated")
    found = split_words(tf.constant(TEXTS), split=split).to_list()
    for text, words in zip(TEXTS, found, strict=True):
        assert [word.decode() for word in words] == [word for word, _ in theirs.pre_tokenize_str(text)], ascii(text)


def test_what_is_not_utf8():
    for split in SPLIT_PATTERNS:
        with error_names(ValueError, "valid UTF-8", "row 1"):
            split_words(tf.constant(["a", b"\xff"]), split=split)


def several_rules(texts, count):
    """Tokens, and a rule for each way to make a token of two others; rules of earlier tokens first."""
    tokens = [*reference.SYMBOLS.values(), *dict.fromkeys(a + b for a, b in reference.train(texts, count))]
    known = {token: index for index, token in enumerate(tokens)}
    ways = {token: [(token[:i], token[i:]) for i in range(1, len(token))] for token in tokens}
    ways = {token: [pair for pair in pairs if pair[0] in known and pair[1] in known] for token, pairs in ways.items()}
    ordered = [sorted(pairs, key=lambda pair: (known[pair[0]], known[pair[1]])) for pairs in ways.values()]
    return known, [pair for pairs in ordered for pair in pairs]


def test_tokens_with_several_rules():
    """Also in words that are merged in windows."""
    known, rules = several_rules([*SENTENCES, "ababab aaaa bcbcbc cabcab"] * 3, 150)
    assert len(rules) > len({left + right for left, right in rules})
    words = random_texts("abc", 150, 12) + random_texts("abc", 40, 400)
    words += ["".join(random.Random(i).choices("theanresoi", k=300)) for i in range(20)] + ["a" * 333]
    ids = MergeRules(rules, known, [known[reference.SYMBOLS[byte]] for byte in range(256)])(tf.constant(words))
    ranks = {pair: rank for rank, pair in enumerate(rules)}
    for word, row in zip(words, ids.to_list(), strict=True):
        assert row == [
            known[token] for token in reference.merge([reference.SYMBOLS[byte] for byte in word.encode()], ranks)
        ], word


def eurobert_json():
    """A small tokenizer.json as Llama 3's, with EuroBERT's special tokens, some words that no merge makes, and pairs
    whose second text begins with the first token."""
    known, rules = several_rules(SENTENCES, 200)
    known |= {token: len(known) + i for i, token in enumerate(["Ġzyx", "qqq"])}
    ids = {token: len(known) + i for i, token in enumerate(SPECIAL)}
    flags = {"single_word": False, "rstrip": False, "normalized": False, "special": True}
    cls, sep = SPECIAL[:2]

    def special(token, type_id=0):
        return {"SpecialToken": {"id": token, "type_id": type_id}}

    one = [special(cls), {"Sequence": {"id": "A", "type_id": 0}}, special(sep)]
    template = {
        "type": "TemplateProcessing",
        "single": one,
        "pair": [*one, special(cls, 1), {"Sequence": {"id": "B", "type_id": 1}}, special(sep, 1)],
        "special_tokens": {token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in (cls, sep)},
    }
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {
        "type": "Split",
        "pattern": {"Regex": LLAMA3},
        "behavior": "Isolated",
        "invert": False,
    }
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": index, "content": token, "lstrip": token == "<|mask|>", **flags} for token, index in ids.items()
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": {"type": "Sequence", "processors": [{**byte_level, "use_regex": True}, template]},
        "decoder": {**byte_level, "use_regex": True},
        "model": {
            "type": "BPE",
            "unk_token": None,
            "ignore_merges": True,
            "vocab": known,
            "merges": [f"{left} {right}" for left, right in rules],
        },
    }


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("eurobert")
    (directory / "tokenizer.json").write_text(json.dumps(eurobert_json()))
    return directory


@pytest.fixture(scope="module")
def tokenizer(directory):
    return load_tokenizer(directory)


@pytest.mark.slow
@pytest.mark.parametrize("split", ["llama3", "digits"])
def test_same_as_hugging_face(directory, split, tmp_path, tokenizers):
    """What others wrote, and what we write."""
    if split == "digits":
        content, directory = eurobert_json(), tmp_path / "digits"
        first, last = {"type": "Digits", "individual_digits": True}, content["decoder"]
        content["pre_tokenizer"]["pretokenizers"] = [first, last]
        directory.mkdir()
        (directory / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = load_tokenizer(directory)
    tokenizer.save_preset(tmp_path)
    texts = [*TEXTS, *random_texts(NASTY, 60, 30), " zyx qqq zyx", "cafe\u0301 1234 <|mask|>"]
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert tokenizer.tokenize(texts).to_list() == ids.to_list()
    for path in (directory, tmp_path):
        theirs = tokenizers.Tokenizer.from_file(str(path / "tokenizer.json"))
        theirs.encode_special_tokens = True
        assert ids.to_list() == [each.ids for each in theirs.encode_batch(texts, add_special_tokens=False)]
    assert load_tokenizer(tmp_path).get_config() == tokenizer.get_config()
    for text, first, last in zip(texts, starts.to_list(), ends.to_list(), strict=True):
        if text.isascii():  # nothing is composed: tokens and the spaces before them are the text
            cut = "".join(text[a:b] for a, b in zip(first, last, strict=True))
            assert cut.replace(" ", "") == text.replace(" ", "")
    assert [text.decode() for text in tokenizer.detokenize(ids[:2]).numpy()] == texts[:2]


def test_special_tokens_and_pairs(directory, tokenizer, untraced, tokenizers):
    theirs = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    aware = load_tokenizer(directory, special_tokens_in_text=True)
    text = "Plants make <|mask|> of<|reserved_0|> light."
    assert aware.tokenize(text).numpy().tolist() == theirs.encode(text, add_special_tokens=False).ids
    assert tokenizer.special_tokens["unk_token"] == tokenizer.special_tokens["pad_token"] == "<|pad|>"
    pair = theirs.encode("the fox", "it is")
    special = (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id)
    segments = [tokenizer.tokenize([text]) for text in ("the fox", "it is")]
    packed = pack(segments, len(pair.ids), *special, tokenizer.pair_format)
    assert packed["input_word_ids"][0].numpy().tolist() == pair.ids
    assert packed["input_type_ids"][0].numpy().tolist() == pair.type_ids
    assert tokenizer.pair_format.special_tokens(2) == len(pair.ids) - sum(len(row[0]) for row in segments)

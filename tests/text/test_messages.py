"""What is no text, no argument, or no file of a tokenizer: errors say what came, where, and what to do."""

import base64
import json
import shutil
import struct

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertPreprocessor
from keras_bert.formats.tokenizers.sentencepiece_model import NORMAL, UNKNOWN, ModelProto, unigram_model
from keras_bert.formats.tokenizers.tokenizer_json import template
from keras_bert.formats.tokenizers.unigram import json_of_model
from keras_bert.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer, load_tokenizer
from keras_bert.text.explanation import explain
from keras_bert.text.words import find_words

from ..support import small, tokenization
from ..support.messages import error_names
from ..support.small import SPECIAL, VOCABULARY

pytestmark = pytest.mark.usefixtures("untraced")

# -- Texts and ids

NOT_UTF8 = [b"\xff", b"caf\xe9", b"\xed\xa0\x80", b"\xc0\xaf", "😀".encode()[:3], b"\xc3"]
NO_UTF8, EXPECTED = "valid UTF-8", "expected a str, a list of str"
# What is no text -> the error and the words of its message.
TEXTS = {
    "None": (None, TypeError, ["None as text", EXPECTED]),
    "a number": (3, TypeError, ["int32", EXPECTED]),
    "numbers": ([1, 2], TypeError, ["int32", EXPECTED]),
    "fractions": (np.array([1.0]), TypeError, ["float64", EXPECTED]),
    "None inside": (["a", None], TypeError, ["text 1", "NoneType", EXPECTED]),
    "a number inside": (["a", "b", 7], TypeError, ["text 2", 7, "int", EXPECTED]),
    "None in an array": (np.array(["a", None], dtype=object), TypeError, ["text 1", "NoneType", EXPECTED]),
    "lists": ([["a"], ["b"]], ValueError, ["strings", "(2, 1)", EXPECTED]),
    "lists of different lengths": ([["a"], ["b", "c"]], TypeError, ["text 0", "['a']", "list", EXPECTED]),
    "a ragged tensor": (tf.ragged.constant([["a"]]), ValueError, ["RaggedTensor", EXPECTED]),
    "a dict": ({"text": "a"}, TypeError, ["dict", "columns 'text'", "table['text']"]),
    "a set": ({"a"}, TypeError, ["set", "no order", "list"]),
    "a generator": ((text for text in "ab"), TypeError, ["generator", EXPECTED]),
    "a lone surrogate": (["ok", "ab\udc80"], ValueError, ["text 1", "surrogate", r"'\udc80'", "character 2"]),
    "a single lone surrogate": ("\ud83d", ValueError, ["text 0", "surrogate", r"'\ud83d'", "character 0"]),
    "Latin-1": ([b"fine", b"caf\xe9"], ValueError, [NO_UTF8, "row 1"]),
    "a surrogate in bytes": (tf.constant(["a", "é", b"\xed\xa0\x80"]), ValueError, [NO_UTF8, "row 2"]),
}


def test_names_of_other_libraries():
    for theirs, ours in (("encode", "'tokenize'"), ("decode", "'detokenize'"), ("pad", "WordPieceTokenizer")):
        with error_names(AttributeError, theirs, ours):
            getattr(small.tokenizer(), theirs)


@pytest.mark.parametrize(("texts", "error", "words"), TEXTS.values(), ids=TEXTS)
def test_what_is_no_text(tokenizer, texts, error, words):
    preprocessor = small.preprocessor()
    for function in (tokenizer.tokenize, tokenizer.tokenize_with_offsets, preprocessor):
        with error_names(error, *words):
            function(texts)
    with error_names(error, *words):
        preprocessor((texts, texts))


@pytest.mark.parametrize("text", NOT_UTF8)
def test_bytes_that_are_not_utf8(any_tokenizer, text):
    cased = WordPieceTokenizer(VOCABULARY, lowercase=False)
    for read in (any_tokenizer.tokenize, any_tokenizer.tokenize_with_offsets, cased.tokenize, find_words):
        with error_names(ValueError, NO_UTF8, "row 1"):
            read([b"a", text, b"b"])


def test_bytes_that_are_not_utf8_in_a_graph(any_tokenizer):
    tf.config.run_functions_eagerly(False)
    with error_names(tf.errors.InvalidArgumentError, NO_UTF8, "[1]"):
        tf.function(any_tokenizer.tokenize)(tf.constant([b"fine", b"\xff"]))


IDS = {
    "None": (None, ["ids is None"]),
    "a str": ("abc", ["ids", "single str"]),
    "a set": ({1}, ["ids", "set", "no order"]),
    "a dict": ({"ids": [1]}, ["ids", "dict", "columns 'ids'"]),
    "fractions": ([[1.5]], ["ids", "[[1.5]]", "integers"]),
    "texts": ([["a"]], ["ids", "[['a']]", "integers"]),
    "None inside": ([[1, None]], ["ids", "[[1, None]]", "integers"]),
    "more digits than 64 bits": ([[2**70]], ["ids", f"[[{2**70}]]", "integers"]),
    "more than 32 bits": ([[2**40]], ["id", "vocabulary", 2**40]),
    "a negative number": ([[-1]], ["id", "vocabulary", -1]),
    "one behind the vocabulary": ([[0, len(VOCABULARY)]], ["vocabulary", len(VOCABULARY) - 1, len(VOCABULARY)]),
    "one number": (3, ["ids"]),
    "three dimensions": ([[[1]]], ["integer ids", "[batch, (tokens)]"]),
}


@pytest.mark.parametrize(("ids", "words"), IDS.values(), ids=IDS)
def test_what_are_no_ids(tokenizer, ids, words):
    for read in (small.preprocessor(sequence_length=8).pack, tokenizer.detokenize):
        with error_names((TypeError, ValueError), *words):
            read(ids)


@pytest.mark.parametrize("words", [None, ["a", "b"], [["a"], ["b"]], np.array(["a"]), tf.constant(["a"])])
def test_words_are_a_ragged_tensor(tokenizer, words):
    for read, name in ((tokenizer.tokenize_words, "words"), (tokenizer.group_by_word, "ids")):
        with error_names(TypeError, name, "ragged tensor", f"[batch, ({name})]", "tf.ragged.constant"):
            read(words)


# -- Arguments

TOKENS = {token: i for i, token in enumerate(small.byte_pairs([]).vocabulary)}
UNK, A = ("<unk>", 0.0, UNKNOWN), ("a", -1.0, NORMAL)
INPUT = 'keras.Input(shape=(), dtype="string")'


def merged(*merges):
    return BytePairTokenizer(TOKENS, merges)


def modern(**settings):
    return small.modern_byte_pairs([], **settings)


def llama(**settings):
    return BytePairTokenizer(**small.byte_pairs([]).get_config() | {"split": "llama3", **settings})


def pieces(*pieces):
    return SentencePieceTokenizer(unigram_model([*pieces], b""))


def preprocess(texts=None, **settings):
    preprocessor = BertPreprocessor(small.tokenizer(), **settings)
    return preprocessor if texts is None else preprocessor(texts)


def pack(ids):
    return small.preprocessor().pack(ids)


# What is wrong -> the call; the words of its ValueError.
VALUES = {
    "an empty vocabulary": (lambda: WordPieceTokenizer([]), ["vocabulary", "empty"]),
    "a token twice": (lambda: WordPieceTokenizer([*SPECIAL, "a", "a"]), ["'a'", "twice"]),
    "no mask token": (lambda: WordPieceTokenizer(SPECIAL[:4]), ["no [MASK]", "mask_token="]),
    "no characters": (lambda: WordPieceTokenizer(SPECIAL, max_chars_per_word=0), ["max_chars_per_word", 0]),
    "an added token that is dropped": (
        lambda: WordPieceTokenizer([*VOCABULARY, "\u200b"], added_tokens=["\u200b"]),
        ["normalization", "added token", r"'\u200b'"],
    ),
    "no unknown token": (lambda: BytePairTokenizer({}, []), ["no <unk>", "unk_token="]),
    "an id too high": (lambda: BytePairTokenizer({**TOKENS, "x1": 999}, []), ["ids", "262 tokens", 261]),
    "a string as id": (lambda: BytePairTokenizer({**TOKENS, "x1": "7"}, []), ["'x1'", "id '7'"]),
    "a byte pair twice": (lambda: BytePairTokenizer([*TOKENS, "a"], []), ["'a'", "twice"]),
    "a byte without a token": (lambda: BytePairTokenizer([*TOKENS][:-20], []), ["byte", "UTF-8"]),
    "a merge of one token": (lambda: merged("a b", "a"), ["merge 1", "'a'", "two"]),
    "a number as merge": (lambda: merged("a b", 1.5), ["merge 1", "1.5", "two"]),
    "a merge with a number": (lambda: merged(["a", "b"], ["a", 1]), ["merge 1", "['a', 1]", "two"]),
    "a merge with nothing": (lambda: merged(["a", "b"], ["a", ""]), ["merge 1", "['a', '']", "two"]),
    "a merge that makes no token": (lambda: merged("a b"), ["merge 0", "'ab'", "'a'", "'b'", "vocabulary"]),
    "a normalization": (lambda: modern(normalization="NFKC"), ["normalization", "'NFKC'", "'NFC'", None]),
    "an added token that is none": (lambda: modern(added_tokens=["<user>"]), ["no '<user>'", "added token"]),
    "an added token twice": (lambda: modern(added_tokens=["  ", "  "]), ["added_tokens", "'  '", "twice"]),
    "an empty added token": (lambda: modern(added_tokens=[""]), ["added_tokens", "empty"]),
    "a split": (lambda: llama(split="bert"), ["split", "'bert'", "gpt2, digits, llama3"]),
    "a space before words": (lambda: llama(add_prefix_space=True), ["add_prefix_space", True, "'llama3'", "'gpt2'"]),
    "a piece with a zero": (lambda: pieces(UNK, A, ("b\0", -2.0, NORMAL)), ["piece 2", r"'b\x00'", "U+0000"]),
    "an empty piece": (lambda: pieces(UNK, A, ("", -2.0, NORMAL)), ["piece 2", "empty"]),
    "a piece twice": (lambda: pieces(UNK, A, A), ["SentencePiece model", "piece 2", "'a'", "piece 1"]),
    "a score": (lambda: pieces(UNK, ("a", float("nan"), NORMAL)), ["piece 1", "'a'", "score nan"]),
    "a type of piece": (lambda: pieces(UNK, ("a", -1.0, 9)), ["piece 1", "'a'", "type 9", "1 to 6"]),
    "no unknown piece": (lambda: pieces(A), ["SentencePiece model", "0 pieces", "unknown text"]),
    "no pieces": (lambda: pieces(), ["SentencePiece model", "no pieces"]),
    "a piece that is not UTF-8": (
        lambda: SentencePieceTokenizer(unigram_model([UNK, ("é", -1.0, NORMAL)], b"").replace(b"\xc3\xa9", b"\xc3(")),
        ["piece 1", r"b'\xc3('", "UTF-8"],
    ),
    "texts without their pairs": (lambda: explain(small.tokenizer(), ["a", "b"], ["c"]), [2, 1, "text_pairs"]),
    "a row too short": (lambda: preprocess(sequence_length=2), ["sequence_length is 2", 3, 512]),
    "a row of nothing": (lambda: preprocess(sequence_length=0), ["sequence_length is 0", 3]),
    "a row too long": (lambda: preprocess(sequence_length=600), ["sequence_length is 600", 512]),
    "a row longer than the positions": (
        lambda: preprocess(sequence_length=65, max_sequence_length=64),
        ["sequence_length is 65", 64, "max_sequence_length", "positions"],
    ),
    "too few positions": (lambda: preprocess(max_sequence_length=2), ["max_sequence_length is 2", 3]),
    "a truncation": (lambda: preprocess(truncation="longest"), ["truncation", "'longest'", "longest_first"]),
    "a multiple of nothing": (lambda: preprocess(pad_to_multiple_of=0), ["pad_to_multiple_of", 0, 1]),
    "a stride of nothing": (lambda: preprocess(stride=0), ["stride", 0, 1]),
    "a tuple of one text": (lambda: preprocess(("a",)), ["tuple of 1 text", "pair"]),
    "a tuple of three": (lambda: preprocess(("a", "b", "c")), ["3 texts", "tuple", "pair"]),
    "unequal batches": (lambda: preprocess((["a"], ["b", "c"])), ["batches", "(1,)", "(2,)"]),
    "a batch and a text": (lambda: preprocess((["a"], "b")), ["batches", "(1,)", "()"]),
    "an input of numbers": (lambda: preprocess(keras.Input((3,))), ["float32", "(None, 3)", INPUT]),
    "an input of columns": (lambda: preprocess(keras.Input((3,), dtype="string")), ["string", "(None, 3)", INPUT]),
    "no room for windows": (lambda: preprocess((["a"], ["b"]), sequence_length=4, stride=1), ["4 tokens", "windows"]),
    "unequal batches of ids": (lambda: pack(([[1]], [[1], [2]])), ["pair", "batches", 1, 2]),
    "ids of floats": (lambda: pack(tf.constant([[1.0]])), ["float32", "(1, 1)", "integer ids"]),
    "ids of one text": (lambda: pack(tf.constant([1, 2])), ["int32", "(2,)", "integer ids", "[batch, (tokens)]"]),
}
# The same of its TypeError.
TYPES = {
    "a number as token": (lambda: WordPieceTokenizer([*SPECIAL, 7]), ["token", "str", "line 6", 7]),
    "a name as tokenizer": (lambda: BertPreprocessor("bert"), ["tokenizer", "'bert'", "WordPieceTokenizer"]),
    "a text alone to explain": (lambda: explain(small.tokenizer(), "a"), ["texts", "single str", "[text]"]),
    "a dict to explain": (lambda: explain(small.tokenizer(), {"text": "a"}), ["texts", "dict", "'text'"]),
    "bytes to explain": (lambda: explain(small.tokenizer(), [b"a"]), ["text 0", "b'a'", "text.decode()"]),
    "None to explain": (lambda: explain(small.tokenizer(), ["a", None]), ["text 1", None, "str"]),
    "a number as word": (lambda: find_words(["a", 5]), ["text 1", 5, EXPECTED]),
}


@pytest.mark.parametrize(("call", "words"), VALUES.values(), ids=VALUES)
def test_a_value_that_makes_no_sense(call, words):
    with error_names(ValueError, *words):
        call()


@pytest.mark.parametrize(("call", "words"), TYPES.values(), ids=TYPES)
def test_a_type_that_makes_no_sense(call, words):
    with error_names(TypeError, *words):
        call()


@pytest.mark.parametrize("name", ["sequence_length", "max_sequence_length", "pad_to_multiple_of", "stride"])
@pytest.mark.parametrize("value", ["128", 12.5, True, [8]])
def test_lengths_are_whole_numbers(tokenizer, name, value):
    with error_names(TypeError, name, repr(value), "whole number"):
        BertPreprocessor(tokenizer, **{name: value})


@pytest.mark.parametrize("truncation", ["longest_first", "head_tail", "error"])
def test_a_pair_needs_room_for_its_special_tokens(truncation):
    short = BertPreprocessor(small.byte_pairs([]), sequence_length=3, truncation=truncation)
    with error_names(ValueError, "3 tokens", "pair", "special tokens", 4, "sequence_length"):
        short((["a"], ["b"]))
    assert short([""])["input_word_ids"].shape == (1, 3)


# -- Files

# What is wrong with a vocab.txt -> its content, the words of the message.
VOCABULARIES = {
    "nothing": (b"", ["empty"]),
    "blank lines": (b"\n\n", ["empty"]),
    "a hole": (b"[PAD]\n[UNK]\n\na\n", ["line 3", "empty"]),
    "a token twice": (b"[PAD]\na\nb\na\n", ["'a'", "twice", "lines 2 and 4"]),
    "a space": (b"[PAD]\na b\n", ["line 2", "white space", "'a b'"]),
    "a tab": (b"[PAD]\t0\na\t1\n", ["line 1", "white space", r"'[PAD]\t0'"]),
    "zeros": (b"[PAD]\n\0\0\0\0\n", ["line 2", "NUL", r"'\x00\x00\x00\x00'"]),
    "Latin-1": (b"[PAD]\na\n\xff\xfe\n", ["line 3", "UTF-8", "0xff"]),
    "one long line": ("é".encode() * 150, ["line 1", "256 bytes"]),
    "no separator": ("\n".join(SPECIAL[:3]).encode(), ["no [SEP]", "sep_token="]),
    "other names": (b"<s>\n</s>\n<unk>\n<pad>\n", ["no [UNK]", "unk_token="]),
}


@pytest.mark.parametrize(("content", "words"), VOCABULARIES.values(), ids=VOCABULARIES)
def test_a_bad_vocabulary_file(content, words, tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with error_names(ValueError, path, *words):
        WordPieceTokenizer(path)


def test_missing_vocabularies(tmp_path):
    with error_names(FileNotFoundError, "no file", tmp_path / "nowhere.txt"):
        WordPieceTokenizer(tmp_path / "nowhere.txt")
    with error_names(FileNotFoundError, tmp_path, "vocab.txt or tokenizer.json", "nothing"):
        WordPieceTokenizer.from_preset(tmp_path)
    with error_names(FileNotFoundError, "no file", tmp_path / "vocab.json", "id of each token"):
        BytePairTokenizer(tmp_path / "vocab.json", [])
    with error_names(FileNotFoundError, "SentencePiece", tmp_path / "none.model", "spiece.model"):
        SentencePieceTokenizer(tmp_path / "none.model")


def test_bad_files_of_byte_pairs(tmp_path):
    vocabulary, merges = tmp_path / "vocab.json", tmp_path / "merges.txt"
    vocabulary.write_text(json.dumps({**TOKENS, "ab": len(TOKENS)}))
    with error_names(FileNotFoundError, "no file", merges, "pair of tokens"):
        BytePairTokenizer(vocabulary, merges)
    merges.write_bytes(b"#version: 0.2\r\na b\r\n")
    assert BytePairTokenizer(vocabulary, merges).merges == [("a", "b")]
    merges.write_bytes(b"a \xff\n")
    with error_names(ValueError, f"{merges}, line 1", "UTF-8"):
        BytePairTokenizer(vocabulary, merges)
    vocabulary.write_text("[1]")
    with error_names(ValueError, vocabulary, "[1]", "object"):
        BytePairTokenizer(vocabulary, [])


def test_bad_models_of_sentencepiece(albert_model, xlm_model, tmp_path):
    path = tmp_path / "bad.model"
    for content, words in ((b"", ["empty"]), (b"\xff" * 50, ["not a SentencePiece model"])):
        path.write_bytes(content)
        with error_names(ValueError, path, *words):
            SentencePieceTokenizer(path)
    with error_names(ValueError, "not a SentencePiece model"):
        SentencePieceTokenizer(albert_model.read_bytes()[:4998])
    with error_names(ValueError, "family", "'t5'", "xlm-roberta, camembert, albert, albert-transformers"):
        SentencePieceTokenizer(albert_model, family="t5")
    with error_names(ValueError, xlm_model, "no <pad>", "pad_token", "albert", "family"):
        SentencePieceTokenizer(xlm_model, family="albert")


VALUED = ord("a") | 1 << 8  # the label of a unit that has a value


def charsmap(units=(), strings=b"b\0", size=None, count=256):
    """A table of characters for SentencePiece: a trie that replaces "a" with "b", changed at some places."""
    trie = np.zeros(count, "<u4")
    for place, unit in {ord("a"): VALUED | 3 << 10, ord("b"): 1 << 31, **dict(units)}.items() if count else ():
        trie[place] = unit
    return struct.pack("<I", trie.nbytes if size is None else size) + trie.tobytes() + strings


CHARSMAPS = {
    "no length": (b"abc", ["3 bytes", "trie"]),
    "a length that is too large": (charsmap(size=2**32 - 1), ["4,294,967,295", "1,024"]),
    "a length that is no block": (charsmap(size=1020), ["1,020"]),
    "no trie": (charsmap(count=0), ["trie of 0"]),
    "no strings": (charsmap(strings=b""), ["ends", "U+0000"]),
    "a string without an end": (charsmap(strings=b"b\0cc"), ["ends", "U+0000"]),
    "an offset outside": (charsmap({ord("a"): VALUED | 1 << 18}), ["unit 97", "256"]),
    "a large offset": (charsmap({0: (2**21 - 1) << 10 | 1 << 9}), ["unit 0", "256"]),
    "a value outside": (charsmap({ord("b"): 1 << 31 | 2}), ["unit 97", "2 bytes"]),
    "a circle": (charsmap({ord("a"): ord("a") | ord("a") << 10}), ["256 bytes", "circle"]),
    "a long string": (charsmap(strings=b"b" * 2**20 + b"\0"), ["1,048,576", "256 bytes"]),
}


@pytest.mark.parametrize(("table", "words"), CHARSMAPS.values(), ids=CHARSMAPS)
def test_a_table_of_characters_that_reads_elsewhere_or_never_ends(contents, albert_model, table, words, tmp_path):
    model = ModelProto.FromString(albert_model.read_bytes())
    model.normalizer_spec.precompiled_charsmap = table
    (tmp_path / "spiece.model").write_bytes(model.SerializeToString())
    with error_names(ValueError, tmp_path / "spiece.model", "precompiled_charsmap", *words):
        SentencePieceTokenizer(tmp_path / "spiece.model")
    content = json.loads(contents["Unigram"])
    content["normalizer"]["normalizers"][-1]["precompiled_charsmap"] = base64.b64encode(table).decode()
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    (tmp_path / "spiece.model").unlink()
    with error_names(ValueError, tmp_path / "tokenizer.json", "precompiled_charsmap", *words):
        load_tokenizer(tmp_path)


# -- tokenizer.json

READERS = {"WordPiece": WordPieceTokenizer.from_preset, "BPE": BytePairTokenizer.from_preset}  # else load_tokenizer


@pytest.fixture(scope="module")
def contents(albert_model):
    """A `tokenizer.json` of each kind, as text."""
    return {
        "WordPiece": json.dumps(tokenization.wordpiece_json(small.tokenizer())),
        "BPE": json.dumps(tokenization.bytepair_json(small.byte_pairs([]))),
        "Unigram": json.dumps(json_of_model(albert_model.read_bytes(), "albert-transformers", True, True)),
    }


def change(content, place, value):
    """Sets what is at `place`, keys with dots between; `+` appends to a list; an Ellipsis as value removes the key."""
    *keys, last = [int(key) if key.lstrip("-").isdigit() else key for key in place.split(".")]
    for key in keys:
        content = content[key]
    if last == "+":
        content.append(value)
    elif value is ...:
        del content[last]
    else:
        content[last] = value


# An added token behind those of the small tokenizers.
USER = {"id": 600, "content": "<user>", "special": False, "normalized": True} | dict.fromkeys(
    ("single_word", "lstrip", "rstrip"), False
)


def steps(*types):
    return {"type": "Sequence", "normalizers": [{"type": each} for each in types]}


BERT = ("[CLS]", 2)
PACKS = ["post_processor", "packs texts", "ids would differ"]
# What is wrong -> the type of tokenizer, a place in its file and the value there, the words of the message.
TOKENIZER_JSON = {
    "half a normalizer": ("WordPiece", "normalizer", {"type": "BertNormalizer"}, ["normalizer", "no clean_text"]),
    "three separators": ("WordPiece", "post_processor", template(BERT, ("[SEP]", 3), 3, 1), PACKS),
    "a third type": ("WordPiece", "post_processor", template(BERT, ("[SEP]", 3), 1, 2), PACKS),
    "a wrong id": ("WordPiece", "post_processor", template(("[CLS]", 3), ("[SEP]", 3), 1, 1), PACKS),
    "no characters": ("WordPiece", "model.max_input_chars_per_word", 0, ["max_chars_per_word is 0"]),
    "too many characters": ("WordPiece", "model.max_input_chars_per_word", 10**12, ["max_chars_per_word", 10**12]),
    "a string": (
        "WordPiece",
        "model.max_input_chars_per_word",
        "9",
        ["'9'", "model.max_input_chars_per_word", "whole"],
    ),
    "no vocabulary": ("WordPiece", "model.vocab", {}, ["vocabulary", "only special tokens"]),
    "a list of tokens": ("WordPiece", "model.vocab", [1], ["[1]", "model.vocab", "object"]),
    "null as id": ("WordPiece", "model.vocab", {"a": None}, ["no model.vocab.a", "whole number"]),
    "another unknown token": ("WordPiece", "model.unk_token", "[OOV]", ["no [OOV]", "unk_token="]),
    "a list as model": ("WordPiece", "model", [[]], ["[[]]", "model", "object"]),
    "no model": ("WordPiece", "model", None, ["no model", "object"]),
    "an object for a list": ("WordPiece", "added_tokens", {}, ["{}", "added_tokens", "a list or null"]),
    "NFC and more": ("BPE", "normalizer", steps("NFC", "Strip"), ["normalizes", "'NFC, Strip'"]),
    "another first token": ("BPE", "post_processor.cls", ["<pad>", 0], PACKS),
    "no RoBERTa": ("BPE", "post_processor.type", "ByteLevel", PACKS),
    "one more": ("Unigram", "normalizer.normalizers.+", {"type": "NFC"}, ["normalizer[6]", "'missing'"]),
    "their order": ("Unigram", "normalizer.normalizers.0.type", "NFC", ["normalizer[0].type", "'NFC'"]),
    "no table": ("Unigram", "normalizer.normalizers.-1", ..., ["normalizer", "no Precompiled table"]),
    "a damaged table": ("Unigram", "normalizer.normalizers.-1.precompiled_charsmap", "?", ["damaged", "base64"]),
    "a token outside": ("Unigram", "added_tokens.+", USER, ["added_tokens[10]", "'<user>'"]),
    "normalized text": ("Unigram", "added_tokens.-1.normalized", True, ["added_tokens[9].normalized", True, False]),
    "a token as a word": ("Unigram", "added_tokens.-1.single_word", True, ["added_tokens[9].single_word", True, False]),
    "pairs": ("Unigram", "post_processor.pair.-1", ..., ["post_processor.pair[4]", "'missing'"]),
    "several words": ("Unigram", "model.vocab.+", ["a▁b", -3.0], ["'a▁b'", "words", "SentencePiece"]),
    "Hangul": ("Unigram", "model.vocab.+", ["▁나", -3.0], ["Hangul", "NFKD", "'▁나'", "keep_accents=True"]),
    "a piece twice": ("Unigram", "model.vocab.-2.0", "[MASK]", ["token '[MASK]'", "twice"]),
    "no space": ("Unigram", "model.vocab", [["<pad>", 0.0]], ["no token ▁"]),
    "another family": ("Unigram", "model.vocab.2.0", "[cls]", ["family", "albert"]),
    "an object as pieces": ("Unigram", "model.vocab", {"a": 1}, ["{'a': 1}", "model.vocab", "list"]),
    "no added tokens": ("Unigram", "added_tokens", ..., ["no added_tokens", "list"]),
    "a large score": ("Unigram", "model.vocab.20.1", 1e300, ["tokenizer.json is damaged"]),
    "a score of 400 digits": ("Unigram", "model.vocab.20.1", 10**400, ["tokenizer.json is damaged"]),
    "a score of nan": ("Unigram", "model.vocab.20.1", float("nan"), ["tokenizer.json is damaged"]),
}


@pytest.mark.parametrize(("kind", "place", "value", "words"), TOKENIZER_JSON.values(), ids=TOKENIZER_JSON)
def test_a_tokenizer_json_that_would_give_other_ids_is_refused(contents, kind, place, value, words, tmp_path):
    content = json.loads(contents[kind])
    change(content, place, value)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with error_names(ValueError, *words, tmp_path):
        READERS.get(kind, load_tokenizer)(tmp_path)


@pytest.mark.parametrize("kind", [*READERS, "Unigram"])
@pytest.mark.parametrize("named", ["WordLevel", 3])
def test_every_reader_refuses_another_type_in_the_same_words(contents, kind, named, tmp_path):
    content = json.loads(contents[kind])
    change(content, "model.type", named)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    for read in (READERS.get(kind, SentencePieceTokenizer.from_preset), load_tokenizer):
        words = ["model.type", named] if named == 3 else ["a tokenizer of type WordLevel, not", kind]
        with error_names(ValueError, tmp_path / "tokenizer.json", *words):
            read(tmp_path)


# -- tokenizer_config.json

CONFIG = "tokenizer_config.json"
TOKENIZER_CONFIGS = {
    "a list as token": ("WordPiece", {"mask_token": ["x"]}, ["['x']", "mask_token", "a string or an object"]),
    "an empty token": ("WordPiece", {"pad_token": {}}, ["no pad_token.content", "string"]),
    "a string for true": ("WordPiece", {"do_lower_case": "false"}, ["'false'", "do_lower_case", "true or false"]),
    "an added token": (
        *("WordPiece", {"added_tokens_decoder": {"9": {"content": "<user>"}}}),
        ["added token", "'<user>'", "special", "tokenizer.json"],
    ),
    "an added token of byte pairs": (
        *("merges", {"added_tokens_decoder": {"300": {"content": "<user>", "special": False}}}),
        ["added token", "'<user>'", "special", "tokenizer.json"],
    ),
    "capitals": ("Unigram", {"do_lower_case": False}, ["normalizer Lowercase", "lowercase=False"]),
    "accents": ("Unigram", {"keep_accents": True}, ["normalizer StripAccents", "strip_accents=False"]),
    "capitals beside a model": ("model", {"do_lower_case": False}, ["normalizer Lowercase", "lowercase=False"]),
    "accents beside a model": ("model", {"keep_accents": True}, ["normalizer StripAccents", "strip_accents=False"]),
    "another class": ("Unigram", {"tokenizer_class": "XLNetTokenizer"}, ["XLNetTokenizer", "AlbertTokenizer"]),
}


@pytest.mark.parametrize(("kind", "config", "words"), TOKENIZER_CONFIGS.values(), ids=TOKENIZER_CONFIGS)
def test_a_tokenizer_config_that_is_refused(contents, albert_model, kind, config, words, tmp_path):
    if kind == "merges":
        small.byte_pairs([]).save_preset(tmp_path)
        config = json.loads((tmp_path / CONFIG).read_text()) | config
    else:
        (tmp_path / "tokenizer.json").write_text(contents[kind.replace("model", "Unigram")])
    if kind == "model":
        shutil.copy(albert_model, tmp_path / "spiece.model")
    (tmp_path / CONFIG).write_text(json.dumps(config))
    with error_names(ValueError, CONFIG, *words):
        READERS.get(kind, load_tokenizer)(tmp_path)

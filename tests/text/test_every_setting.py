"""Every setting of `tokenizer.json`: obeyed as by Hugging Face's `tokenizers`, refused by name, or without effect.

The same holds for the file alone, beside the vocabulary's own files, and for the preprocessor without TensorFlow.
"""

import copy
import dataclasses
import functools
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

from keras_bert import BertPreprocessor
from keras_bert.formats import write_config
from keras_bert.formats.tokenizers.byte_pairs import pre_tokenizer_of
from keras_bert.formats.tokenizers.tokenizer_json import _KEYS, template
from keras_bert.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer, load_tokenizer
from keras_bert.text.arrays.preprocessor import ArrayPreprocessor
from keras_bert.text.vocabulary import byte_symbols

from ..support import small
from ..support.messages import error_names, warning_names
from ..support.tokenization import train_xlm_roberta

library = pytest.importorskip("tokenizers", reason="needs Hugging Face's tokenizers to compare with")
pytestmark = pytest.mark.usefixtures("untraced")

OBEYED, WITHOUT_EFFECT = "obeyed", "without effect"
ADDED = ["new york", "[E1]"]
WORDS = [*small.SPECIAL, *"abcdexyzé½北", "##b", "##x", "-", "##京", "北京", "ab", *ADDED]
PAIRS = [*small.SPECIAL, *byte_symbols(), "11", "Ġ1", "Ã©", "Ġa", "aa", "aaa", *ADDED]
MERGES = ["1 1", "Ġ 1", "Ã ©", "Ġ a", "a a"]
TEXTS = [
    "a-b ée\u0301 É abb ab xxx xxxx 北京",
    "1111  11 aaa\taa's [PAD]y[MASK]",
    " New\u00a0york xnew york [E1] x[e1] a\u200bb½",
    "x" * 101,
]
MORE = {"added_tokens": ADDED[:1], "more_special_tokens": ADDED[1:], "separators": 2, "second_type_id": 1}


@functools.cache
def content_of(kind):
    """A `tokenizer.json`, and vocabulary files that agree with it."""
    if kind == "WordPiece":
        return WordPieceTokenizer(WORDS, **MORE, max_chars_per_word=100).tokenizer_json(), {
            "vocab.txt": "\n".join(WORDS[:-2])
        }
    if kind == "Unigram":
        model = train_xlm_roberta()
        tokenizer = SentencePieceTokenizer(model, "xlm-roberta")
        return json.loads(json.dumps(tokenizer.tokenizer_json())), {"sentencepiece.bpe.model": model}
    names = {f"{token[1:-1].lower()}_token": token for token in small.SPECIAL}
    content = BytePairTokenizer(PAIRS, MERGES, **MORE, **names).tokenizer_json()
    ids = json.dumps({token: index for index, token in enumerate(PAIRS)})
    return content, {"vocab.json": ids, "merges.txt": "\n".join(MERGES)}


def token(name, kind="WordPiece", **changes):
    """The added tokens, with other values of one of them."""
    entries = copy.deepcopy(content_of(kind)[0]["added_tokens"])
    return [each | (changes if each["content"] == name else {}) for each in entries]


CLS, SEP = ("[CLS]", 2), ("[SEP]", 3)
PACKING = template(CLS, SEP, 1, 0)
BYTES = pre_tokenizer_of("gpt2", False)
TRIM = {"trim_offsets": True, "add_prefix_space": False}
LLAMA = pre_tokenizer_of("llama3", False)["pretokenizers"]
DIGITS = {"type": "Digits", "individual_digits": True}
BERT = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}
TRUNCATION = {"direction": "Right", "max_length": 3, "strategy": "OnlySecond", "stride": 1}
PADDING = {"strategy": {"Fixed": 99}, "direction": "Left", "pad_to_multiple_of": 8, "pad_id": 7, "pad_type_id": 1}

# Place of a setting, its value -> obeyed, without effect, or words of the refusal. Each key of `_KEYS` has a row.
ANY_MODEL = [
    ("version", "1.0", WITHOUT_EFFECT),  # of the file's format; there is only one
    ("decoder", None, WITHOUT_EFFECT),  # for ids to text
    ("truncation", TRUNCATION, WITHOUT_EFFECT),  # left over from a training: the model's own length decides
    ("truncation", {**TRUNCATION, "direction": "Left"}, ["truncation.direction", "Left"]),
    ("padding", {**PADDING, "pad_token": "[PAD]"}, WITHOUT_EFFECT),  # padding is masked, on either side
    ("padding", {**PADDING, "pad_token": "[MASK]"}, OBEYED),
    ("model.type", "WordLevel", ["WordLevel"]),
    ("post_processor", None, ["post_processor", None, "packs texts", "ids would differ"]),
    ("post_processor", PACKING, OBEYED),
    ("post_processor", template(CLS, SEP, 1, 1), OBEYED),
    ("post_processor", template(("[MASK]", 4), ("[UNK]", 1), 1, 1), OBEYED),
    ("post_processor", {"type": "Sequence", "processors": [BYTES, PACKING]}, OBEYED),
    ("post_processor", {"type": "BertProcessing", "sep": ["[UNK]", 1], "cls": ["[MASK]", 4]}, OBEYED),
    ("post_processor", {"type": "RobertaProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2], **TRIM}, OBEYED),
    ("post_processor", {**PACKING, "single": PACKING["single"][1:]}, ["post_processor"]),
    ("post_processor", {**PACKING, "special_tokens": {}}, ["post_processor"]),
    *[
        (f"{place}{'.' * bool(place)}new_key", 1, ["new_key", "unknown"])
        for place in _KEYS
        if place not in ("added_tokens", "normalizer")
    ],
]
ROWS = {
    "WordPiece": [
        *ANY_MODEL,
        ("added_tokens", token("new york", new_key=1), ["added_tokens.new_key", "unknown"]),
        ("added_tokens", token("new york", single_word=True), ["new york", "single_word"]),
        ("added_tokens", token("new york", lstrip=True), ["new york", "lstrip"]),
        ("added_tokens", token("new york", rstrip=True), ["'new york'", "after it", "rstrip: True"]),
        ("added_tokens", token("new york", normalized=False), ["new york", "normalized"]),
        ("added_tokens", token("new york", special=True, normalized=False), OBEYED),
        ("added_tokens", token("[E1]", special=False, normalized=True), OBEYED),
        ("added_tokens", token("[E1]", single_word=True), ["E1", "single_word", "special_tokens_in_text"]),
        ("added_tokens", token("[E1]", normalized=True), ["E1", "normalized", "special_tokens_in_text"]),
        ("added_tokens", token("[MASK]", normalized=True), ["MASK", "normalized", "special_tokens_in_text"]),
        ("added_tokens", token("[E1]", lstrip=True, rstrip=True), WITHOUT_EFFECT),  # white space has no ids
        ("model.vocab", {word: index for index, word in enumerate(WORDS[:-3])}, ["ids", "0 to"]),
        ("model.unk_token", "[MASK]", OBEYED),
        ("model.continuing_subword_prefix", "@@", ["continuing tokens", "'@@'"]),
        ("model.max_input_chars_per_word", 3, OBEYED),
        ("model.dropout", 0.1, WITHOUT_EFFECT),  # this and the next keys are of other models
        ("normalizer", None, ["normalizes", None, "'BertNormalizer'"]),
        ("normalizer", {"type": "NFKC"}, ["normalizes", "'NFKC'"]),
        ("normalizer", {"type": "Prepend", "prepend": "▁"}, ["Prepend"]),
        ("normalizer", {**BERT, "new_key": 1}, ["normalizer.new_key", "unknown"]),
        ("normalizer", {"type": "Sequence", "normalizers": [BERT]}, WITHOUT_EFFECT),
        ("normalizer", {"type": "Sequence", "normalizers": [BERT, {"type": "Strip"}]}, ["Strip"]),
        ("normalizer.lowercase", False, OBEYED),
        ("normalizer.strip_accents", False, OBEYED),
        ("normalizer.handle_chinese_chars", False, OBEYED),
        ("normalizer.clean_text", False, ["control characters", "clean_text: False"]),
        ("pre_tokenizer", None, ["splits text", None, "'BertPreTokenizer'"]),
        ("pre_tokenizer", {"type": "WhitespaceSplit"}, ["splits", "'WhitespaceSplit'"]),
        ("pre_tokenizer", {"type": "Sequence", "pretokenizers": [{"type": "BertPreTokenizer"}]}, WITHOUT_EFFECT),
    ],
    "BPE": [
        *ANY_MODEL,
        ("added_tokens", token("new york", "BPE", lstrip=True), ["'new york'", "before it", "lstrip: True"]),
        ("added_tokens", token("new york", "BPE", special=True, normalized=False), OBEYED),
        ("added_tokens", token("[E1]", "BPE", special=False, normalized=True), OBEYED),
        ("added_tokens", token("[E1]", "BPE", lstrip=True), ["E1", "lstrip", "special_tokens_in_text"]),
        ("added_tokens", token("[E1]", "BPE", rstrip=True), ["E1", "rstrip", "special_tokens_in_text"]),
        ("added_tokens", token("[MASK]", "BPE", lstrip=True, normalized=True), WITHOUT_EFFECT),  # by NFC
        ("added_tokens", token("[MASK]", "BPE", lstrip=False), ["MASK", "lstrip", "special_tokens_in_text"]),
        ("model.merges", MERGES, WITHOUT_EFFECT),  # an older spelling
        ("model.dropout", 0.1, ["dropout", "0.1"]),
        ("model.unk_token", "[UNK]", WITHOUT_EFFECT),  # bytes cover all text; so with the next two
        ("model.fuse_unk", True, WITHOUT_EFFECT),
        ("model.byte_fallback", True, WITHOUT_EFFECT),
        ("model.ignore_merges", True, OBEYED),
        ("model.continuing_subword_prefix", "##", ["continuing tokens", "'##'"]),
        ("model.end_of_word_suffix", "</w>", ["ends of words", "'</w>'"]),
        ("normalizer", {"type": "NFC"}, OBEYED),
        ("normalizer", {"type": "NFC", "new_key": 1}, ["normalizer.new_key", "unknown"]),
        ("normalizer", {"type": "NFD"}, ["normalizes", "'NFD'"]),
        ("pre_tokenizer", None, ["splits text", None]),
        ("pre_tokenizer.add_prefix_space", True, OBEYED),
        ("pre_tokenizer.trim_offsets", False, WITHOUT_EFFECT),
        ("pre_tokenizer.use_regex", False, ["pattern", "use_regex: False"]),
        ("pre_tokenizer", {"type": "Sequence", "pretokenizers": LLAMA}, OBEYED),
        ("pre_tokenizer", {"type": "Sequence", "pretokenizers": [DIGITS, BYTES]}, OBEYED),
        (
            "pre_tokenizer",
            {"type": "Sequence", "pretokenizers": [{**DIGITS, "individual_digits": False}, BYTES]},
            ["Digits"],
        ),
        (
            "pre_tokenizer",
            {"type": "Sequence", "pretokenizers": [{**LLAMA[0], "behavior": "Removed", "invert": True}, LLAMA[1]]},
            OBEYED,
        ),
        (
            "pre_tokenizer",
            {"type": "Sequence", "pretokenizers": [{**LLAMA[0], "behavior": "Removed"}, LLAMA[1]]},
            ["behavior 'Removed'", "invert: False", "'Isolated'"],
        ),
        (
            "pre_tokenizer",
            {"type": "Sequence", "pretokenizers": [{**LLAMA[0], "pattern": {"Regex": r"\d|\D+"}}, LLAMA[1]]},
            ["pattern", r"{'Regex': '\\d|\\D+'}", "gpt2, digits, llama3"],
        ),
        (
            "pre_tokenizer",
            {"type": "Sequence", "pretokenizers": [{**LLAMA[0], "pattern": {"String": " "}}, LLAMA[1]]},
            ["pattern", "{'String': ' '}"],
        ),
        (
            "pre_tokenizer",
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
            ["splits", "'Metaspace'", "'ByteLevel'"],
        ),
    ],
    # XLM-RoBERTa's: the SentencePiece model decides, and the file must say the same.
    "Unigram": [
        *[row for row in ANY_MODEL if row[0] in ("version", "decoder", "truncation", "new_key", "truncation.new_key")],
        ("padding", {**PADDING, "pad_token": "<pad>"}, WITHOUT_EFFECT),
        ("padding", {**PADDING, "pad_token": "<mask>"}, ["padding.pad_token", "<mask>"]),
        ("model.type", "WordLevel", ["WordLevel"]),
        ("model.unk_id", 0, ["model.unk_id", 0]),
        ("model.byte_fallback", True, ["model.byte_fallback", True, False]),
        ("model.new_key", 1, ["new_key"]),
        ("post_processor", template(("<s>", 0), ("</s>", 2), 1, 0), ["post_processor"]),
        ("post_processor", None, ["post_processor", None]),
        ("normalizer", None, ["normalizer"]),
        ("normalizer", {"type": "NFKC"}, ["normalizer"]),
        ("normalizer.normalizers", lambda steps: [*steps, {"type": "Lowercase"}], ["normalizer"]),
        ("normalizer.normalizers", lambda steps: [{**steps[0], "new_key": 1}], ["new_key"]),
        ("pre_tokenizer", None, ["pre_tokenizer"]),
        (
            "pre_tokenizer.pretokenizers",
            lambda steps: [steps[0], {**steps[1], "prepend_scheme": "never"}],
            ["prepend_scheme", "'never'", "'always'"],
        ),
        ("pre_tokenizer.pretokenizers", lambda steps: [steps[0], {**steps[1], "split": False}], ["split"]),
        ("pre_tokenizer.pretokenizers", lambda steps: [steps[0], {**steps[1], "replacement": "_"}], ["replacement"]),
        ("pre_tokenizer.pretokenizers", lambda steps: [steps[0], {**steps[1], "str_rep": "▁"}], WITHOUT_EFFECT),
        ("added_tokens", lambda tokens: [*tokens, {**tokens[0], "content": "▁", "special": False}], ["added_tokens"]),
    ],
}


def changed(kind, place, value):
    content = copy.deepcopy(content_of(kind)[0])
    *keys, last = place.split(".")
    part = content
    for key in keys:
        part[key] = part = part.get(key) or {}
    part[last] = value(part.get(last)) if callable(value) else value
    return content


def write(directory, kind, content):
    """Writes a `tokenizer.json` alone, and beside vocabulary files."""
    config = {"tokenizer_class": "PreTrainedTokenizerFast"}
    ids = [each["id"] for each in content_of(kind)[0]["added_tokens"]]
    for name, others in {"alone": {}, "beside": content_of(kind)[1]}.items():
        (directory / name).mkdir()
        texts = {"tokenizer.json": json.dumps(content), "tokenizer_config.json": json.dumps(config), **others}
        for file, text in texts.items():
            (directory / name / file).write_bytes(text if isinstance(text, bytes) else text.encode())
        write_config(
            directory / name / "config.json",
            dataclasses.replace(small.CONFIG, vocab_size=max(ids) + 1, max_positions=512),
        )
    return directory / "alone", directory / "beside"


def config_of(directory):
    """A tokenizer's configuration without a SentencePiece model, which is rebuilt from `tokenizer.json`."""
    return load_tokenizer(directory).get_config() | {"model_file": None}


@functools.cache
def unchanged_config(kind):
    with tempfile.TemporaryDirectory() as directory:
        return config_of(write(Path(directory), kind, content_of(kind)[0])[1])


def ids_and_types(preprocessor):
    packed = preprocessor((TEXTS, TEXTS[::-1]))
    ids, types, mask = (np.asarray(packed[f"input_{name}"]) for name in ("word_ids", "type_ids", "mask"))
    return [[row[:length].tolist() for row, length in zip(each, mask.sum(1), strict=True)] for each in (ids, types)]


def library_ids_and_types(content, special_tokens_in_text):
    tokenizer = library.Tokenizer.from_str(json.dumps(content))
    tokenizer.encode_special_tokens = not special_tokens_in_text
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encoded = tokenizer.encode_batch([*zip(TEXTS, TEXTS[::-1], strict=True)])
    return [[each.ids for each in encoded], [each.type_ids for each in encoded]]


@pytest.mark.parametrize(("kind", "place", "value", "verdict"), [(kind, *row) for kind in ROWS for row in ROWS[kind]])
def test_every_setting(kind, place, value, verdict, tmp_path):
    content = changed(kind, place, value)
    directories = write(tmp_path, kind, content)
    if isinstance(verdict, list):
        flag = "special_tokens_in_text" in verdict
        for directory in directories:
            with error_names(ValueError, directory, *verdict):
                load_tokenizer(directory, special_tokens_in_text=flag)
            if not flag:  # it follows the flags of special tokens
                with error_names(ValueError, directory, *verdict):
                    ArrayPreprocessor.from_preset(directory)
        return
    configs = [config_of(directory) for directory in directories]
    assert configs[0] == configs[1]
    assert (configs[0] == unchanged_config(kind)) == (verdict == WITHOUT_EFFECT)
    for flag in (False, True) if place == "added_tokens" else (False,):
        expected = library_ids_and_types(content, flag)
        if verdict == WITHOUT_EFFECT:
            assert expected == library_ids_and_types(content_of(kind)[0], flag)
            continue
        tokenizer = load_tokenizer(directories[0], special_tokens_in_text=flag)
        assert ids_and_types(BertPreprocessor(tokenizer, sequence_length=None)) == expected
        without_tensorflow = ArrayPreprocessor.from_preset(directories[1], flag, sequence_length=None)
        assert ids_and_types(without_tensorflow) == expected


# Of steps that must be as the model says: they are compared whole.
COMPARED = {"precompiled_charsmap", "pattern", "content", "strip_left", "strip_right", "replacement", "prepend_scheme"}
COMPARED |= {"split", "str_rep", "prepend"}


def keys_in(value):
    """The keys of all objects in a value."""
    if isinstance(value, list):
        return set().union(*map(keys_in, value))
    return {*value}.union(*map(keys_in, value.values())) if isinstance(value, dict) else set()


def test_the_table_has_every_key():
    rows = [row for kind in ROWS for row in ROWS[kind]]
    for part, keys in _KEYS.items():
        named = {place.removeprefix(f"{part}.") for place, _, _ in rows}
        in_values = set().union(*(keys_in(value) for place, value, _ in rows if place.split(".")[0] == part))
        assert {*keys.split()} <= named | in_values | COMPARED | {place.split(".")[0] for place, _, _ in rows}


# -- transformers 5 makes some classes of the vocabulary alone. Of RoBERTa, so do we, with a warning; of BERT, where
# programs differ, a file that says something else is refused.

ROBERTA = [
    ("normalizer", {"type": "NFC"}, "normalization 'NFC'"),
    ("normalizer", {"type": "NFKC"}, "NFKC"),
    ("pre_tokenizer.add_prefix_space", True, "add_prefix_space True"),
    ("pre_tokenizer", {"type": "Sequence", "pretokenizers": LLAMA}, "split 'llama3'"),
    ("post_processor", PACKING, "separators 1"),
    ("model.ignore_merges", True, "ignore_merges True"),
]
NAMES = {f"{token[1:-1].lower()}_token": token for token in small.SPECIAL}


def rewrite(directory, **config):
    (directory / "tokenizer_config.json").write_text(json.dumps(config))


@pytest.mark.parity
@pytest.mark.parametrize(("place", "value", "named"), ROBERTA)
def test_robertas_file_is_followed_as_transformers_follows_it(place, value, named, tmp_path, auto_tokenizer):
    for directory in write(tmp_path, "BPE", changed("BPE", place, value)):
        rewrite(directory, tokenizer_class="RobertaTokenizer", **NAMES)
        theirs = auto_tokenizer(directory, split_special_tokens=True)
        with warning_names(directory / "tokenizer.json", "RobertaTokenizer", named):
            ours = BertPreprocessor(load_tokenizer(directory), sequence_length=None)
        encoded = theirs(TEXTS, TEXTS[::-1], return_token_type_ids=True)
        assert ids_and_types(ours) == [encoded["input_ids"], encoded["token_type_ids"]]


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("normalizer.lowercase", False, ["do_lower_case True", "do_lower_case False"]),
        ("normalizer.strip_accents", False, ["strip_accents None", "strip_accents False"]),
        ("normalizer.handle_chinese_chars", False, ["tokenize_chinese_chars True"]),
        ("model.max_input_chars_per_word", 50, ["max_input_chars_per_word 100", "max_input_chars_per_word 50"]),
        ("post_processor", template(CLS, SEP, 2, 1), ["post_processor", "separators=2"]),
        ("post_processor", PACKING, ["post_processor", "second_type_id=0"]),
    ],
)
def test_a_file_that_berts_class_contradicts_is_refused(place, value, words, tmp_path):
    base = changed("WordPiece", "post_processor", template(CLS, SEP, 1, 1))
    (tmp_path / "base").mkdir()
    for directory in write(tmp_path / "base", "WordPiece", base):
        rewrite(directory, tokenizer_class="BertTokenizer")
        assert load_tokenizer(directory).max_chars_per_word == 100
        rewrite(directory, max_input_chars_per_word=200)  # as this package wrote it once: transformers does not read it
        assert load_tokenizer(directory).max_chars_per_word == 100
    content = base | {"post_processor": value} if place == "post_processor" else changed("WordPiece", place, value)
    content["post_processor"] = value if place == "post_processor" else base["post_processor"]
    for directory in write(tmp_path, "WordPiece", content):
        for config in ({"tokenizer_class": "BertTokenizer"}, {}):  # the class of config.json's model_type
            rewrite(directory, **config)
            with error_names(ValueError, directory, "BertTokenizer", "trained", *words):
                load_tokenizer(directory)

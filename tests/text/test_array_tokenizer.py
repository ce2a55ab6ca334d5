"""Tokenizers of every kind: without TensorFlow, and in transformers, they find what those in the graph find."""

import bisect
import json
import re

import pytest
import tensorflow as tf

from keras_bert import BertPreprocessor
from keras_bert.formats import Preset
from keras_bert.tasks.masked_lm import _texts_of_tokens
from keras_bert.text import SentencePieceTokenizer, load_tokenizer
from keras_bert.text.arrays.tokenizer import array_tokenizer

from ..support.kinds import HOSTILE, KINDS
from ..support.messages import error_names
from ..support.tokenization import random_texts
from .test_sentencepiece import OPTION_TEXTS, OPTIONS, trained

pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("untraced_module")]


@pytest.fixture(scope="module", params=KINDS)
def kind(request, small_preset, tmp_path_factory):
    """A tokenizer in the graph, the same without TensorFlow, and texts that get the same ids from both."""
    unlike = KINDS[request.param][1]
    texts = [text for text in HOSTILE if not re.search(unlike or "$^", text)]
    return *read_both(KINDS[request.param][0](), small_preset, tmp_path_factory.mktemp(request.param)), texts


def read_both(tokenizer, small_preset, directory, special_tokens_in_text=False):
    config = json.loads((small_preset / "config.json").read_text()) | {"vocab_size": tokenizer.vocabulary_size}
    (directory / "config.json").write_text(json.dumps(config))
    tokenizer.save_preset(directory)
    with Preset.open(directory) as preset:
        theirs = array_tokenizer(preset.tokenizer_files, special_tokens_in_text)
    return load_tokenizer(directory, special_tokens_in_text=True) if special_tokens_in_text else tokenizer, theirs


def test_the_same_vocabulary(kind):
    ours, theirs, _ = kind
    for name in ("vocabulary", "special_tokens", "special_ids", "pair_format", "special_tokens_in_text"):
        assert getattr(theirs, name) == getattr(ours, name), name
    for name in ("unk", "cls", "sep", "pad", "mask"):
        assert getattr(theirs, f"{name}_token_id") == getattr(ours, f"{name}_token_id")
    assert theirs.token_texts() == _texts_of_tokens(ours)


def test_the_same_ids(kind):
    ours, theirs, texts = kind
    assert theirs.tokenize(texts) == ours.tokenize(texts).to_list()


# What transformers does otherwise than a SentencePiece model: it drops U+0085, splits at U+001C to U+001F and U+000B as
# SentencePiece, not Python, does, strips every kind of mark, makes " of two ', normalizes letters with marks by the
# cluster, and finds the names of bytes in texts.
DIFFERENT = re.compile("[\0\x0b\x1c-\x1f\x85\u200b]|\u0301b|\u20e3|``|\\'\\'|[\u0900-\u0dff\u0e00-\u0e7f]|<0x")


def test_transformers_reads_what_is_saved(kind, tmp_path, auto_tokenizer):
    """Texts and pairs of them. It finds special tokens in all texts."""
    ours, _, texts = kind
    ours.save_preset(tmp_path)
    theirs = auto_tokenizer(tmp_path)
    texts = [text for text in texts if not any(ours.vocabulary[i] in text for i in ours.special_ids)]
    if isinstance(ours, SentencePieceTokenizer):
        texts = [text for text in texts if not DIFFERENT.search(text)]
    assert len(texts) > 200
    assert theirs(texts, add_special_tokens=False)["input_ids"] == ours.tokenize(texts).to_list()
    packed = BertPreprocessor(ours, sequence_length=40)((["hello world"], ["so it is"]))
    pair = theirs(["hello world"], ["so it is"], padding="max_length", max_length=40, return_token_type_ids=True)
    names = {"input_word_ids": "input_ids", "input_mask": "attention_mask", "input_type_ids": "token_type_ids"}
    assert {name: packed[ours].numpy().tolist() for ours, name in names.items()} == {**pair}


def test_the_same_ids_of_words(kind):
    ours, theirs, texts = kind
    words = [text.split(" ") for text in texts[:150]]
    words = [[word for word in row if len(word) < 100] for row in words] + [[], ["\u200b", "\0", "", " a"]]
    assert theirs.tokenize_words(words) == ours.tokenize_words(tf.ragged.constant(words)).to_list()


def test_bad_texts(kind):
    _, theirs, _ = kind
    with error_names(TypeError, "text 1", 7, "int", "not a str"):
        theirs.tokenize(["a", 7])
    with error_names(ValueError, "text 1", "lone surrogate", "character 2"):
        theirs.tokenize(["a", "bc\ud800"])


def characters(text, start, end):
    """A span of bytes as a span of the characters that it touches, as `heads.spans.character_spans`."""
    begins = [len(text[:i].encode()) for i in range(len(text))]
    first = bisect.bisect_left(begins, start) if start == end else bisect.bisect_right(begins, start) - 1
    return first, bisect.bisect_left(begins, end)


def check_offsets(ours, theirs, texts):
    expected = (each.to_list() for each in ours.tokenize_with_offsets(texts))
    for text, found, ids, *spans in zip(texts, theirs.tokenize_with_offsets(texts), *expected, strict=True):
        spans = [characters(text, *span) for span in zip(*spans, strict=True)]
        assert (found.ids, [*zip(found.starts, found.ends, strict=True)]) == (ids, spans), ascii(text)


def test_the_same_offsets(kind):
    ours, theirs, texts = kind
    check_offsets(ours, theirs, [text for text in texts if len(text) < 700])


def test_offsets_where_ids_differ(kind):
    _, theirs, _ = kind
    for text, (ids, starts, ends) in zip(HOSTILE, theirs.tokenize_with_offsets(HOSTILE), strict=True):
        assert len(ids) == len(starts) == len(ends)
        assert [*starts] == sorted(starts), ascii(text)
        assert all(0 <= start <= end <= len(text) for start, end in zip(starts, ends, strict=True)), ascii(text)


SENTENCEPIECE = ["albert", "albert-transformers", "xlm-roberta", "deberta-v2"]
MARKERS = [
    " ",
    "a",
    "<mask>",
    "[MASK]",
    "  <mask>",
    "<s>",
    "[SEP] ",
    "é",
    "e\u0301",
    "|||",
    "né",
    "ne\u0301",
    "日",
    "\n",
]


@pytest.mark.parametrize("name", ["wordpiece", "gpt2", "spaced", "modernbert", "llama3", *SENTENCEPIECE])
def test_the_same_offsets_with_special_tokens_in_texts(name, small_preset, tmp_path):
    ours, theirs = read_both(KINDS[name][0](), small_preset, tmp_path, special_tokens_in_text=True)
    texts = [text for text in random_texts(MARKERS, 60, 8) if not re.search(KINDS[name][1] or "$^", text)]
    check_offsets(ours, theirs, texts)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_same_offsets_of_any_model(options, small_preset, tmp_path):
    tokenizer = SentencePieceTokenizer(trained(**options), family="camembert")
    ours, theirs = read_both(tokenizer, small_preset, tmp_path)
    ids = zip(OPTION_TEXTS, ours.tokenize(OPTION_TEXTS).to_list(), theirs.tokenize(OPTION_TEXTS), strict=True)
    texts = [text for text, *rows in ids if rows[0] == rows[1]]  # TensorFlow Text chooses otherwise on a tie
    assert len(texts) > len(OPTION_TEXTS) - 3
    check_offsets(ours, theirs, texts)

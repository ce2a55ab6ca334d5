"""Tokenizers without TensorFlow: the ids, words and special tokens of those in the graph, of every kind."""

import bisect
import json
import re

import pytest
import tensorflow as tf

from keras_bert.formats import Preset
from keras_bert.tasks.masked_lm import _token_texts
from keras_bert.text import SentencePieceTokenizer, load_tokenizer
from keras_bert.text.array_tokenizer import array_tokenizer

from ..support.kinds import HOSTILE, KINDS
from ..support.messages import error_names
from ..support.tokenization import random_texts

pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("untraced_module")]


@pytest.fixture(scope="module", params=KINDS)
def kind(request, small_preset, tmp_path_factory):
    """A tokenizer in the graph, the same without TensorFlow, and texts that get the same ids from both."""
    unlike = KINDS[request.param][1]
    texts = [text for text in HOSTILE if not re.search(unlike or "$^", text)]
    return *read_both(request.param, small_preset, tmp_path_factory.mktemp("preset")), texts


def read_both(name, small_preset, directory, special_tokens_in_text=False):
    tokenizer = KINDS[name][0]()
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
    assert theirs.token_texts() == _token_texts(ours)


def test_the_same_ids(kind):
    ours, theirs, texts = kind
    assert theirs.tokenize(texts) == ours.tokenize(texts).to_list()


def test_the_same_ids_of_words(kind):
    ours, theirs, texts = kind
    words = [text.split(" ") for text in texts[:150]]
    words = [[word for word in row if len(word) < 100] for row in words] + [[], ["\u200b", "\0", "", " a"]]
    assert theirs.tokenize_words(words) == ours.tokenize_words(tf.ragged.constant(words)).to_list()


def test_a_lone_surrogate(kind):
    _, theirs, _ = kind
    with error_names(ValueError, "text 1", "lone surrogate", "character 2"):
        theirs.tokenize(["a", "bc\ud800"])


def characters(text, start, end):
    """A span of bytes as a span of the characters that it touches, as `heads.spans.character_spans`."""
    begins = [len(text[:i].encode()) for i in range(len(text))]
    first = bisect.bisect_left(begins, start) if start == end else bisect.bisect_right(begins, start) - 1
    return first, bisect.bisect_left(begins, end)


def test_the_same_offsets(kind):
    ours, theirs, texts = kind
    if isinstance(ours, SentencePieceTokenizer):
        pytest.skip("has the library's offsets")
    texts = [text for text in texts if len(text) < 700]
    expected = (each.to_list() for each in ours.tokenize_with_offsets(texts))
    for text, found, ids, *spans in zip(texts, theirs.tokenize_with_offsets(texts), *expected, strict=True):
        spans = [characters(text, *span) for span in zip(*spans, strict=True)]
        assert (found.ids, [*zip(found.starts, found.ends, strict=True)]) == (ids, spans), ascii(text)


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


@pytest.mark.parametrize("name", ["wordpiece", "spaced", "modernbert", "llama3"])
def test_the_same_offsets_with_special_tokens_in_texts(name, small_preset, tmp_path):
    ours, theirs = read_both(name, small_preset, tmp_path, special_tokens_in_text=True)
    texts = random_texts(MARKERS, 60, 8)
    ids, starts, ends = (each.to_list() for each in ours.tokenize_with_offsets(texts))
    for text, found, *row in zip(texts, theirs.tokenize_with_offsets(texts), ids, starts, ends, strict=True):
        spans = [characters(text, *span) for span in zip(*row[1:], strict=True)]
        assert (found.ids, [*zip(found.starts, found.ends, strict=True)]) == (row[0], spans), ascii(text)

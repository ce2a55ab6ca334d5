"""Tokenizers without TensorFlow: the ids, words and special tokens of those in the graph, of every kind."""

import json
import re

import pytest
import tensorflow as tf

from keras_bert.formats import Preset
from keras_bert.tasks.masked_lm import _token_texts
from keras_bert.text.array_tokenizer import array_tokenizer

from ..support.kinds import HOSTILE, KINDS
from ..support.messages import error_names

pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("untraced_module")]


@pytest.fixture(scope="module", params=KINDS)
def kind(request, small_preset, tmp_path_factory):
    """A tokenizer in the graph, the same without TensorFlow, and texts that get the same ids from both."""
    make, unlike = KINDS[request.param]
    ours, directory = make(), tmp_path_factory.mktemp("preset")
    config = json.loads((small_preset / "config.json").read_text()) | {"vocab_size": ours.vocabulary_size}
    (directory / "config.json").write_text(json.dumps(config))
    ours.save_preset(directory)
    with Preset.open(directory) as preset:
        theirs = array_tokenizer(preset.tokenizer_files)
    texts = [text for text in HOSTILE if not re.search(unlike or "$^", text)]
    return ours, theirs, texts


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

"""find_words without TensorFlow: the words that it finds in the graph, with the same table of characters."""

import random

import numpy as np
import pytest

from keras_bert.text import words
from keras_bert.text.arrays.words import corpus_kinds, find_words

from ..golden.make_character_kinds import kinds
from ..support.kinds import HOSTILE
from ..support.messages import error_names
from .test_words import TABLE


def check(texts):
    _, starts, ends = (each.to_list() for each in words.find_words(texts))
    expected = [[*zip(*row, strict=True)] for row in zip(starts, ends, strict=True)]
    for text, found, row in zip(texts, find_words(texts), expected, strict=True):
        assert found == row, ascii(text)


def test_the_same_words():
    assert [[text[slice(*span)] for span in row] for text, row in zip(TABLE, find_words([*TABLE]), strict=True)] == [
        *TABLE.values()
    ]
    check([*HOSTILE, *TABLE, "", *reversed(HOSTILE)])
    check([])
    check(["", ""])


@pytest.mark.slow
def test_the_same_words_of_any_characters():
    generator = random.Random(0)
    codes = [code for code in (*range(0x33480), *range(0xE0000, 0xE0300)) if not 0xD800 <= code < 0xE000]
    check(["".join(f"{chr(code)}a" for code in codes[i : i + 100]) for i in range(0, len(codes), 100)])
    check(["".join(map(chr, generator.choices(codes, k=generator.randrange(30)))) for _ in range(3000)])
    common = [*" .!'-a1\u0301\u200d日😀🏽\ufe0f$\n"]
    check(["".join(generator.choices(common, k=generator.randrange(20))) for _ in range(3000)])


def test_the_table_of_kinds_is_that_of_tensorflow():
    """An older TensorFlow than that of the table knows fewer characters."""
    known = words.kinds_of_characters(((1, r"[\p{L}\p{N}\p{M}\p{P}\p{S}\p{Z}\p{C}]"),), 0) == 1
    assert known.sum() > 130_000
    assert np.flatnonzero((corpus_kinds() != kinds()) & known).tolist() == []


def test_a_lone_surrogate():
    with error_names(ValueError, "text 1", "lone surrogate", "character 2"):
        find_words(["a", "bc\ud800"])

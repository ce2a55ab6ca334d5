"""MergeRules: the tokens of any bytes, and of words so long that they are cut into stretches."""

import random

import pytest
import tensorflow as tf

from keras_bert.text.bytepair import _STRETCH, MergeRules

from ..support.reference import bytepair as reference
from ..support.texts import SENTENCES

SYMBOLS = [reference.SYMBOLS[byte] for byte in range(256)]
UNITS = ["a", "ab", "aab", "é漢", "-=", "".join(chr(97 + i * i % 23) for i in range(50))]


def rules_of(merges):
    """The rules, and the name of each id."""
    tokens = [*dict.fromkeys([*SYMBOLS, *(a + b for a, b in merges)])]
    ids = {token: i for i, token in enumerate(tokens)}
    return MergeRules(merges, ids, [ids[symbol] for symbol in SYMBOLS]), tokens


def check(merges, rules, tokens, words):
    """Holds tokens to the reference."""
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    found = [[tokens[i] for i in row] for row in rules(tf.constant(words, tf.string)).to_list()]
    for word, row in zip(words, found, strict=True):
        assert row == reference.merge([reference.SYMBOLS[b] for b in word], ranks), word


@pytest.fixture(scope="module")
def learned():
    """Rules that make runs of many lengths."""
    texts = [(unit * 128)[:length] for unit in UNITS for length in (3 * len(unit), 95, 128)]
    merges = reference.train([*texts, *SENTENCES[:3]], 300)
    return merges, *rules_of(merges)


@pytest.mark.slow
def test_long_words(learned):
    """Windows begin wherever they may."""
    assert _STRETCH == 64
    lengths = (63, 64, 65, 95, 96, 97, 128, 129, 160, 161, 500)
    check(*learned, [(unit * length)[:length].encode() for unit in UNITS for length in lengths])


def test_any_bytes(learned):
    """Also those that no text has; long ones are cut into stretches."""
    generator = random.Random(0)
    words = [generator.randbytes(generator.randrange(300)) for _ in range(30)]
    words += ["".join(generator.choices("abh-the ", k=generator.randrange(300))).encode() for _ in range(30)]
    words += ["".join(generator.choices("漢字仮名交文日本語é", k=700)).encode()]
    check(*learned, [b"", *words, b"a"])


def test_merges_that_are_not_nested(untraced):
    """abc is made in two ways, and the parts of one rule come later: one pair is merged at a time."""
    merges = [("b", "c"), ("ab", "c"), ("a", "b"), ("a", "bc"), ("abc", "abc")]
    generator = random.Random(0)
    rules, tokens = rules_of(merges)
    check(merges, rules, tokens, ["".join(generator.choices("abc", k=k)).encode() for k in (1, 5, 100, 200)])
    rules, tokens = rules_of([("a", "b"), ("b", "c"), ("a", "b")])  # the last of equal rules counts, as in a dict
    assert [tokens[i] for i in rules(tf.constant(["abc"])).values] == ["a", "bc"]


def test_stretches_that_never_agree_grow(untraced):
    """A token longer than a stretch: both cuts have it nowhere."""
    merges = [("a" * 2**i, "a" * 2**i) for i in range(8)]
    check(merges, *rules_of(merges), [b"a" * 300, b"a" * 255, b"b" + b"a" * 400 + b"c"])

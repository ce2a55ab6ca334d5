"""Counts the words of a corpus, as WordPiece splits it, and their characters."""

import functools
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

LONGEST_WORD = 200  # characters; longer ones are unknown to WordPieceTokenizer
_MOST_WORDS = 2**21  # distinct words, some hundred megabytes; beyond it, the rarest are dropped


@functools.cache
def _splitter() -> tf_text.FastWordpieceTokenizer:
    """Splits text as WordPieceTokenizer does, with a vocabulary in which each word is one token or unknown."""
    return tf_text.FastWordpieceTokenizer(
        ["[UNK]", "a"], unknown_token="[UNK]", token_out_type=tf.int32, max_bytes_per_word=4 * LONGEST_WORD
    )


def words_of(normalized: tf.Tensor) -> list[str]:
    """The words of normalized texts, string `[batch]`, as WordPieceTokenizer splits them.

    Example:
        >>> words_of(tf.constant(["don't stop", "京都"]))
        ['don', "'", 't', 'stop', '京', '都']
    """
    with tf.device("CPU"):
        _, starts, ends = _splitter().tokenize_with_offsets(normalized)  # int64 [batch, (words)]
    rows = normalized.numpy()
    origins = np.repeat(np.cumsum([0, *map(len, rows[:-1])]), starts.row_lengths())
    data = b"".join(rows)
    places = zip((starts.values + origins).numpy().tolist(), (ends.values + origins).numpy().tolist(), strict=True)
    return [data[start:end].decode() for start, end in places]


def inside_words(chars: Sequence[str]) -> list[str]:
    """The characters that may be inside a word: not punctuation and CJK ideographs, which are words by themselves.

    Example:
        >>> inside_words(["a", "-", "é", "京"])
        ['a', 'é']
    """
    with tf.device("CPU"):
        lengths = _splitter().tokenize(tf.constant([f"a{char}" for char in chars])).row_lengths().numpy()
    return [char for char, length in zip(chars, lengths, strict=True) if length == 1]


def count(words: Counter, more: Iterable) -> None:
    """Adds words to the counts, and drops the rarest when there are too many."""
    words.update(more)
    rare = 1
    while len(words) > _MOST_WORDS:
        for word in [word for word, count in words.items() if count <= rare]:
            del words[word]
        rare *= 2


def alphabet(words: Counter[str], character_coverage: float) -> list[str]:
    """The characters of words, in ascending order, without the rarest beyond the coverage.

    Example:
        >>> alphabet(Counter({"cab": 99, "cob": 1}), 1.0), alphabet(Counter({"cab": 99, "cob": 1}), 0.99)
        (['a', 'b', 'c', 'o'], ['a', 'b', 'c'])
    """
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for char in word:
            counts[char] += count
    room = (1 - character_coverage) * sum(counts.values())
    for char in sorted(counts, key=lambda char: (counts[char], char)):
        room -= counts[char]
        if room < 0:
            break
        del counts[char]
    return sorted(counts)

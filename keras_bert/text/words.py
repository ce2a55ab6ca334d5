"""Splits texts into words in the graph: the words of tagged corpora, and those of GPT-2's and Llama 3's patterns.

RE2 has no look-ahead, and splits only 3 MB/s by such a pattern even if the look-ahead is left out. Here, the kinds of
neighbouring characters decide whether a word begins, for all characters of all texts at once.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_bert.formats.tokenizers.byte_pairs import SPLIT_PATTERNS, SplitPattern
from keras_bert.text.arrays.words import LETTER, NUMBER, OTHER, PLANE_4, SPACE, Operations, corpus_kinds, mark_words
from keras_bert.text.strings import (
    INVALID_UTF8,
    SPACES,
    as_strings,
    check_utf8,
    encode_characters,
    numbers_of,
    readable_errors,
    require,
)


@functools.cache
def kinds_of_characters(patterns: tuple[tuple[int, str], ...], other: int) -> np.ndarray:
    """Makes int8 `[0x40000]`: the kind of each character of planes 0 to 3, by TensorFlow's own version of Unicode."""
    # `patterns` has kinds and the regular expressions of their characters; the last that matches counts. All others are
    # of the kind `other`, as the last character of plane 3 must be, because it stands for those beyond.
    kinds = np.full(PLANE_4, other, np.int8)
    with tf.init_scope(), tf.device("CPU"):
        chars = encode_characters(np.arange(PLANE_4))
        for kind, pattern in patterns:
            kinds[tf.strings.regex_full_match(chars, pattern).numpy()] = kind
    return kinds


def _look_up_kinds(chars: tf.Tensor, kinds: np.ndarray) -> tf.Tensor:
    """Looks up the kind of each character in a table, int8 `[chars]`."""
    return tf.gather(kinds, tf.minimum(chars, PLANE_4 - 1))


# -- Runs of values, in the tensors of all texts laid end to end.


def begins_run(values: tf.Tensor) -> tf.Tensor:
    """Marks the first of each run of equal values, bool `[n]`."""
    return tf.concat([tf.ones_like(values[:1], tf.bool), values[1:] != values[:-1]], 0)


def find_run_starts(begins: tf.Tensor) -> tf.Tensor:
    """Finds the index at which each value's run begins, int64 `[n]`."""
    return tf.gather(tf.where(begins)[:, 0], tf.cumsum(tf.cast(begins, tf.int64)) - 1)


def shifted(values: tf.Tensor, by: int) -> tf.Tensor:
    """Moves each value by `by` places, to the right if positive, and fills with zeros or False."""
    zeros = tf.zeros([tf.minimum(abs(by), tf.size(values))], values.dtype)
    return tf.concat([zeros, values[:-by]] if by > 0 else [values[-by:], zeros], 0)


# -- The words of tagged corpora.

_TENSORFLOW = Operations(
    tf.where,
    tf.gather,
    lambda values, by: tf.roll(values, by, axis=0),
    lambda values: tf.cumsum(tf.cast(values, tf.int32)),
    lambda values: tf.where(values)[:, 0],
)


def find_words(texts: Sequence[str] | tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Finds the words of texts, string `[batch]`, in much the same way as corpora of tagged words.

    White space separates words. Punctuation and other signs (`$`, `+`, emoji) at the beginning or end of a word are
    separate words; a run of the same sign is one word. Signs inside a word are part of it: `don't`, `U.S`, `3.5`. Each
    CJK ideograph is a word, as in BERT's tokenization. Errors are those of `Tokenizer.tokenize`.

    Returns:
        `(words, starts, ends)`, string, int32, int32, each `[batch, (words)]`; `text[start:end]`, in characters, is the
        word.

    Example:
        >>> words, starts, ends = find_words(["Zoë (Paris)... 😀"])
        >>> [word.decode() for word in words[0].numpy()]
        ['Zoë', '(', 'Paris', ')', '...', '😀']
        >>> starts[0].numpy().tolist(), ends[0].numpy().tolist()
        ([0, 4, 5, 10, 11, 15], [3, 5, 10, 11, 14, 16])
    """
    texts = as_strings(texts)
    with tf.device("CPU"), readable_errors():
        batch = tf.size(texts, tf.int64)
        check_utf8(texts, tf.range(batch))
        codes = tf.strings.unicode_decode(texts, "UTF-8")  # [batch, (chars)]
        kinds = tf.cast(_look_up_kinds(codes.values, corpus_kinds()), tf.int32)
        in_word, begins = mark_words(codes.values, begins_run(codes.value_rowids()), kinds, _TENSORFLOW)
        chars = tf.where(in_word)[:, 0]  # [chars in words], indices of characters
        first = tf.where(tf.gather(begins, chars))[:, 0]  # [words], indices into `chars`
        splits = tf.concat([first, tf.size(chars, tf.int64)[None]], 0)
        words = tf.RaggedTensor.from_row_splits(tf.gather(codes.values, chars), splits, validate=False)
        place = tf.gather(chars, first)
        rows = tf.gather(codes.value_rowids(), place)
        starts = place - tf.gather(tf.cast(codes.row_starts(), tf.int64), rows)
        ends = starts + tf.cast(words.row_lengths(), tf.int64)
        columns = tf.strings.unicode_encode(words, "UTF-8"), tf.cast(starts, tf.int32), tf.cast(ends, tf.int32)
        return tuple(tf.RaggedTensor.from_value_rowids(each, rows, batch, validate=False) for each in columns)


# -- The words of byte pairs: the matches of GPT-2's and Llama 3's patterns.

_NO_CHARACTER = 0x10FFFF  # 4 bytes; it replaces at most 3 invalid bytes, so that a bad row gets longer
_BEHIND_SIGNS = 7  # another kind: line ends that belong to the signs before them
PATTERN_KINDS = ((LETTER, r"\p{L}"), (NUMBER, r"\p{N}"), (SPACE, SPACES))


def split_words(strings: tf.Tensor, rows: tf.Tensor | None = None, split: str = "gpt2") -> tf.RaggedTensor:
    """Splits texts into matches of a pattern, `[batch, (words)]`, without losing a byte; errors name `rows`."""
    codes = _decode(strings, rows)
    row_starts = codes.row_splits  # an empty row starts where the next one does, or past the end
    size = tf.size(codes.values, tf.int64)
    borders = tf.scatter_nd(row_starts[:, None], tf.ones_like(row_starts, tf.int32), [size + 1]) > 0
    kinds = _look_up_kinds(codes.values, kinds_of_characters(PATTERN_KINDS, OTHER))
    begins = _begin_words(_Characters(codes.values, borders[:-1], borders[1:], kinds), SPLIT_PATTERNS[split])  # [chars]
    words_before = tf.concat([[0], tf.cumsum(tf.cast(begins, tf.int64))], 0)  # [chars + 1]
    starts = tf.concat([tf.where(begins)[:, 0], size[None]], 0)
    words = tf.RaggedTensor.from_row_splits(codes.values, starts, validate=False)
    words = tf.strings.unicode_encode(words, "UTF-8")
    return tf.RaggedTensor.from_row_splits(words, tf.gather(words_before, codes.row_splits), validate=False)


def _decode(strings: tf.Tensor, rows: tf.Tensor | None) -> tf.RaggedTensor:
    """Decodes texts, int32 `[batch, (chars)]`, and checks that they are UTF-8."""
    codes = tf.strings.unicode_decode(strings, "UTF-8", errors="replace", replacement_char=_NO_CHARACTER)
    lengths = 1 + sum(tf.cast(codes.values > last, tf.int64) for last in (0x7F, 0x7FF, 0xFFFF))  # bytes, [chars]
    bytes_before = tf.concat([[0], tf.cumsum(lengths)], 0)
    row_bytes = tf.gather(bytes_before, codes.row_limits()) - tf.gather(bytes_before, codes.row_starts())
    bad = tf.where(row_bytes != tf.cast(tf.strings.length(strings), tf.int64))[:1, 0]
    require(tf.equal(tf.size(bad), 0), INVALID_UTF8, numbers_of(bad, rows))
    return codes


@dataclass(frozen=True)
class _Characters:
    """The characters of all rows, laid end to end. Each field is `[chars]`."""

    codes: tf.Tensor  # int32
    begins_row: tf.Tensor  # bool
    ends_row: tf.Tensor  # bool
    kinds: tf.Tensor  # int8

    def after_change(self, values: tf.Tensor) -> tf.Tensor:
        """Marks where a run of equal values, within a row, begins, bool `[chars]`."""
        return self.begins_row | (values != shifted(values, 1))

    def contractions(self, begins: tf.Tensor, capitals: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """Marks where `'s 't 'm 'd`, and where `'re 've 'll`, begin at one of `begins`: bool `[chars]` each."""
        first, second = shifted(self.codes, -1), shifted(self.codes, -2)

        def is_one_of(codes: tf.Tensor, letters: str) -> tf.Tensor:
            spellings = letters + letters.upper() + ("ſ" if "s" in letters else "") if capitals else letters
            return tf.reduce_any([codes == ord(letter) for letter in spellings], axis=0)

        apostrophe = begins & (self.codes == ord("'")) & ~self.ends_row
        long = (is_one_of(first, "rv") & is_one_of(second, "e")) | (is_one_of(first, "l") & is_one_of(second, "l"))
        return apostrophe & is_one_of(first, "stmd"), apostrophe & ~shifted(self.ends_row, -1) & long


def _begin_words(text: _Characters, pattern: SplitPattern) -> tf.Tensor:
    """Marks where words begin, bool `[chars]`: the first character of a run, unless it takes one before it."""
    # The last white space character before another word is a word by itself, or part of that word. An apostrophe that
    # begins a word forms a word with a following s, t, re, ve, m, ll or d.
    kinds, newline = text.kinds, tf.zeros_like(text.begins_row)
    if pattern.line_ends:
        newline = (text.codes == ord("\n")) | (text.codes == ord("\r"))
        behind_signs = shifted(kinds, 1) == OTHER
        # For each run of line ends, whether its first one follows signs.
        behind_signs = newline & tf.gather(behind_signs & ~text.begins_row, find_run_starts(text.after_change(newline)))
        kinds = tf.where(behind_signs, tf.constant(_BEHIND_SIGNS, kinds.dtype), kinds)
        newline &= ~behind_signs
    run_begins = text.after_change(kinds)
    run_ends = text.ends_row | shifted(run_begins, -1)
    last_space = (kinds == SPACE) & run_ends & ~text.ends_row
    after_space = (shifted(text.codes, 1) == ord(" ")) & ~text.begins_row
    one_sign = (kinds == OTHER) & run_begins & run_ends & ~after_space & ~text.ends_row
    short, long = text.contractions(one_sign, pattern.capitals)

    if pattern.spaces_before_digits:
        last_space &= shifted(kinds, -1) != NUMBER
    index, starts = tf.range(tf.size(kinds)), (kinds == SPACE) | ~after_space
    if pattern.line_ends:
        last_space &= ~newline
        run = tf.cumsum(tf.cast(run_begins, tf.int32)) - 1
        last_space |= index == 1 + tf.gather(tf.math.segment_max(tf.where(newline, index, -2), run), run)
        starts &= kinds != _BEHIND_SIGNS
    if pattern.letters_take_any:
        starts = tf.where(kinds == LETTER, ~shifted(last_space | (one_sign & ~(short | long)), 1), starts)
    begins = text.begins_row | last_space | (run_begins & starts)
    if pattern.digits is not None:
        place = index - tf.cast(find_run_starts(run_begins), tf.int32)
        begins = tf.where(kinds == NUMBER, place % pattern.digits == 0, begins)
    inside = shifted(short | long, 1)
    return (begins & ~inside) | shifted(short, 2) | shifted(long, 3)

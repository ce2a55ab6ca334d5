"""Splits texts into words by the patterns of GPT-2 and Llama 3.

RE2 has no look-ahead, and even without it splits only 3 MB/s by such a pattern. Here, the neighbours of each character
decide whether a word begins there, for all characters of all texts at once.
"""

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from keras_bert.text.normalization import INVALID_UTF8, PLANE_4, kinds_of_characters
from keras_bert.text.strings import SPACES, require

_NO_CHARACTER = 0x10FFFF  # 4 bytes; it replaces at most 3 invalid bytes, so that a bad row gets longer
OTHER, LETTER, NUMBER, SPACE = range(4)
_SELECTOR, _MORE_SELECTORS = 0xFE00, 0xE0100
_BEHIND_SIGNS = 4  # line ends that belong to the signs before them
KINDS = ((LETTER, r"\p{L}"), (NUMBER, r"\p{N}"), (SPACE, SPACES))


@dataclass(frozen=True)
class _Characters:
    """The characters of all rows laid end to end; each field is `[chars]`."""

    codes: tf.Tensor  # int32
    begins_row: tf.Tensor  # bool
    ends_row: tf.Tensor  # bool
    kinds: tf.Tensor  # int8

    def after_change(self, values: tf.Tensor) -> tf.Tensor:
        """bool `[chars]`: whether a run of equal values, within a row, begins at a character."""
        return self.begins_row | (values != _shifted(values, 1))

    def contractions(self, begins: tf.Tensor, capitals: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """bool `[chars]` each: whether `'s 't 'm 'd`, and whether `'re 've 'll`, begin at one of `begins`."""
        one, two = _shifted(self.codes, -1), _shifted(self.codes, -2)

        def is_one_of(codes: tf.Tensor, letters: str) -> tf.Tensor:
            spellings = letters + letters.upper() + ("ſ" if "s" in letters else "") if capitals else letters
            return tf.reduce_any([codes == ord(letter) for letter in spellings], axis=0)

        apostrophe = begins & (self.codes == ord("'")) & ~self.ends_row
        long = (is_one_of(one, "rv") & is_one_of(two, "e")) | (is_one_of(one, "l") & is_one_of(two, "l"))
        return apostrophe & is_one_of(one, "stmd"), apostrophe & ~_shifted(self.ends_row, -1) & long


@dataclass(frozen=True)
class SplitPattern:
    """A pattern whose matches are the words of a text."""

    begins: Callable[[_Characters], tf.Tensor]

    def __call__(self, strings: tf.Tensor, rows: tf.Tensor | None = None) -> tf.RaggedTensor:
        """Splits texts, string `[batch]`, into words, string `[batch, (words)]`; `rows` as for `split_words`."""
        codes = _decode(strings, rows)
        begins = self._begins_word(codes)
        words_before = tf.concat([[0], tf.cumsum(tf.cast(begins, tf.int64))], 0)  # [chars + 1]
        starts = tf.concat([tf.where(begins)[:, 0], tf.size(codes.values, tf.int64)[None]], 0)
        words = tf.RaggedTensor.from_row_splits(codes.values, starts, validate=False)
        words = tf.strings.unicode_encode(words, "UTF-8")
        return tf.RaggedTensor.from_row_splits(words, tf.gather(words_before, codes.row_splits), validate=False)

    def _begins_word(self, codes: tf.RaggedTensor) -> tf.Tensor:
        """bool `[chars]`, for all rows of int32 `[batch, (chars)]` laid end to end."""
        chars = codes.values
        starts = codes.row_splits  # an empty row starts where the next one does, or past the end
        at = tf.scatter_nd(starts[:, None], tf.ones_like(starts, tf.int32), [tf.size(chars, tf.int64) + 1]) > 0
        # Beyond plane 3, only variation selectors are in the table, and all are of one kind. Other
        # characters there have the last entry of the table.
        selects = (chars >= _MORE_SELECTORS) & (chars < _MORE_SELECTORS + 240)
        place = tf.where(selects, _SELECTOR, tf.minimum(chars, PLANE_4 - 1))
        kinds = tf.gather(kinds_of_characters(KINDS, other=OTHER), place)
        return self.begins(_Characters(chars, at[:-1], at[1:], kinds))


def _decode(strings: tf.Tensor, rows: tf.Tensor | None) -> tf.RaggedTensor:
    """int32 `[batch, (chars)]`."""
    codes = tf.strings.unicode_decode(strings, "UTF-8", errors="replace", replacement_char=_NO_CHARACTER)
    lengths = 1 + sum(tf.cast(codes.values > last, tf.int64) for last in (0x7F, 0x7FF, 0xFFFF))  # bytes, [chars]
    bytes_before = tf.concat([[0], tf.cumsum(lengths)], 0)
    row_bytes = tf.gather(bytes_before, codes.row_limits()) - tf.gather(bytes_before, codes.row_starts())
    bad = tf.where(row_bytes != tf.cast(tf.strings.length(strings), tf.int64))[:1, 0]
    require(tf.equal(tf.size(bad), 0), INVALID_UTF8, bad if rows is None else tf.gather(rows, bad))
    return codes


def _gpt2(text: _Characters) -> tf.Tensor:
    """Words are runs of letters, of numbers, of white space, or of anything else.

    The last white space before something else is a word, or part of the next word if it is a space. An apostrophe that
    begins a word forms a word with a following s, t, re, ve, m, ll or d.
    """
    kinds = text.kinds
    last_space = (_shifted(kinds, -1) != SPACE) & ~text.ends_row
    after_space = tf.where(kinds == SPACE, last_space, _shifted(text.codes, 1) != ord(" "))
    before = _shifted(kinds, 1)
    begins = text.begins_row | tf.where(before == SPACE, after_space, kinds != before)
    return _with_contractions(begins, *text.contractions(begins, capitals=False))


def _llama3(text: _Characters) -> tf.Tensor:
    """Words are runs, as for GPT-2, but:

    - numbers have at most three digits;
    - white space ends with its last line end, and the rest is another word;
    - letters include the white space character before them, unless it ends a line; or the sign before them, unless a
      space is before that sign;
    - signs include the space before them, and the line ends after them;
    - contractions may have capitals.
    """
    newline = (text.codes == ord("\n")) | (text.codes == ord("\r"))
    behind_signs = _shifted(text.kinds, 1) == OTHER
    # For each run of line ends, whether its first one follows signs.
    behind_signs = newline & tf.gather(behind_signs & ~text.begins_row, _first_of_runs(text.after_change(newline)))
    kinds = tf.where(behind_signs, tf.constant(_BEHIND_SIGNS, text.kinds.dtype), text.kinds)
    newline &= ~behind_signs

    run_begins = text.after_change(kinds)
    run_ends = text.ends_row | _shifted(run_begins, -1)
    index = tf.range(tf.size(kinds))
    run = tf.cumsum(tf.cast(run_begins, tf.int32)) - 1
    last_line_end = tf.gather(tf.math.segment_max(tf.where(newline, index, -2), run), run)
    place = index - tf.cast(_first_of_runs(run_begins), tf.int32)

    last_space = (kinds == SPACE) & run_ends & ~text.ends_row & ~newline
    after_space = (_shifted(text.codes, 1) == ord(" ")) & ~text.begins_row
    one_sign = (kinds == OTHER) & run_begins & run_ends & ~after_space & ~text.ends_row
    short, long = text.contractions(one_sign, capitals=True)
    joins_letters = _shifted(last_space | (one_sign & ~(short | long)), 1)
    begins = (
        text.begins_row
        | (run_begins & (kinds == SPACE))
        | (last_space | (index == last_line_end + 1))
        | (run_begins & (kinds == OTHER) & ~after_space)
        | (run_begins & (kinds == LETTER) & ~joins_letters)
        | ((kinds == NUMBER) & (place % 3 == 0))
    )
    return _with_contractions(begins, short, long)


def _with_contractions(begins: tf.Tensor, short: tf.Tensor, long: tf.Tensor) -> tf.Tensor:
    inside = _shifted(short | long, 1)
    behind = _shifted(short, 2) | _shifted(long, 3)
    return (begins & ~inside) | behind


def _first_of_runs(begins: tf.Tensor) -> tf.Tensor:
    """int64 `[chars]`: where the run of each character begins."""
    return tf.gather(tf.where(begins)[:, 0], tf.cumsum(tf.cast(begins, tf.int64)) - 1)


def _shifted(values: tf.Tensor, by: int) -> tf.Tensor:
    """Moves each value by `by` places, and fills with zeros or False."""
    zeros = tf.zeros([tf.minimum(abs(by), tf.size(values))], values.dtype)
    return tf.concat([zeros, values[:-by]] if by > 0 else [values[-by:], zeros], 0)


# Names of patterns -> string `[batch]`, rows -> string `[batch, (words)]`.
SPLITS: dict[str, Callable[[tf.Tensor, tf.Tensor | None], tf.RaggedTensor]] = {
    "gpt2": SplitPattern(_gpt2),
    "llama3": SplitPattern(_llama3),
}

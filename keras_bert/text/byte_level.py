"""Splits text into words as GPT-2 and RoBERTa do, before byte pairs are merged; bytes as printable symbols."""

import tensorflow as tf

from keras_bert.text.normalization import INVALID_UTF8, PLANE_4, SPACES, kinds_of_characters
from keras_bert.text.strings import require

_OTHER, _LETTER, _NUMBER, _SPACE = range(4)
_PATTERNS = ((_LETTER, r"\p{L}"), (_NUMBER, r"\p{N}"), (_SPACE, SPACES))
_NO_CHARACTER = 0x10FFFF  # 4 bytes; it replaces at most 3 invalid ones, so that a bad row gets longer


def byte_symbols() -> list[str]:
    """The printable character that stands for each of the 256 bytes in vocabularies and merges.

    Printable Latin-1 characters stand for themselves, the other 68 bytes are, in order, the characters from U+0100 on.

    Example:
        >>> [byte_symbols()[byte] for byte in (0, 10, 32, 65, 255)]
        ['Ā', 'Ċ', 'Ġ', 'A', 'ÿ']
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def split_words(strings: tf.Tensor, rows: tf.Tensor | None = None) -> tf.RaggedTensor:
    """Splits texts, string `[batch]`, into words, string `[batch, (words)]`, without losing a byte.

    The words are the matches of this pattern of GPT-2's encoder (Radford et al. 2019):

        's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+

    RE2 has no look-ahead, and takes 0.3 s per MB without it. Instead, the characters beside each character tell whether
    a word begins there, for all characters at once:
    - words are runs of letters, of numbers, of white space, or of anything else;
    - the last white space before something else is a word, or part of the next word if it is a space;
    - an apostrophe that begins a word forms a word with s, t, re, ve, m, ll or d behind it.

    Raises:
        ValueError (in a graph, tf.errors.InvalidArgumentError): a row is not valid UTF-8. The message has the row's
            number in `rows` (int64 `[batch]`), by default its position in the batch.

    Example:
        >>> split_words(tf.constant(["I'll  pay 5€\\n"])).to_list()
        [[b'I', b"'ll", b' ', b' pay', b' 5', b'\\xe2\\x82\\xac', b'\\n']]
    """
    codes = _decode(strings, rows)
    begins = _begins_word(codes)
    words_before = tf.concat([[0], tf.cumsum(tf.cast(begins, tf.int64))], 0)  # [chars + 1]
    starts = tf.concat([tf.where(begins)[:, 0], tf.size(codes.values, tf.int64)[None]], 0)
    words = tf.strings.unicode_encode(tf.RaggedTensor.from_row_splits(codes.values, starts, validate=False), "UTF-8")
    return tf.RaggedTensor.from_row_splits(words, tf.gather(words_before, codes.row_splits), validate=False)


def _decode(strings: tf.Tensor, rows: tf.Tensor | None) -> tf.RaggedTensor:
    """int32 `[batch, (chars)]`."""
    codes = tf.strings.unicode_decode(strings, "UTF-8", errors="replace", replacement_char=_NO_CHARACTER)
    lengths = 1 + sum(tf.cast(codes.values > last, tf.int64) for last in (0x7F, 0x7FF, 0xFFFF))  # bytes, [chars]
    bytes_before = tf.concat([[0], tf.cumsum(lengths)], 0)
    row_bytes = tf.gather(bytes_before, codes.row_limits()) - tf.gather(bytes_before, codes.row_starts())
    bad = tf.where(row_bytes != tf.cast(tf.strings.length(strings), tf.int64))[:1, 0]
    require(tf.equal(tf.size(bad), 0), INVALID_UTF8, bad if rows is None else tf.gather(rows, bad))
    return codes


def _begins_word(codes: tf.RaggedTensor) -> tf.Tensor:
    """bool `[chars]`, for all rows laid end to end."""
    chars = codes.values
    size = tf.size(chars, tf.int64)
    starts = codes.row_splits  # an empty row starts where the next one does, or past the end
    begins_row = tf.scatter_nd(starts[:, None], tf.ones_like(starts, tf.int32), [size + 1]) > 0  # [chars + 1]
    ends_row, begins_row = begins_row[1:], begins_row[:-1]
    # Beyond plane 3, there are no letters, numbers or spaces: those characters have the last entry of the table.
    kind = tf.gather(kinds_of_characters(_PATTERNS, other=_OTHER), tf.minimum(chars, PLANE_4 - 1))
    before, after = _shifted(kind, 1), _shifted(kind, -1)

    last_space = (after != _SPACE) & ~ends_row
    after_space = tf.where(kind == _SPACE, last_space, _shifted(chars, 1) != ord(" "))
    begins = begins_row | tf.where(before == _SPACE, after_space, kind != before)

    one, two = _shifted(chars, -1), _shifted(chars, -2)  # the next characters, and whether they are in this row
    two_in_row = ~ends_row
    three_in_row = two_in_row & ~_shifted(ends_row, -1)
    apostrophe = begins & (chars == ord("'"))
    short = apostrophe & two_in_row & tf.reduce_any([one == ord(char) for char in "stmd"], axis=0)
    long = ((one == ord("r")) | (one == ord("v"))) & (two == ord("e")) | (one == ord("l")) & (two == ord("l"))
    long &= apostrophe & three_in_row
    inside = _shifted(short | long, 1)
    behind = _shifted(short, 2) | _shifted(long, 3)
    return (begins & ~inside) | behind


def _shifted(values: tf.Tensor, by: int) -> tf.Tensor:
    """Moves each value by `by` places, and fills with zeros or False."""
    zeros = tf.zeros([tf.minimum(abs(by), tf.size(values))], values.dtype)
    return tf.concat([zeros, values[:-by]] if by > 0 else [values[-by:], zeros], 0)

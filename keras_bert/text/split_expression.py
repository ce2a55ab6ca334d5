"""Splits texts into words by a regular expression, for patterns that need more than neighbouring characters."""

import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.text.normalization import SPACES, check_utf8

_SPACE = SPACES[1:-1]
_BLANK = _SPACE.replace(r"\t-\r", r"\t\x{b}\x{c}")  # no end of line
# RE2 has no look-ahead, as in `\s+(?!\S)`. Instead, this mark is put before the last character of white space.
_MARK, _LIKE_MARK = "\U0010ffff", "\U0010fffe"
_BEFORE_LAST_SPACE = f"([{_SPACE}])([{_BLANK}][^{_SPACE}])"

_BEFORE_LETTERS = rf"[^\r\n\p{{L}}\p{{N}}{_MARK}]?"
_UPPER, _LOWER = (rf"[\p{{{case}}}\p{{Lm}}\p{{Lo}}\p{{M}}]" for case in (r"Lu}\p{Lt", "Ll"))
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_O200K = (
    f"{_BEFORE_LETTERS}{_UPPER}*{_LOWER}+{_CONTRACTION}|{_BEFORE_LETTERS}{_UPPER}+{_LOWER}*{_CONTRACTION}"
    rf"|\p{{N}}{{1,3}}| ?[^{_SPACE}\p{{L}}\p{{N}}{_MARK}]+[\r\n/]*|[{_SPACE}]*[\r\n]+|[{_SPACE}]+"
)


def split_o200k(strings: tf.Tensor, rows: tf.Tensor | None = None) -> tf.RaggedTensor:
    """Splits texts, string `[batch]`, into words, string `[batch, (words)]`; `rows` as for `split_words`.

    Words begin with capitals and include their contractions; otherwise they are Llama 3's. (This pattern takes three
    times as long as the others.)
    """
    check_utf8(strings, tf.range(tf.size(strings, tf.int64)) if rows is None else rows)
    marked = strings
    # The operation ends a text at U+0000. Characters of the same kind and length replace these.
    for character, instead in ((r"\x00", "\x01"), (_MARK, _LIKE_MARK)):
        marked = tf.strings.regex_replace(marked, character, instead)
    marked = tf.strings.regex_replace(marked, _BEFORE_LAST_SPACE, rf"\1{_MARK}\2")
    words = tf_text.regex_split_with_offsets(marked, _O200K, "(?s).*")[0]  # [batch, (words and marks)]
    words = tf.ragged.boolean_mask(words, words != _MARK)
    lengths = tf.strings.length(words.values)
    ends = tf.cumsum(lengths)
    row = words.value_rowids()
    row_ends = tf.cumsum(tf.strings.length(strings))
    starts = ends - lengths - tf.gather(row_ends - tf.strings.length(strings), row)
    return words.with_values(tf.strings.substr(tf.gather(strings, row), starts, lengths))

"""BERT's text cleaning in the TensorFlow graph, and a map from normalized bytes to original bytes."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.text.strings import require

_VALID_UTF8 = r"[\x{0}-\x{D7FF}\x{E000}-\x{10FFFF}]*"
# Unicode's white space. RE2's \s is only ASCII's.
SPACES = r"[\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
INVALID_UTF8 = "not valid UTF-8 (read the text with its own encoding, or with errors=replace): the text in row"
# Google's clean_text removes U+0000, U+FFFD, and categories Cc and Cf, except tab, line feed and carriage return.
_REMOVED = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x{9f}\p{Cf}\x{fffd}"
_CJK_IDEOGRAPHS = r"\x{4e00}-\x{9fff}"

# The table of contributed bytes has planes 0 to 2 and the start of plane 14 (tags and variation selectors). All other
# characters have 4 bytes and do not change.
_PLANE_3, _PLANE_14, _PLANE_14_END = 0x30000, 0xE0000, 0xE1000
PLANE_4 = 0x40000  # tables of kinds have planes 0 to 3


@dataclass(frozen=True)
class BertNormalizer:
    """Removes control characters, lower-cases and strips accents, as `BasicTokenizer` of the original BERT does.

    The order is the original's: `lower()` (no case folding; final sigma has its own small form), then canonical
    decomposition (NFD, not NFKC), then nonspacing marks (category Mn) are dropped.

    Args:
        lowercase: whether to lower-case.
        strip_accents: whether to decompose and drop the marks.
        split_on_cjk, max_chars_per_word: the tokenizer's rules for words, used by `plain_rows`.

    Example:
        >>> BertNormalizer(lowercase=True, strip_accents=True)(tf.constant(["Crème BRÛLÉE"]))[0].numpy()
        array([b'creme brulee'], dtype=object)
    """

    lowercase: bool
    strip_accents: bool
    split_on_cjk: bool = True
    max_chars_per_word: int = 200

    def plain_rows(self, strings: tf.Tensor) -> tf.Tensor:
        """bool `[batch]`: whether a row has only ASCII, typographic quotes and dashes, and CJK ideographs.

        In such a row, normalization changes only capitals, and no ASCII word is over the limit. Most rows of English or
        Chinese text are plain, and skip the Unicode steps.
        """
        separators = r"\t\n\r -/:-@\[-`{-~\x{2010}-\x{2027}\x{2030}-\x{2043}\x{2045}-\x{2051}\x{2053}-\x{205e}"
        separators += _CJK_IDEOGRAPHS if self.split_on_cjk else ""
        word = f"[0-9A-Za-z]{{0,{min(self.max_chars_per_word, 1000)}}}"  # RE2 counts to 1000
        return tf.strings.regex_full_match(strings, f"(?:{word}[{separators}]+)*{word}")

    def __call__(self, strings: tf.Tensor, rows: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Normalizes string `[batch]`, and returns it with bool `[batch]`, its `plain_rows`.

        Raises:
            ValueError (in a graph, tf.errors.InvalidArgumentError): a row is not valid UTF-8. The message has the row's
                number in `rows` (int64 `[batch]`), by default its position in the batch.
        """
        plain = self.plain_rows(strings)
        # ASCII is lowered first and without ICU, which would follow the locale: a Turkish one makes I a dotless ı.
        lowered = tf.strings.lower(strings) if self.lowercase else strings
        return normalize_unless(plain, lowered, lowered, rows, self._normalize), plain

    def _normalize(self, strings: tf.Tensor) -> tf.Tensor:
        strings = tf.strings.regex_replace(strings, f"[{_REMOVED}]+", "")
        if self.lowercase:
            strings = strings if self.strip_accents else lower_dotted_capitals(strings)
            strings = tf.strings.lower(strings, encoding="utf-8")
        if self.strip_accents:
            strings = tf.strings.regex_replace(tf_text.normalize_utf8(strings, "NFD"), r"\p{Mn}+", "")
        return strings

    def original_offsets(
        self, strings: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `original_offsets` below."""
        return original_offsets(strings, rows, starts, ends, contributed_bytes(self))

    def characters(self, chars: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Each character, string `[chars]`, normalized by itself; and whether it is a stripped accent."""
        present = tf.strings.length(tf.strings.regex_replace(chars, f"[{_REMOVED}]+", "")) > 0
        results = self._normalize(tf.strings.lower(chars) if self.lowercase else chars)
        return results, present & (tf.strings.length(results) == 0)


def normalize_unless(
    plain: tf.Tensor,
    lowered: tf.Tensor,
    strings: tf.Tensor,
    rows: tf.Tensor | None,
    normalize: Callable[[tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    """`lowered` in plain rows, and `normalize(strings)`, checked to be UTF-8, in the others. All are `[batch]`."""
    others = tf.where(~plain)  # [others, 1]

    def normalize_others() -> tf.Tensor:
        raw = tf.gather_nd(strings, others)
        check_utf8(raw, others[:, 0] if rows is None else tf.gather_nd(rows, others))
        return tf.tensor_scatter_nd_update(lowered, others, normalize(raw))

    return tf.cond(tf.size(others) > 0, normalize_others, lambda: lowered)


def original_offsets(
    strings: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor, contributed: np.ndarray
) -> tuple[tf.Tensor, tf.Tensor]:
    """Maps spans of normalized bytes to spans of original bytes: starts and ends, int64 `[spans]` each, into their row.

    The number of bytes that a character becomes does not depend on its neighbours (both small sigmas have two). So a
    table and a cumulative sum give each character's place in the normalized text. A stripped accent belongs to the
    character before it, a removed control character to none.

    Args:
        strings: string `[batch]`, before normalization, valid UTF-8.
        rows: int64 `[spans]`, the row of each span.
        starts, ends: int64 `[spans]`, byte offsets into the normalized row; the end is exclusive, and no span is empty.
        contributed: int8, `contributed_bytes` of the normalizer.
    """
    lengths = tf.cast(tf.strings.length(strings), tf.int64)
    row_ends = tf.cumsum(lengths)  # of the rows laid end to end, [batch]
    row_starts = row_ends - lengths
    codes, begins = tf.strings.unicode_decode_with_offsets(tf.strings.reduce_join(strings), "UTF-8")  # [chars]
    contributed = tf.gather(contributed, _table_index(codes))  # int8 [chars]
    sums = tf.cumsum(tf.maximum(tf.cast(contributed, tf.int64), 0))  # where a character's normalized bytes end
    row_base = tf.gather(tf.concat([[0], sums], 0), tf.searchsorted(begins, row_starts))  # normalized, [batch]

    kept = tf.where(contributed >= 0)[:, 0]  # without the accents, each character ends where the next begins
    sums = tf.gather(sums, kept)
    begins = tf.concat([tf.gather(begins, kept), row_ends[-1:]], 0)  # [kept + 1]
    base = tf.gather(row_base, rows)
    first = tf.searchsorted(sums, base + starts, side="right")
    last = tf.searchsorted(sums, base + ends - 1, side="right")
    row_start, row_end = tf.gather(row_starts, rows), tf.gather(row_ends, rows)
    return tf.gather(begins, first) - row_start, tf.minimum(tf.gather(begins, last + 1), row_end) - row_start


def lower_dotted_capitals(strings: tf.Tensor) -> tf.Tensor:
    """Lower-cases each capital I with an accent: ICU's result would depend on the locale."""
    for capital in "İÌÍĨĮ":
        strings = tf.strings.regex_replace(strings, capital, capital.lower())
    return strings


def check_utf8(strings: tf.Tensor, rows: tf.Tensor) -> None:
    valid = tf.strings.regex_full_match(strings, _VALID_UTF8)
    bad = tf.where(~valid)[:1, 0]
    # The message leaves the text out, which Python cannot decode.
    require(tf.reduce_all(valid), INVALID_UTF8, tf.gather(rows, bad))


def _table_index(codes: tf.Tensor) -> tf.Tensor:
    in_plane_14 = (codes >= _PLANE_14) & (codes < _PLANE_14_END)
    anything_else = _PLANE_3 + _PLANE_14_END - _PLANE_14
    return tf.where(codes < _PLANE_3, codes, tf.where(in_plane_14, codes - (_PLANE_14 - _PLANE_3), anything_else))


@functools.cache
def contributed_bytes(normalizer: Any) -> np.ndarray:
    """int8: the number of bytes that each character becomes; 0 if it is removed, -1 if it is a stripped accent."""
    with tf.init_scope(), tf.device("CPU"):
        results, stripped = normalizer.characters(_characters(np.r_[:_PLANE_3, _PLANE_14:_PLANE_14_END]))
        lengths = tf.where(stripped, -1, tf.strings.length(results)).numpy()
    return np.append(lengths, 4).astype(np.int8)


@functools.cache
def kinds_of_characters(patterns: tuple[tuple[int, str], ...], other: int) -> np.ndarray:
    """int8 `[PLANE_4]`: the kind of each character of planes 0 to 3, by TensorFlow's own version of Unicode.

    Args:
        patterns: kinds and the regular expressions of their characters; the last match counts.
        other: the kind of all other characters.
    """
    kinds = np.full(PLANE_4, other, np.int8)
    with tf.init_scope(), tf.device("CPU"):
        chars = _characters(np.arange(PLANE_4))
        for kind, pattern in patterns:
            kinds[tf.strings.regex_full_match(chars, pattern).numpy()] = kind
    return kinds


def _characters(codes: np.ndarray) -> tf.Tensor:
    """string `[codes]`; U+0000 in place of surrogates, which are no characters."""
    codes = np.where((codes >= 0xD800) & (codes < 0xE000), 0, codes)
    return tf.strings.unicode_encode(codes.astype(np.int32)[:, None], "UTF-8")

"""Normalization of text in the TensorFlow graph, with maps from normalized bytes to original bytes."""

import functools
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.text.strings import require

_VALID_UTF8 = r"[\x{0}-\x{D7FF}\x{E000}-\x{10FFFF}]*"
INVALID_UTF8 = "not valid UTF-8 (read the text with its own encoding, or with errors=replace): the text in row"
# Google's clean_text removes U+0000, U+FFFD, and categories Cc and Cf, except tab, line feed and carriage return.
_REMOVED = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x{9f}\p{Cf}\x{fffd}"
_CJK_IDEOGRAPHS = r"\x{4e00}-\x{9fff}"

# The table of contributed bytes has planes 0 to 2 and the start of plane 14 (tags and variation selectors). All other
# characters have 4 bytes and do not change.
_PLANE_3, _PLANE_14, _PLANE_14_END = 0x30000, 0xE0000, 0xE1000


class _Normalizer:
    """Normalizes characters one by one, so that a table of their lengths maps offsets back."""

    def _characters(self, chars: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Normalizes each character, string `[chars]`, by itself; bool `[chars]`: whether it is a stripped accent."""
        raise NotImplementedError

    def original_offsets(
        self, strings: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Maps spans of normalized bytes to spans of original bytes: int64 `[spans]` starts, and ends, in their row.

        The number of bytes that a character becomes does not depend on its neighbours (both small sigmas have two). So
        a table and a cumulative sum give each character's place in the normalized text. A stripped accent belongs to
        the character before it, a removed control character to none.

        Args:
            strings: string `[batch]`, before normalization, valid UTF-8.
            rows: int64 `[spans]`, the row of each span.
            starts, ends: int64 `[spans]`, byte offsets into the normalized row, end exclusive; no span is empty.
        """
        lengths = tf.cast(tf.strings.length(strings), tf.int64)
        row_ends = tf.cumsum(lengths)  # of the rows laid end to end, [batch]
        row_starts = row_ends - lengths
        codes, begins = tf.strings.unicode_decode_with_offsets(tf.strings.reduce_join(strings), "UTF-8")  # [chars]
        contributed = tf.gather(_contributed_bytes(self), _table_index(codes))  # int8 [chars]
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


@dataclass(frozen=True)
class BertNormalizer(_Normalizer):
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
        """Marks rows of only ASCII, typographic quotes and dashes, and CJK ideographs, bool `[batch]`.

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

    def _characters(self, chars: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
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
    """Takes `lowered` in plain rows, and `normalize(strings)`, checked to be UTF-8, in the others. All: `[batch]`."""
    others = tf.where(~plain)  # [others, 1]

    def normalize_others() -> tf.Tensor:
        raw = tf.gather_nd(strings, others)
        check_utf8(raw, others[:, 0] if rows is None else tf.gather_nd(rows, others))
        return tf.tensor_scatter_nd_update(lowered, others, normalize(raw))

    return tf.cond(tf.size(others) > 0, normalize_others, lambda: lowered)


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
def _contributed_bytes(normalizer: _Normalizer) -> np.ndarray:
    """Counts the bytes that each character becomes, int8; 0 if it is removed, -1 if it is a stripped accent."""
    with tf.init_scope(), tf.device("CPU"):
        results, stripped = normalizer._characters(characters_of(np.r_[:_PLANE_3, _PLANE_14:_PLANE_14_END]))
        lengths = tf.where(stripped, -1, tf.strings.length(results)).numpy()
    return np.append(lengths, 4).astype(np.int8)


def characters_of(codes: np.ndarray) -> tf.Tensor:
    """Encodes characters, string `[codes]`; U+0000 in place of surrogates, which are no characters."""
    codes = np.where((codes >= 0xD800) & (codes < 0xE000), 0, codes)
    return tf.strings.unicode_encode(codes.astype(np.int32)[:, None], "UTF-8")


# -- Canonical composition (NFC) in the TensorFlow graph, and a map from composed bytes to original bytes.

# Most rows have only characters that never change and never compose, and skip the operation: characters before the
# combining marks (U+0300), typographic quotes and dashes, and CJK ideographs.
_COMPOSED = r"[\x00-\x{2ff}\x{2010}-\x{2027}\x{4e00}-\x{9fff}]*"


def compose(strings: tf.Tensor, rows: tf.Tensor | None = None) -> tf.Tensor:
    """Composes letters and marks, string `[batch]`: `e` and U+0301 become `é`.

    Raises:
        ValueError (in a graph, tf.errors.InvalidArgumentError): a row is not valid UTF-8. The message has the row's
            number in `rows` (int64 `[batch]`), by default its position in the batch.

    Example:
        >>> compose(tf.constant(["cafe\\u0301"])).numpy()[0].decode()
        'café'
    """
    plain = tf.strings.regex_full_match(strings, _COMPOSED)
    return normalize_unless(plain, strings, strings, rows, lambda others: tf_text.normalize_utf8(others, "NFC"))


def uncomposed_offsets(
    strings: tf.Tensor, composed: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Maps spans of composed bytes to spans of original bytes: int64 `[spans]` starts, and ends, in their row.

    A span that begins or ends within a composed character covers all the characters that it was composed of.

    Args:
        strings: string `[batch]`, valid UTF-8.
        composed: string `[batch]`, the result of `compose`.
        rows: int64 `[spans]`, the row of each span.
        starts, ends: int64 `[spans]`, byte offsets into the composed row, end exclusive.
    """
    changed = composed != strings  # [batch]

    def map_back() -> tuple[tf.Tensor, tf.Tensor]:
        texts, maps = tf_text.normalize_utf8_with_offsets_map(tf.boolean_mask(strings, changed), "NFC")
        places = tf.ragged.range(tf.cast(tf.strings.length(texts), tf.int64) + 1)  # [changed rows, (bytes + 1)]
        source = tf_text.find_source_offsets(maps, places).values  # within a composed character, its end
        outside = tf.concat([source[1:] != source[:-1], [True]], 0)  # [bytes of the changed rows]
        begin = tf.gather(tf.where(outside)[:, 0], tf.cumsum(tf.cast(outside, tf.int64)) - 1)
        some = tf.where(tf.gather(changed, rows))  # [spans in changed rows, 1]
        row = tf.gather(tf.cumsum(tf.cast(changed, tf.int64)) - 1, tf.gather_nd(rows, some))
        origin = tf.gather(places.row_starts(), row)
        first = tf.gather(source, tf.gather(begin, origin + tf.gather_nd(starts, some)))
        last = tf.gather(source, origin + tf.gather_nd(ends, some))
        return tuple(tf.tensor_scatter_nd_update(old, some, new) for old, new in ((starts, first), (ends, last)))

    return tf.cond(tf.reduce_any(changed), map_back, lambda: (starts, ends))


# -- ALBERT's normalization of text before SentencePiece: compatibility decomposition, accents, lower case.

# White space in `str.split`, but not in SentencePiece's own normalization.
_ODD_SPACES = r"\x0b\x1c-\x1f"
_PLAIN = r"[\x02-\x0a\x0c-\x1b -\x7f]*"
# Replaces U+0000, where TensorFlow Text's operation would end the text. No vocabulary has either.
_NO_NUL = "\ue000"
# Two ` or two ' become " and this character, so that offsets stay. Later it is removed, as SentencePiece's usual
# normalization does.
_SECOND_QUOTE = "\x01"


@dataclass(frozen=True)
class CompatibilityNormalizer(_Normalizer):
    """Normalizes as `preprocess_text` of google-research/albert: white space, NFKD, combining characters, lower case.

    `strip_accents` decomposes by compatibility (NFKD), drops characters with a combining class, and replaces other
    white space by spaces. `as_transformers` normalizes as transformers 5 does for ALBERT: two ` or two ' become ", all
    marks are dropped, with or without a combining class, and sigma has no final form.

    Example:
        >>> CompatibilityNormalizer(True, True)(tf.constant(["Crème ﬁn ½"])).numpy()[0].decode()
        'creme fin 1⁄2'
    """

    lowercase: bool
    strip_accents: bool
    as_transformers: bool = False

    def __call__(self, strings: tf.Tensor, rows: tf.Tensor | None = None) -> tf.Tensor:
        """Normalizes string `[batch]`. Arguments and errors are those of `BertNormalizer`."""
        strings = self._mark_quotes(strings)
        lowered = tf.strings.lower(strings) if self.lowercase else strings
        plain = tf.strings.regex_full_match(strings, _PLAIN)
        return normalize_unless(plain, lowered, strings, rows, self._normalize)  # this lower-cases ASCII too

    def _normalize(self, strings: tf.Tensor) -> tf.Tensor:
        strings = tf.strings.regex_replace(strings, r"\x00", _NO_NUL)
        if self.as_transformers:
            strings = tf.strings.regex_replace(strings, _SECOND_QUOTE, "")
            strings = tf.strings.regex_replace(strings, r"\x{85}", "  ")  # as long as before
            strings = tf.strings.regex_replace(strings, "Σ", "σ") if self.lowercase else strings
            if self.strip_accents:
                strings = tf.strings.regex_replace(tf_text.normalize_utf8(strings, "NFKD"), r"\pM+", "")
        elif self.strip_accents:
            # As long as before, so that offsets stay; SentencePiece makes several spaces one.
            strings = tf.strings.regex_replace(strings, f"[{_ODD_SPACES}]", " ")
            strings = tf.strings.regex_replace(strings, r"\x{85}", "  ")
            strings = tf_text.normalize_utf8(strings, "NFKD")
            strings = tf.strings.regex_replace(strings, f"{_combining()}+", "")
        if self.lowercase:
            strings = tf.strings.lower(strings)  # ASCII first, because ICU would follow the locale
            strings = tf.strings.lower(lower_dotted_capitals(strings), encoding="utf-8")
        return strings

    def original_offsets(
        self, strings: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        return super().original_offsets(self._mark_quotes(strings), rows, starts, ends)

    def _mark_quotes(self, strings: tf.Tensor) -> tf.Tensor:
        return tf.strings.regex_replace(strings, "``|''", f'"{_SECOND_QUOTE}') if self.as_transformers else strings

    def _characters(self, chars: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        results = self._normalize(chars)
        return results, (tf.strings.length(chars) > 0) & (tf.strings.length(results) == 0)


@functools.cache
def _combining() -> str:
    """Makes RE2's character class of the characters with a nonzero canonical combining class."""
    codes = [code for code in range(0x110000) if unicodedata.combining(chr(code))]
    begins = [code for code in codes if not unicodedata.combining(chr(code - 1))]
    ends = [code for code in codes if not unicodedata.combining(chr(code + 1))]
    return "[" + "".join(f"\\x{{{a:x}}}-\\x{{{b:x}}}" for a, b in zip(begins, ends, strict=True)) + "]"

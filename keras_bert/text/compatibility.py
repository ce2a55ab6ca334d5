"""ALBERT's normalization of text before SentencePiece: compatibility decomposition, accents, lower case."""

import functools
import unicodedata
from dataclasses import dataclass

import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.text.normalization import contributed_bytes, lower_dotted_capitals, normalize_unless, original_offsets

# White space in `str.split`, but not in SentencePiece's own normalization.
_ODD_SPACES = r"\x0b\x1c-\x1f"
_PLAIN = r"[\x02-\x0a\x0c-\x1b -\x7f]*"
# Replaces U+0000, where TensorFlow Text's operation would end the text. No vocabulary has either.
_NO_NUL = "\ue000"
# Two ` or two ' become " and this character, so that offsets stay. Later it is removed, as SentencePiece's usual
# normalization does.
_SECOND_QUOTE = "\x01"


@dataclass(frozen=True)
class CompatibilityNormalizer:
    """`preprocess_text` of google-research/albert: white space, NFKD, combining characters, lower case.

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
        """See `normalization.original_offsets`."""
        return original_offsets(self._mark_quotes(strings), rows, starts, ends, contributed_bytes(self))

    def _mark_quotes(self, strings: tf.Tensor) -> tf.Tensor:
        return tf.strings.regex_replace(strings, "``|''", f'"{_SECOND_QUOTE}') if self.as_transformers else strings

    def characters(self, chars: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """As `BertNormalizer.characters`."""
        results = self._normalize(chars)
        return results, (tf.strings.length(chars) > 0) & (tf.strings.length(results) == 0)


@functools.cache
def _combining() -> str:
    """A character class for RE2 of the characters with a nonzero canonical combining class."""
    codes = [code for code in range(0x110000) if unicodedata.combining(chr(code))]
    begins = [code for code in codes if not unicodedata.combining(chr(code - 1))]
    ends = [code for code in codes if not unicodedata.combining(chr(code + 1))]
    return "[" + "".join(f"\\x{{{a:x}}}-\\x{{{b:x}}}" for a, b in zip(begins, ends, strict=True)) + "]"

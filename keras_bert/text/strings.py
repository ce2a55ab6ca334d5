"""Reads texts as string tensors, checks that they are UTF-8, and maps normalized bytes back to original bytes."""

import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

import numpy as np
import tensorflow as tf

from keras_bert.text import arguments
from keras_bert.text.arguments import check_many, lone_surrogate

SPACES = f"[{arguments.SPACES}]"  # RE2's \s is only ASCII's
Strings = str | bytes | Sequence[str | bytes] | np.ndarray | tf.Tensor
_EXPECTED = "expected a str, a list of str, or a string tensor or array of shape [] or [batch]"


def as_strings(texts: Strings, first: int = 0) -> tf.Tensor:
    """Converts texts to a string tensor `[]` or `[batch]`. Messages number them from `first`."""
    if texts is None:
        raise TypeError(f"got None as text; {_EXPECTED}")
    if isinstance(texts, tf.RaggedTensor | tf.SparseTensor):
        shape = cast("tf.RaggedTensor | tf.SparseTensor", texts).shape
        raise ValueError(f"got a {type(texts).__name__} of shape {shape} as text; {_EXPECTED}")
    if (isinstance(texts, list | tuple) and not texts) or (isinstance(texts, np.ndarray) and texts.shape == (0,)):
        return tf.zeros([0], tf.string)
    if isinstance(texts, np.ndarray) and texts.dtype.kind == "T":  # NumPy's StringDType
        texts = texts.astype(object)
    tensor = cast("tf.Tensor", texts)
    if not tf.is_tensor(texts):
        if hasattr(texts, "__iter__") and not isinstance(texts, str | bytes | list | tuple | np.ndarray):
            check_many(texts)
        try:
            tensor = tf.convert_to_tensor(texts)
        except (TypeError, ValueError, UnicodeEncodeError) as error:
            raise _make_error(texts, first) from error
    if tensor.dtype != tf.string:
        raise TypeError(f"got {tensor.dtype.name} of shape {tensor.shape} as text; {_EXPECTED}")
    if tensor.shape.rank is None:
        tensor = tf.ensure_shape(tensor, [None])
    if tensor.shape.rank > 1:
        raise ValueError(f"got strings of shape {tensor.shape}; {_EXPECTED}")
    return tensor


@contextlib.contextmanager
def readable_errors() -> Iterator[None]:
    """Turns a failed assertion of the graph into a ValueError with only its message."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        failed = re.search(r"assertion failed: \[(.*)\]", str(error))
        if failed is None:
            raise
        raise ValueError(failed[1].replace("] [", " ")) from None


def require(condition: tf.Tensor, message: str, *values: tf.Tensor) -> None:
    """Raises ValueError (in a graph, InvalidArgumentError) with `message` and `values` if `condition` is false."""
    if not tf.executing_eagerly():
        tf.debugging.Assert(condition, [message, *values])
    elif not condition:
        raise ValueError(" ".join([message, *(str(number) for value in values for number in np.ravel(value))]))


def _make_error(texts: object, first: int) -> Exception:
    """Makes the error for texts that TensorFlow could not convert."""
    is_one = isinstance(texts, str) or not hasattr(texts, "__iter__")
    batch = [texts] if is_one else list(cast("Iterable[object]", texts))
    for row, text in enumerate(batch, first):
        if isinstance(text, str):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                return lone_surrogate(row, error)
        elif not isinstance(text, bytes):
            return TypeError(f"text {row} is {text!r:.60} ({type(text).__name__}); {_EXPECTED}")
    return TypeError(f"cannot read {type(texts).__name__} as text; {_EXPECTED}")


# -- Normalization, for all tokenizers: checks, and offsets into the original text.

_VALID_UTF8 = r"[\x{0}-\x{D7FF}\x{E000}-\x{10FFFF}]*"
INVALID_UTF8 = "not valid UTF-8 (read the text with its own encoding, or with errors=replace): the text in row"
# The table of contributed bytes has planes 0 to 2 and the start of plane 14 (tags and variation selectors). All other
# characters have 4 bytes and do not change.
_PLANE_3, _PLANE_14, _PLANE_14_END = 0x30000, 0xE0000, 0xE1000


class Normalizer:
    """A normalization of single characters, so that a table of their lengths maps offsets back to the original."""

    def _normalize_characters(self, chars: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Normalizes each character, string `[chars]`, and marks stripped accents, bool `[chars]`."""
        raise NotImplementedError

    def original_offsets(
        self, strings: tf.Tensor, moved: tf.Tensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> tuple[tf.RaggedTensor, ...]:
        """Maps spans of normalized bytes, `[batch, (spans)]`, to those of `strings`, in the rows `moved`, bool."""
        # The number of bytes that a character becomes does not depend on its neighbours (both small sigmas have two).
        # So a table and a cumulative sum give each character's place in the normalized text. A stripped accent belongs
        # to the character before it, and a removed control character to none.
        moved_rows = tf.where(moved)[:, 0]
        spans = tf.ragged.range(tf.gather(starts.row_starts(), moved_rows), tf.gather(starts.row_limits(), moved_rows))
        rows, strings = spans.value_rowids(), tf.gather(strings, moved_rows)
        lengths = tf.cast(tf.strings.length(strings), tf.int64)
        row_ends = tf.cumsum(lengths)  # of the rows laid end to end, [batch]
        row_starts = row_ends - lengths
        codes, begins = tf.strings.unicode_decode_with_offsets(tf.strings.reduce_join(strings), "UTF-8")  # [chars]
        in_plane_14 = (codes >= _PLANE_14) & (codes < _PLANE_14_END)
        index = tf.where(in_plane_14, codes - (_PLANE_14 - _PLANE_3), _PLANE_3 + _PLANE_14_END - _PLANE_14)
        index = tf.where(codes < _PLANE_3, codes, index)
        contributed = tf.gather(_count_contributed_bytes(self), index)  # int8 [chars]
        sums = tf.cumsum(tf.maximum(tf.cast(contributed, tf.int64), 0))  # where a character's normalized bytes end
        row_base = tf.gather(tf.concat([[0], sums], 0), tf.searchsorted(begins, row_starts))  # normalized, [batch]

        kept = tf.where(contributed >= 0)[:, 0]  # without the accents, each character ends where the next begins
        sums = tf.gather(sums, kept)
        begins = tf.concat([tf.gather(begins, kept), row_ends[-1:]], 0)  # [kept + 1]
        base = tf.gather(row_base, rows)
        span_starts, span_ends = (base + tf.gather(each.values, spans.values) for each in (starts, ends))
        first = tf.searchsorted(sums, span_starts, side="right")
        after_last = tf.searchsorted(sums, span_ends - 1, side="right") + 1
        after_last = tf.where(span_starts < span_ends, after_last, first)  # an empty span stays empty
        row_start, row_end = tf.gather(row_starts, rows), tf.gather(row_ends, rows)
        bounds = (tf.minimum(tf.gather(begins, each), row_end) - row_start for each in (first, after_last))
        return tuple(
            old.with_values(tf.tensor_scatter_nd_update(old.values, spans.values[:, None], new))
            for old, new in zip((starts, ends), bounds, strict=True)
        )


def normalize_unless(
    plain: tf.Tensor, strings: tf.Tensor, rows: tf.Tensor | None, normalize: Callable[[tf.Tensor], tf.Tensor]
) -> tf.Tensor:
    """Normalizes the rows of string `[batch]` that are not plain, and checks first that they are UTF-8."""
    others = tf.where(~plain)  # [others, 1]

    def normalize_others() -> tf.Tensor:
        raw = tf.gather_nd(strings, others)
        check_utf8(raw, numbers_of(others[:, 0], rows))
        return tf.tensor_scatter_nd_update(strings, others, normalize(raw))

    return tf.cond(tf.size(others) > 0, normalize_others, lambda: strings)


def lower_dotted_capitals(strings: tf.Tensor) -> tf.Tensor:
    """Lowers each capital I with an accent, for which ICU's result would depend on the locale."""
    for capital in "İÌÍĨĮ":
        strings = tf.strings.regex_replace(strings, capital, capital.lower())
    return strings


def numbers_of(index: tf.Tensor | None, rows: tf.Tensor | None) -> tf.Tensor | None:
    """Looks up the numbers of rows by index, int64 `[n]`; None stands for all of 0, 1, 2, ..."""
    return index if rows is None else rows if index is None else tf.gather(rows, index)


def check_utf8(strings: tf.Tensor, rows: tf.Tensor) -> None:
    """Raises as `require` if a text is not valid UTF-8; the message has its number in `rows`, int64 `[batch]`."""
    valid = tf.strings.regex_full_match(strings, _VALID_UTF8)
    bad = tf.where(~valid)[:1, 0]
    # The message leaves out the text, because Python cannot decode it.
    require(tf.reduce_all(valid), INVALID_UTF8, tf.gather(rows, bad))


@functools.cache
def _count_contributed_bytes(normalizer: Normalizer) -> np.ndarray:
    """Counts the bytes that each character becomes, int8; 0 if it is removed, -1 if it is a stripped accent."""
    with tf.init_scope(), tf.device("CPU"):
        results, stripped = normalizer._normalize_characters(
            encode_characters(np.r_[:_PLANE_3, _PLANE_14:_PLANE_14_END])
        )
        lengths = tf.where(stripped, -1, tf.strings.length(results)).numpy()
    return np.append(lengths, 4).astype(np.int8)


def encode_characters(codes: np.ndarray) -> tf.Tensor:
    """Encodes characters as string `[codes]`, with U+0000 in place of surrogates, which are no characters."""
    codes = np.where((codes >= 0xD800) & (codes < 0xE000), 0, codes)
    return tf.strings.unicode_encode(codes.astype(np.int32)[:, None], "UTF-8")

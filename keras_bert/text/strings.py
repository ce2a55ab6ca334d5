"""Converts texts to string tensors, with errors that say what was given and what is expected."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.text.arguments import check_many

# Unicode's white space. RE2's \s is only ASCII's.
SPACES = r"[\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
_EXPECTED = "expected a str, a list of str, or a string tensor or array of shape [] or [batch]"


def as_strings(texts: Any, first: int = 0) -> tf.Tensor:
    """Converts a str (or UTF-8 bytes), a list or array of them, or a tensor to a string tensor `[]` or `[batch]`.

    Args:
        texts: the texts.
        first: the number of the first text, for messages.

    Raises:
        TypeError: an element is not text.
        ValueError: the rank is over 1, or a str has a lone surrogate, which is not valid in UTF-8.
    """
    if texts is None:
        raise TypeError(f"got None as text; {_EXPECTED}")
    if isinstance(texts, tf.RaggedTensor | tf.SparseTensor):
        raise ValueError(f"got a {type(texts).__name__} of shape {texts.shape} as text; {_EXPECTED}")
    if (isinstance(texts, list | tuple) and not texts) or (isinstance(texts, np.ndarray) and texts.shape == (0,)):
        return tf.zeros([0], tf.string)
    if isinstance(texts, np.ndarray) and texts.dtype.kind == "T":  # NumPy's StringDType
        texts = texts.astype(object)
    if not tf.is_tensor(texts):
        if hasattr(texts, "__iter__") and not isinstance(texts, str | bytes | list | tuple | np.ndarray):
            check_many(texts)
        try:
            texts = tf.convert_to_tensor(texts)
        except (TypeError, ValueError, UnicodeEncodeError) as error:
            raise _explain(texts, first) from error
    if texts.dtype != tf.string:
        raise TypeError(f"got {texts.dtype.name} of shape {texts.shape} as text; {_EXPECTED}")
    if texts.shape.rank is None:
        texts = tf.ensure_shape(texts, [None])
    if texts.shape.rank > 1:
        raise ValueError(f"got strings of shape {texts.shape}; {_EXPECTED}")
    return texts


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


class KnownStrings:
    """Finds strings among known ones by a hash, with constants and no lookup table.

    Args:
        known: string `[known]`, a list or an eager tensor, all different.

    Example:
        >>> KnownStrings(["a", "b"])(tf.constant(["b", "c", "a"])).numpy()
        array([ 1, -1,  0], dtype=int32)
    """

    def __init__(self, known: Sequence[str] | tf.Tensor):
        with tf.init_scope(), tf.device("CPU"):
            known = tf.convert_to_tensor(known)
            hashes = _hash(known)
            order = tf.argsort(hashes)
            # One more, so that a search past the end finds something.
            self._hashes = tf.concat([tf.gather(hashes, order), [tf.int64.max]], 0)
            self._known = tf.concat([tf.gather(known, order), [""]], 0)
            self._index = tf.concat([order, [-1]], 0)

    def __call__(self, strings: tf.Tensor) -> tf.Tensor:
        """string `[n]` -> int32 `[n]`, the index of the known string, or -1."""
        place = tf.searchsorted(self._hashes, _hash(strings))
        # Another string may have the same hash.
        return tf.where(tf.gather(self._known, place) == strings, tf.gather(self._index, place), -1)


def _hash(strings: tf.Tensor) -> tf.Tensor:
    return tf.strings.to_hash_bucket_fast(strings, tf.int64.max)


def lone_surrogate(row: int, error: UnicodeEncodeError) -> ValueError:
    """The error for a text that UTF-8 cannot encode."""
    return ValueError(
        f"text {row} has the lone surrogate {error.object[error.start]!a} at character {error.start}, which UTF-8 "
        f"cannot encode; drop it with text.encode(errors='ignore').decode(): {error.object[:40]!a}"
    )


def _explain(texts: Any, first: int) -> Exception:
    """The error for texts that TensorFlow could not convert."""
    batch = [texts] if isinstance(texts, str) or not hasattr(texts, "__iter__") else list(texts)
    for row, text in enumerate(batch, first):
        if isinstance(text, str):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                return lone_surrogate(row, error)
        elif not isinstance(text, bytes):
            return TypeError(f"text {row} is {text!r:.60} ({type(text).__name__}); {_EXPECTED}")
    return TypeError(f"cannot read {type(texts).__name__} as text; {_EXPECTED}")


# -- Splits texts around tokens that occur in them, and joins the tokens of the parts.

Tokens = tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]  # ids, starts, ends: each [batch, (tokens)]


def tokenize_around(
    added: Mapping[str, int],
    with_space: str | None,
    strings: tf.Tensor,
    tokenize_text: Callable[[tf.Tensor, tf.Tensor], Tokens],
) -> Tokens:
    """Finds `added` tokens (token -> id) in texts, string `[batch]`, and tokenizes the text between them.

    If two added tokens begin at the same place, the longer one is found. `with_space` is the added token that includes
    the white space before it, or None. `tokenize_text` is called with string `[parts]` and the row of each, int64
    `[parts]`.
    """
    patterns = {token: re.escape(token) for token in sorted(added, key=len, reverse=True)}
    if with_space in added:
        patterns[with_space] = f"{SPACES}*{patterns[with_space]}"
    pattern = "|".join(patterns.values())
    # The operation ends a text at U+0000. In such a row, U+0000 and U+0001 are swapped until after it.
    has_nul = tf.strings.regex_full_match(strings, r"(?s).*\x00.*")
    strings = tf.strings.regex_replace(strings, r"\x00", "\x01")
    chunks, starts, ends = tf_text.regex_split_with_offsets(strings, pattern, pattern)  # [batch, (chunks)]
    with_nul = tf.gather(has_nul, chunks.value_rowids())
    texts = tf.where(with_nul, tf.strings.regex_replace(chunks.values, "\x01", "\0"), chunks.values)
    names = texts
    if with_space in added:
        names = tf.strings.regex_replace(names, f"^{patterns[with_space]}$", with_space)
    index = KnownStrings(list(added))(names)  # [chunks], -1 for text
    special = index >= 0
    text = tf.where(special, "", texts)  # a chunk is either text or a token
    tokens = tokenize_text(text, chunks.value_rowids())
    count = tf.cast(special, tf.int64)
    found = tf.gather(tf.constant(list(added.values())), tf.boolean_mask(index, special))
    last = tf.boolean_mask(ends.values - starts.values, special)
    first = last - tf.boolean_mask(tf.cast(tf.strings.length(names), tf.int64), special)
    tokens = tuple(
        tf.concat([old, tf.RaggedTensor.from_row_lengths(new, count)], axis=1)
        for old, new in zip(tokens, (found, first, last), strict=True)
    )
    return merge_rows(tokens, starts.values, chunks.row_splits)


def merge_rows(tokens: Tokens, origins: tf.Tensor, row_splits: tf.Tensor) -> Tokens:
    """Joins parts into rows: `row_splits` `[batch + 1]` groups the parts, whose offsets grow by `origins` `[parts]`."""
    ids, starts, ends = tokens
    splits = tf.gather(ids.row_splits, row_splits)
    shift = tf.gather(origins, ids.value_rowids())
    values = (ids.values, starts.values + shift, ends.values + shift)
    return tuple(tf.RaggedTensor.from_row_splits(value, splits, validate=False) for value in values)

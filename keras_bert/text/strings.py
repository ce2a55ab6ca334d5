"""Converts texts to string tensors, with errors that say what is wrong and what is expected."""

import contextlib
import re
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from keras_bert.text.arguments import check_many

# Unicode's white space. RE2's \s is only ASCII's.
SPACES = r"[\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
Strings = str | bytes | Sequence[str | bytes] | np.ndarray | tf.Tensor
_EXPECTED = "expected a str, a list of str, or a string tensor or array of shape [] or [batch]"


def as_strings(texts: Strings, first: int = 0) -> tf.Tensor:
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


def lone_surrogate(row: int, error: UnicodeEncodeError) -> ValueError:
    """Makes the error for a text that UTF-8 cannot encode."""
    return ValueError(
        f"text {row} has the lone surrogate {error.object[error.start]!a} at character {error.start}, which UTF-8 "
        f"cannot encode; drop it with text.encode(errors='ignore').decode(): {error.object[:40]!a}"
    )


def _explain(texts: object, first: int) -> Exception:
    """Makes the error for texts that TensorFlow could not convert."""
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

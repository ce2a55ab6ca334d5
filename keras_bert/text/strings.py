"""Texts as the caller has them -> a string tensor, or an error that says what came and what is expected."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

_EXPECTED = "expected a str, a list of str, or a string tensor or array of shape [] or [batch]"


def as_strings(texts: Any) -> tf.Tensor:
    """Converts texts to a string tensor of shape `[]` or `[batch]`.

    Args:
        texts: a str (or bytes, UTF-8), a list or NumPy array of them, or a string tensor.

    Raises:
        TypeError: an element is not text.
        ValueError: the rank is over 1, or a str has a lone surrogate, which UTF-8 cannot carry.
    """
    if texts is None:
        raise TypeError(f"got None as text; {_EXPECTED}")
    if isinstance(texts, tf.RaggedTensor | tf.SparseTensor):
        raise ValueError(f"got a {type(texts).__name__} of shape {texts.shape} as text; {_EXPECTED}")
    if isinstance(texts, list | tuple) and not len(texts):
        return tf.zeros([0], tf.string)
    if not tf.is_tensor(texts):
        try:
            texts = tf.convert_to_tensor(texts)
        except (TypeError, ValueError, UnicodeEncodeError) as error:
            raise _explain(texts) from error
    if texts.dtype != tf.string:
        raise TypeError(f"got {texts.dtype.name} of shape {texts.shape} as text; {_EXPECTED}")
    if texts.shape.rank is None:
        texts = tf.ensure_shape(texts, [None])
    if texts.shape.rank > 1:
        raise ValueError(f"got strings of shape {texts.shape}; {_EXPECTED}")
    return texts


@contextlib.contextmanager
def readable_errors() -> Iterator[None]:
    """Turns a failed assertion of the graph into a ValueError with its message alone."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        failed = re.search(r"assertion failed: \[(.*)\]", str(error))
        if failed is None:
            raise
        raise ValueError(failed[1].replace("] [", " ")) from None


def require(condition: tf.Tensor, message: str, *values: tf.Tensor) -> None:
    """Raises ValueError (in a graph, InvalidArgumentError) with `message` and values unless `condition` (bool `[]`)."""
    if not tf.executing_eagerly():
        tf.debugging.Assert(condition, [message, *values])
    elif not condition:
        raise ValueError(" ".join([message, *(str(number) for value in values for number in np.ravel(value))]))


def _explain(texts: Any) -> Exception:
    """The error for texts that TensorFlow could not convert; good batches do not pay for this search."""
    batch = [texts] if isinstance(texts, str) or not hasattr(texts, "__iter__") else list(texts)
    for row, text in enumerate(batch):
        if isinstance(text, str):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                return ValueError(
                    f"text {row} has the lone surrogate {text[error.start]!a} at character {error.start}, which is no "
                    f"character and cannot be UTF-8; drop it with text.encode(errors='ignore').decode(): {text[:40]!a}"
                )
        elif not isinstance(text, bytes):
            return TypeError(f"text {row} is {text!r:.60} ({type(text).__name__}); {_EXPECTED}")
    return TypeError(f"cannot read {type(texts).__name__} as text; {_EXPECTED}")

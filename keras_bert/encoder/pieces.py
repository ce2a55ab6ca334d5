"""Attention of long texts, for some queries of a head at a time: memory is linear in the length, not quadratic."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_bert.encoder.varying_shapes import shapes_may_vary

LONG = 1024  # in longer texts, the scores of all queries do not fit into a processor's caches
_SCORES = 2**22  # in a piece, of all texts together: 16 MB, which stay in the cache until the softmax


def in_pieces(attend: Callable[[Any, Any, Any], Any], query: Any, key: Any, value: Any) -> Any:
    """`attend(query, key, value)`; if there are more than `LONG` queries, piece by piece.

    Args:
        attend: queries, float `[batch, some heads, some queries, size]`, and the keys and values of these heads ->
            float of the shape of the queries.
        query, key, value: float `[batch, heads, length, size]`.

    Returns:
        float of that shape.
    """
    length = ops.shape(query)[2]
    if isinstance(length, int):
        return _mapped(attend, query, key, value) if length > LONG else attend(query, key, value)
    if not shapes_may_vary():  # XLA would compile both branches
        return attend(query, key, value)
    return ops.cond(length > LONG, lambda: _mapped(attend, query, key, value), lambda: attend(query, key, value))


def _mapped(attend: Callable[[Any, Any, Any], Any], query: Any, key: Any, value: Any) -> Any:
    batch, _, length, size = ops.shape(query)
    piece = _SCORES // (batch * length) + 1
    pieces = (length + piece - 1) // piece

    def of_head(head: tuple[Any, Any, Any]) -> Any:
        """`[batch, length, size]` each -> float of that shape."""
        query, key, value = head
        padding = ops.zeros((batch, pieces * piece - length, size), query.dtype)
        query = ops.reshape(ops.concatenate([query, padding], axis=1), (batch, pieces, piece, size))
        key, value = ops.expand_dims(key, 1), ops.expand_dims(value, 1)
        found = _one_by_one(
            lambda some: attend(ops.expand_dims(some, 1), key, value)[:, 0], ops.transpose(query, (1, 0, 2, 3))
        )  # [pieces, batch, piece, size]
        return ops.reshape(ops.transpose(found, (1, 0, 2, 3)), (batch, pieces * piece, size))[:, :length]

    by_head = tuple(ops.transpose(each, (1, 0, 2, 3)) for each in (query, key, value))
    return ops.transpose(_one_by_one(of_head, by_head), (1, 0, 2, 3))


def _one_by_one(function: Callable[[Any], Any], values: Any) -> Any:
    """`ops.map`, one at a time: TensorFlow's default is ten at a time, with the memory of ten."""
    if keras.backend.backend() != "tensorflow":
        return ops.map(function, values)
    import tensorflow as tf

    dtype = values[0].dtype
    return tf.map_fn(function, values, fn_output_signature=dtype, parallel_iterations=1)

"""Attention of long texts, some queries at a time: its memory grows with the length, not with the square of it."""

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_bert.encoder.varying_shapes import shapes_may_vary

LONG = 1024  # from here on, the scores of all queries would be larger than a processor's caches
_SCORES = 2**24  # at a time, all heads and texts together; 64 MB


def in_pieces(attend: Callable[[Any], Any], query: Any) -> Any:
    """`attend(query)`; if there are more than `LONG` queries, piece by piece.

    Args:
        attend: float `[batch, heads, any number of queries, size]` -> float of that shape.
        query: float `[batch, heads, length, size]`.

    Returns:
        float of that shape.
    """
    length = ops.shape(query)[2]
    if isinstance(length, int):
        return _mapped(attend, query) if length > LONG else attend(query)
    if not shapes_may_vary():  # XLA would compile both ways
        return attend(query)
    return ops.cond(length > LONG, lambda: _mapped(attend, query), lambda: attend(query))


def _mapped(attend: Callable[[Any], Any], query: Any) -> Any:
    batch, heads, length, size = ops.shape(query)
    scores = batch * heads * length
    piece = _SCORES // scores + 1
    pieces = (length + piece - 1) // piece
    padding = ops.zeros((batch, heads, pieces * piece - length, size), query.dtype)
    query = ops.reshape(ops.concatenate([query, padding], axis=2), (batch, heads, pieces, piece, size))
    found = ops.map(attend, ops.transpose(query, (2, 0, 1, 3, 4)))  # [pieces, batch, heads, piece, size]
    found = ops.reshape(ops.transpose(found, (1, 2, 0, 3, 4)), (batch, heads, pieces * piece, size))
    return found[:, :, :length]

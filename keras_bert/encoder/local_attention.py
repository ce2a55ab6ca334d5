"""Local attention, at a cost proportional to the window (Beltagy et al. 2020, Longformer, section 3.1)."""

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_bert.encoder.layout import Layout

_NOWHERE = -1  # the sequence number of keys that no token attends to


class Band:
    """Splits rows into blocks, so that the window of each row lies in its own block and the two beside it.

    A block is as long as the reach of the window, or as a sequence if that is shorter. It may hold the end of one
    sequence and the start of the next: `mask` says which rows attend to each other.

    Args:
        layout: the tokens of the rows.
        reach: the largest distance at which a token attends to another.

    Attributes:
        mask: bool `[blocks, 1, block, 3 * block]`: whether a row (third axis) attends to another one (fourth axis).
    """

    def __init__(self, layout: Layout, reach: int) -> None:
        places, length = layout.places, layout.shape[1]
        self._rows = ops.shape(places)[0]
        self._block = (min if isinstance(length, int) else ops.minimum)(length, max(reach, 1))
        self._count = (self._rows + self._block - 1) // self._block
        sequences = places // length
        keys = sequences
        if layout.padding_mask is not None:
            keys = ops.where(layout.rows(layout.padding_mask) > 0, sequences, _NOWHERE)
        distance = self._from_to(places, places, lambda query, key: ops.abs(query - key))
        self.mask = (distance <= reach) & self._from_to(sequences, keys, ops.equal)
        if layout.document_ids is not None:
            documents = ops.cast(layout.rows(layout.document_ids), "int32")
            self.mask &= self._from_to(documents, documents, ops.equal)
        self.mask = ops.expand_dims(self.mask, 1)

    def blocks(self, rows: Any) -> Any:
        """`[rows, ...]` -> `[blocks, block, ...]`; the last block is filled up with zeros."""
        return self._cut(rows, 0, self._count)

    def neighbours(self, rows: Any, fill: int = 0) -> Any:
        """`[rows, ...]` -> `[blocks, 3 * block, ...]`: each block with the blocks before and after it."""
        blocks = self._cut(rows, 1, self._count + 2, fill)
        return ops.concatenate([blocks[:-2], blocks[1:-1], blocks[2:]], axis=1)

    def rows(self, blocks: Any) -> Any:
        """`[blocks, block, ...]` -> `[rows, ...]`."""
        rest = blocks.shape[2:]
        return ops.reshape(blocks, (self._count * self._block, *rest))[: self._rows]

    def _cut(self, rows: Any, before: int, count: Any, fill: int = 0) -> Any:
        """`count` blocks: the rows between blocks of `fill`, of which `before` come first."""
        rest = tuple(rows.shape[1:])
        after = (count - before) * self._block - self._rows
        parts = [ops.full((size, *rest), fill, rows.dtype) for size in (before * self._block, after)]
        return ops.reshape(ops.concatenate([parts[0], rows, parts[1]]), (count, self._block, *rest))

    def _from_to(self, queries: Any, keys: Any, function: Callable[[Any, Any], Any]) -> Any:
        """`function(query, key)` for all pairs in a band, from int `[rows]` each: `[blocks, block, 3 * block]`."""
        queries, keys = self.blocks(queries), self.neighbours(keys, _NOWHERE)
        return function(ops.expand_dims(queries, 2), ops.expand_dims(keys, 1))


def band_of(layout: Layout, reach: int) -> Band:
    """The band of a window, made once for all layers."""
    key = "band", reach
    if key not in layout.shared:
        layout.shared[key] = Band(layout, reach)
    return layout.shared[key]


def local_attention(query: Any, key: Any, value: Any, band: Band, weights: Callable[[Any, Any], Any]) -> Any:
    """Attention within the band.

    Args:
        query, key, value: float `[rows, num_heads, head_size]`.
        band: the window.
        weights: queries and keys of the blocks -> the weights of each query's keys.

    Returns:
        float `[rows, num_heads, head_size]`.
    """
    query = ops.transpose(band.blocks(query), (0, 2, 1, 3))  # [blocks, num_heads, block, head_size]
    key, value = (ops.transpose(band.neighbours(each), (0, 2, 1, 3)) for each in (key, value))
    context = ops.matmul(weights(query, key), value)
    return band.rows(ops.transpose(context, (0, 2, 1, 3)))

"""Layout: maps sequences to rows, so that layers compute tokens only, not padding (Zeng et al. 2022)."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import keras
import ml_dtypes
from keras import ops

from keras_bert import undocumented
from keras_bert.tensors import Tensor

if TYPE_CHECKING:
    from keras_bert.encoder.disentangled import Distances

# float32's most negative number masks scores. With -inf, the softmax of a row of only padding would be NaN.
LOWEST = -3.4028235e38

_are_fixed = contextvars.ContextVar("are_fixed", default=False)


@contextlib.contextmanager
def fixed_shapes() -> Iterator[None]:
    """Makes traced shapes depend only on the shapes of the inputs, inside a `with` block, as other runtimes need.

    Every position is then a row. The results at tokens stay the same. The results at padding are meaningless.
    """
    token = _are_fixed.set(True)
    try:
        yield
    finally:
        _are_fixed.reset(token)


def shapes_may_vary() -> bool:
    """Checks whether shapes may depend on values: only in TensorFlow, outside XLA and `fixed_shapes`."""
    if keras.backend.backend() != "tensorflow" or _are_fixed.get():
        return False
    return not undocumented.is_in_xla()


def gather(rows: Tensor, indices: Tensor) -> Tensor:
    """Gathers `rows[indices]` in TensorFlow. Unlike `ops.take`, it spends no operations on negative indices.

    Args:
        rows: `[n, ...]`.
        indices: int `[m]`, from 0 to n - 1.

    Returns:
        `[m, ...]`.
    """
    import tensorflow as tf

    return tf.gather(rows, indices)


class Layout:
    """Converts the tokens of a batch between sequences, `[batch, seq_length]`, and rows, one token each.

    Only attention needs sequences. All other layers, which are most of the work, compute rows. Padding has no rows,
    except where shapes are fixed: with XLA, with JAX, and under `fixed_shapes`, every position is a row.

    Args:
        shape: `(batch, seq_length)`, numbers or scalar tensors.
        padding_mask: int `[batch, seq_length]`, 1 = token, 0 = padding. None: there is no padding.
        document_ids: int `[batch, seq_length]`: the index of the text that each token belongs to, in its sequence.
            None: each sequence is one text.
        bias: float32 `[num_heads, seq_length, seq_length]`, which all layers add to their attention scores. None: 0.
        distances: the embeddings of relative positions. None: attention is not disentangled.
        half_window: the largest distance at which a token attends to another in layers with local attention: half of
            the window of `config.local_window` tokens.
        training: whether gradients will be computed.

    Attributes:
        shape, padding_mask, document_ids, bias, distances, half_window: as above.
        same_document: bool `[batch, seq_length, seq_length]`: whether two tokens are of the same text. None: all are.
    """

    def __init__(
        self,
        shape: tuple[int | Tensor, int | Tensor],
        padding_mask: Tensor | None = None,
        document_ids: Tensor | None = None,
        bias: Tensor | None = None,
        distances: Distances | None = None,
        half_window: int = 0,
        training: bool | None = None,
    ) -> None:
        self.shape = shape
        self.padding_mask = padding_mask
        self.document_ids = document_ids
        self.bias = bias
        self.distances = distances
        self.half_window = half_window
        self.same_document = None
        if document_ids is not None:
            self.same_document = ops.equal(ops.expand_dims(document_ids, 2), ops.expand_dims(document_ids, 1))
        self._training = training
        self._additive_masks: dict[tuple[bool, str], Tensor | None] = {}
        self._token_indices = None  # [rows]: each row's index in the flattened batch; None: every position is a row
        if padding_mask is not None and shapes_may_vary():
            mask = ops.reshape(padding_mask, (-1,)) > 0
            mask = mask | ~ops.any(mask)  # a batch of only padding is computed: there must be a row
            self._token_indices = ops.cast(ops.nonzero(mask)[0], "int32")
            # [batch * seq_length]: each position's row; padding has the row of the token before it, or the first row
            self._row_indices = ops.maximum(ops.cumsum(ops.cast(mask, "int32")) - 1, 0)

    @functools.cached_property
    def flat_indices(self) -> Tensor:
        """int32 `[rows]`: each row's index in the flattened batch, `[batch * seq_length]`."""
        if self._token_indices is not None:
            return self._token_indices
        return ops.arange(self.shape[0] * self.shape[1], dtype="int32")

    @property
    def positions(self) -> Tensor:
        """int32 `[rows]`: each row's position in its sequence."""
        return self.flat_indices % self.shape[1]

    def rows(self, sequences: Tensor) -> Tensor:
        """Selects the rows of sequences: `[batch, seq_length, ...]` -> `[rows, ...]`."""
        rows = ops.reshape(sequences, (-1, *sequences.shape[2:]))
        return rows if self._token_indices is None else gather(rows, self._token_indices)

    def cumulative_sum(self, values: Tensor) -> Tensor:
        """Computes the cumulative sums within each text: int32 `[batch, seq_length]` -> the same shape."""
        if self.same_document is None:
            return ops.cumsum(values, axis=1)
        is_up_to_token = ops.tril(ops.cast(self.same_document, "int32"))  # [batch, token, token before it]
        return ops.sum(is_up_to_token * ops.expand_dims(values, 1), axis=2)

    def sequences(self, rows: Tensor, zeros: bool = True) -> Tensor:
        """Puts rows into sequences: `[rows, ...]` -> `[batch, seq_length, ...]`.

        Args:
            rows: a row per token.
            zeros: whether to fill padding that has no rows with zeros. False: with arbitrary rows, which is faster;
                training fills with zeros nevertheless.
        """
        inner_shape = tuple(rows.shape[1:])
        if self._token_indices is not None:
            if zeros or self._training:
                positions = self.shape[0] * self.shape[1]
                rows = ops.scatter(ops.expand_dims(self._token_indices, 1), rows, (positions, *inner_shape))
            else:  # not in training: the gradient of `gather` is slower than the gradient of `scatter`
                rows = gather(rows, self._row_indices)
        return ops.reshape(rows, (*self.shape, *inner_shape))

    @functools.cached_property
    def band(self) -> Band:
        """The windows of local attention. All layers share them."""
        return Band(self, self.half_window)

    def mask_scores(self, scores: Tensor) -> Tensor:
        """Adds the bias to scores, and masks keys that are padding or in another text.

        Args:
            scores: float32 `[batch, num_heads, seq_length, seq_length]`.
        """
        if self.bias is not None:
            scores = scores + self.bias
        if self.padding_mask is not None:
            bias = (1.0 - ops.cast(self.padding_mask, "float32")) * LOWEST  # [batch, seq_length]
            scores = scores + ops.expand_dims(bias, (1, 2))
        if self.same_document is not None:
            scores = ops.where(ops.expand_dims(self.same_document, 1), scores, LOWEST)
        return scores

    def additive_mask(self, is_local: bool, dtype: str) -> Tensor | None:
        """Computes the masks and the bias as one tensor to add to scores. All layers share it.

        Use it in place of `mask_scores` or `band.mask` where an operation takes such a tensor, as in low precision.

        Args:
            is_local: whether the layer has local attention.
            dtype: the type of the scores.

        Returns:
            `[batch or 1, num_heads or 1, seq_length or 1, seq_length]`; for local attention
            `[blocks, 1, block, 3 * block]`. Very negative numbers mask keys. None: there is neither mask nor bias.
        """
        if (is_local, dtype) not in self._additive_masks:
            lowest, mask = float(ml_dtypes.finfo(dtype).min), None
            if is_local:
                mask = ops.where(self.band.mask, ops.cast(0, dtype), ops.cast(lowest, dtype))
            elif not (self.padding_mask is None and self.bias is None and self.same_document is None):
                # float32's most negative number would become infinite in bfloat16
                mask = ops.cast(ops.maximum(self.mask_scores(ops.zeros((1, 1, 1, 1), "float32")), lowest), dtype)
            self._additive_masks[is_local, dtype] = mask
        return self._additive_masks[is_local, dtype]


_NO_SEQUENCE = -1  # the sequence number of padding and of fill: no token attends to them


class Band:
    """The windows of local attention: rows in blocks, such that a row's window lies in its block and the two beside it.

    A block is here a run of consecutive rows, not a Transformer block. It has `min(half_window, seq_length)` rows, at
    least 1. It may hold the end of one sequence and the start of the next, so `mask` says which rows attend to each
    other.

    Args:
        layout: maps rows to sequences.
        half_window: the largest distance at which a token attends to another.

    Attributes:
        mask: bool `[blocks, 1, block, 3 * block]`: whether a row (third axis) attends to another row (fourth axis).
    """

    def __init__(self, layout: Layout, half_window: int) -> None:
        indices, length = layout.flat_indices, layout.shape[1]
        self._num_rows = ops.shape(indices)[0]
        self._block_size = (min if isinstance(length, int) else ops.minimum)(length, max(half_window, 1))
        self._num_blocks = (self._num_rows + self._block_size - 1) // self._block_size
        sequences = indices // length
        keys = sequences
        if layout.padding_mask is not None:
            keys = ops.where(layout.rows(layout.padding_mask) > 0, sequences, _NO_SEQUENCE)
        distance = self._compare_pairs(indices, indices, lambda query, key: ops.abs(query - key))
        self.mask = (distance <= half_window) & self._compare_pairs(sequences, keys, ops.equal)
        if layout.document_ids is not None:
            documents = ops.cast(layout.rows(layout.document_ids), "int32")
            self.mask &= self._compare_pairs(documents, documents, ops.equal)
        self.mask = ops.expand_dims(self.mask, 1)

    def blocks(self, rows: Tensor) -> Tensor:
        """Splits rows into blocks: `[rows, ...]` -> `[blocks, block, ...]`; the last block is padded with zeros."""
        return self._split_into_blocks(rows, 0, self._num_blocks)

    def neighbours(self, rows: Tensor, fill: int = 0) -> Tensor:
        """Joins each block with the blocks before and after it: `[rows, ...]` -> `[blocks, 3 * block, ...]`."""
        blocks = self._split_into_blocks(rows, 1, self._num_blocks + 2, fill)
        return ops.concatenate([blocks[:-2], blocks[1:-1], blocks[2:]], axis=1)

    def rows(self, blocks: Tensor) -> Tensor:
        """Joins blocks to rows: `[blocks, block, ...]` -> `[rows, ...]`."""
        inner_shape = blocks.shape[2:]
        return ops.reshape(blocks, (self._num_blocks * self._block_size, *inner_shape))[: self._num_rows]

    def _split_into_blocks(self, rows: Tensor, before: int | Tensor, count: int | Tensor, fill: int = 0) -> Tensor:
        """Splits rows into `count` blocks, after `before` blocks of `fill`, and fills up the last blocks."""
        inner_shape = tuple(rows.shape[1:])
        after = (count - before) * self._block_size - self._num_rows
        parts = [ops.full((size, *inner_shape), fill, rows.dtype) for size in (before * self._block_size, after)]
        return ops.reshape(ops.concatenate([parts[0], rows, parts[1]]), (count, self._block_size, *inner_shape))

    def _compare_pairs(self, queries: Tensor, keys: Tensor, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Computes `function(query, key)` for all pairs of a band: int `[rows]` -> `[blocks, block, 3 * block]`."""
        queries, keys = self.blocks(queries), self.neighbours(keys, _NO_SEQUENCE)
        return function(ops.expand_dims(queries, 2), ops.expand_dims(keys, 1))

"""Unpadding: layers compute tokens only, not padding (Zeng et al. 2022)."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from keras_bert import undocumented

if TYPE_CHECKING:
    from keras_bert.encoder.disentangled import Distances

_are_fixed = contextvars.ContextVar("are_fixed", default=False)


@contextlib.contextmanager
def fixed_shapes() -> Iterator[None]:
    """A block in which traced shapes depend on the shapes of the inputs only, as other runtimes need.

    Every position is then a row. The results at tokens stay the same; those at padding are meaningless.
    """
    token = _are_fixed.set(True)
    try:
        yield
    finally:
        _are_fixed.reset(token)


def shapes_may_vary() -> bool:
    """Whether shapes may depend on values: only in TensorFlow, outside XLA and `fixed_shapes`."""
    if keras.backend.backend() != "tensorflow" or _are_fixed.get():
        return False
    return not undocumented.is_in_xla()


def gathered(rows: Any, indices: Any) -> Any:
    """`rows[indices]` where shapes may vary, without the operations of `ops.take` for negative indices.

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
        padding_mask: int `[batch, seq_length]`, 1 = token, 0 = padding, or None: there is no padding.
        document_ids: int `[batch, seq_length]`: the number of each token's text in its sequence, or None: each
            sequence is one text.
        bias: float32 `[num_heads, seq_length, seq_length]`, which all layers add to their attention scores; None: 0.
        distances: the embeddings of distances, if attention is disentangled.
        training: whether gradients are computed.

    Attributes:
        shape, padding_mask, document_ids, bias, distances: as above.
        same_document: bool `[batch, seq_length, seq_length]`: whether two tokens are of the same text, or None.
        shared: values computed once for all layers, by name, such as the bands of local attention.
    """

    def __init__(
        self,
        shape: tuple[Any, Any],
        padding_mask: Any = None,
        document_ids: Any = None,
        bias: Any = None,
        distances: Distances | None = None,
        training: bool | None = None,
    ) -> None:
        self.shape = shape
        self.padding_mask = padding_mask
        self.document_ids = document_ids
        self.bias = bias
        self.distances = distances
        self.shared: dict[Any, Any] = {}
        self.same_document = None
        if document_ids is not None:
            self.same_document = ops.equal(ops.expand_dims(document_ids, 2), ops.expand_dims(document_ids, 1))
        self._training = training
        self._tokens = None  # [rows]: each row's index in the flat batch; None: every position is a row
        if padding_mask is not None and shapes_may_vary():
            mask = ops.reshape(padding_mask, (-1,)) > 0
            mask = mask | ~ops.any(mask)  # there must be a row: a batch of padding only is computed
            self._tokens = ops.cast(ops.nonzero(mask)[0], "int32")
            # [batch * seq_length]: each position's row; padding has that of the token before it, or the first one
            self._row_of = ops.maximum(ops.cumsum(ops.cast(mask, "int32")) - 1, 0)

    @functools.cached_property
    def places(self) -> Any:
        """int32 `[rows]`: each row's index in the flat batch."""
        if self._tokens is not None:
            return self._tokens
        return ops.arange(self.shape[0] * self.shape[1], dtype="int32")

    @property
    def positions(self) -> Any:
        """int32 `[rows]`: each row's position in its sequence."""
        return self.places % self.shape[1]

    def rows(self, sequences: Any) -> Any:
        """`[batch, seq_length, ...]` -> `[rows, ...]`."""
        rows = ops.reshape(sequences, (-1, *sequences.shape[2:]))
        return rows if self._tokens is None else gathered(rows, self._tokens)

    def cumulated(self, values: Any) -> Any:
        """int32 `[batch, seq_length]` -> the cumulative sums within each text."""
        if self.same_document is None:
            return ops.cumsum(values, axis=1)
        up_to = ops.tril(ops.cast(self.same_document, "int32"))  # [batch, token, token before it]
        return ops.sum(up_to * ops.expand_dims(values, 1), axis=2)

    def sequences(self, rows: Any, zeros: bool = True) -> Any:
        """`[rows, ...]` -> `[batch, seq_length, ...]`.

        Args:
            rows: a row per token.
            zeros: whether padding that has no rows gets zeros, or else any row, which is faster outside of training.
        """
        rest = tuple(rows.shape[1:])
        if self._tokens is not None:
            if zeros or self._training:
                positions = self.shape[0] * self.shape[1]
                rows = ops.scatter(ops.expand_dims(self._tokens, 1), rows, (positions, *rest))
            else:  # its gradient would be slower than that of `scatter`
                rows = gathered(rows, self._row_of)
        return ops.reshape(rows, (*self.shape, *rest))

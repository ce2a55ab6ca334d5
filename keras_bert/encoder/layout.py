"""Where pieces stand, so that padding need not be computed (the unpadded BERT of Zeng et al. 2022)."""

from typing import Any

import keras
from keras import ops


class Layout:
    """Where the pieces of a batch stand: in sequences, `[batch, seq_length]`, and one below the other, as rows.

    Only attention has to know which sequence a piece belongs to. All else is computed for each piece by itself, and is
    most of the work: it gets rows. Padding is not among them, except where shapes must be known beforehand: XLA
    compiles for fixed shapes (and so does JAX), so that there every position is a row.

    Args:
        shape: `(batch, seq_length)`, numbers or scalar tensors.
        padding_mask: int `[batch, seq_length]`, 1 = token, 0 = padding, or None: there is no padding.
        document_ids: int `[batch, seq_length]`: which of the texts of its sequence a piece is of, or None: each
            sequence is one text.

    Attributes:
        shape, padding_mask: as above.
        same_document: bool `[batch, seq_length, seq_length]`: whether two pieces are of the same text, or None.
    """

    def __init__(self, shape: tuple[Any, Any], padding_mask: Any = None, document_ids: Any = None) -> None:
        self.shape = shape
        self.padding_mask = padding_mask
        self.same_document = None
        if document_ids is not None:
            self.same_document = ops.equal(ops.expand_dims(document_ids, 2), ops.expand_dims(document_ids, 1))
        self._tokens = None  # [rows]: at which of the batch * seq_length positions a row stands; None: at its own
        if padding_mask is not None and _shapes_may_vary():
            self._tokens = ops.cast(ops.nonzero(ops.reshape(padding_mask, (-1,)))[0], "int32")

    def rows(self, sequences: Any) -> Any:
        """`[batch, seq_length, ...]` -> `[rows, ...]`."""
        rows = ops.reshape(sequences, (-1, *sequences.shape[2:]))
        return rows if self._tokens is None else ops.take(rows, self._tokens, axis=0)

    def cumulated(self, values: Any) -> Any:
        """int32 `[batch, seq_length]` -> the sum of the values of a text from its beginning up to each piece."""
        if self.same_document is None:
            return ops.cumsum(values, axis=1)
        up_to = ops.tril(ops.cast(self.same_document, "int32"))  # [batch, piece, piece before it]
        return ops.sum(up_to * ops.expand_dims(values, 1), axis=2)

    def sequences(self, rows: Any) -> Any:
        """`[rows, ...]` -> `[batch, seq_length, ...]`; zeros where padding was taken out."""
        rest = tuple(rows.shape[1:])
        if self._tokens is not None:
            positions = self.shape[0] * self.shape[1]
            rows = ops.scatter(ops.expand_dims(self._tokens, 1), rows, (positions, *rest))
        return ops.reshape(rows, (*self.shape, *rest))


def _shapes_may_vary() -> bool:
    """Whether the shape of a tensor may depend on values: in TensorFlow, unless XLA compiles."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return tf.__internal__.get_enclosing_xla_context() is None

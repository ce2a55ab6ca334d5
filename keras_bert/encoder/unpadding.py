"""Unpadding: which tokens of a batch are computed, so that layers compute no padding (Zeng et al. 2022)."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator

import keras
import ml_dtypes
from keras import ops

from keras_bert import undocumented
from keras_bert.tensors import Tensor

# float32's most negative number masks scores. With -inf, the softmax of a row of only padding would be NaN.
LOWEST = -3.4028235e38

_are_fixed = contextvars.ContextVar("are_fixed", default=False)


@contextlib.contextmanager
def fixed_shapes() -> Iterator[None]:
    """Makes traced shapes depend only on the inputs' shapes, as other runtimes need: padding is computed, too."""
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


def gather(values: Tensor, indices: Tensor) -> Tensor:
    """Gathers `values[indices]` in TensorFlow. Unlike `ops.take`, it spends no operations on negative indices."""
    import tensorflow as tf

    return tf.gather(values, indices)


class Unpadding:
    """Converts a batch between sequences, `[batch, seq_length, ...]`, and its tokens, `[tokens, ...]`."""

    # Only attention needs sequences. All other layers, which are most of the work, compute tokens. Padding is left out,
    # except where shapes are fixed: with XLA, with JAX, and under `fixed_shapes`, every position is computed.

    def __init__(
        self,
        shape: tuple[int | Tensor, int | Tensor],  # batch, seq_length
        padding_mask: Tensor | None = None,  # int [batch, seq_length], 1 = token; None: there is no padding
        half_window: int = 0,  # the largest distance at which tokens attend to each other in local attention
        training: bool | None = None,  # whether gradients will be computed
    ) -> None:
        self.shape = shape
        self.padding_mask = padding_mask
        self._half_window = half_window
        self._training = training
        self._token_indices = None  # [tokens]: each token's index in the flattened batch; None: all are computed
        if padding_mask is not None and shapes_may_vary():
            mask = ops.reshape(padding_mask, (-1,)) > 0
            mask = mask | ~ops.any(mask)  # a batch of only padding is computed: there must be a token
            self._token_indices = ops.cast(ops.nonzero(mask)[0], "int32")
            # [batch * seq_length]: each position's token; padding has the token before it, or the first one
            self._token_of_position = ops.maximum(ops.cumsum(ops.cast(mask, "int32")) - 1, 0)

    @functools.cached_property
    def flat_indices(self) -> Tensor:
        """int32 `[tokens]`: each token's index in the flattened batch, `[batch * seq_length]`."""
        if self._token_indices is not None:
            return self._token_indices
        return ops.arange(self.shape[0] * self.shape[1], dtype="int32")

    @property
    def positions(self) -> Tensor:
        """int32 `[tokens]`: each token's position in its sequence."""
        return self.flat_indices % self.shape[1]

    def tokens(self, sequences: Tensor) -> Tensor:
        """Selects the tokens of sequences: `[batch, seq_length, ...]` -> `[tokens, ...]`."""
        tokens = ops.reshape(sequences, (-1, *sequences.shape[2:]))
        return tokens if self._token_indices is None else gather(tokens, self._token_indices)

    def sequences(self, tokens: Tensor, zeros: bool = True) -> Tensor:
        """Puts tokens into sequences, `[batch, seq_length, ...]`; padding is 0, or anything with `zeros=False`."""
        inner_shape = tuple(tokens.shape[1:])
        if self._token_indices is not None:
            if zeros or self._training:
                positions = self.shape[0] * self.shape[1]
                tokens = ops.scatter(ops.expand_dims(self._token_indices, 1), tokens, (positions, *inner_shape))
            else:  # not in training: the gradient of `gather` is slower than the gradient of `scatter`
                tokens = gather(tokens, self._token_of_position)
        return ops.reshape(tokens, (*self.shape, *inner_shape))

    @functools.cached_property
    def band(self) -> Band:
        """The windows of local attention, which all layers share."""
        return Band(self, self._half_window)


class Band:
    """The windows of local attention: tokens in chunks, such that a token's window lies in three chunks."""

    # A chunk is a run of `min(half_window, seq_length)` tokens, at least 1. It may hold the end of one sequence and the
    # start of the next. Queries attend to their own chunk and to the two beside it (Beltagy et al. 2020, Longformer,
    # section 3.1), so cost and memory grow with the window.

    def __init__(self, unpadding: Unpadding, half_window: int) -> None:
        self.unpadding, self.half_window = unpadding, half_window
        length = unpadding.shape[1]
        self._tokens = ops.shape(unpadding.flat_indices)[0]
        self._chunk = (min if isinstance(length, int) else ops.minimum)(length, max(half_window, 1))
        self._chunks = (self._tokens + self._chunk - 1) // self._chunk

    def split(self, tokens: Tensor) -> Tensor:
        """Splits tokens into chunks: `[tokens, ...]` -> `[chunks, chunk, ...]`; the last chunk is padded with zeros."""
        return self._split(tokens, 0, self._chunks)

    def neighbours(self, tokens: Tensor, fill: int = 0) -> Tensor:
        """Joins each chunk with the chunks before and after it: `[tokens, ...]` -> `[chunks, 3 * chunk, ...]`."""
        chunks = self._split(tokens, 1, self._chunks + 2, fill)
        return ops.concatenate([chunks[:-2], chunks[1:-1], chunks[2:]], axis=1)

    def join(self, chunks: Tensor) -> Tensor:
        """Joins chunks to tokens: `[chunks, chunk, ...]` -> `[tokens, ...]`."""
        inner_shape = chunks.shape[2:]
        return ops.reshape(chunks, (self._chunks * self._chunk, *inner_shape))[: self._tokens]

    def compare(self, queries: Tensor, keys: Tensor, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Computes `function(query, key)` for all pairs in the band: int `[tokens]` -> `[chunks, chunk, 3 * chunk]`."""
        queries, keys = self.split(queries), self.neighbours(keys, _NO_SEQUENCE)
        return function(ops.expand_dims(queries, 2), ops.expand_dims(keys, 1))

    def _split(self, tokens: Tensor, before: int | Tensor, count: int | Tensor, fill: int = 0) -> Tensor:
        """Splits tokens into `count` chunks, after `before` chunks of `fill`, and fills up the last chunks."""
        inner_shape = tuple(tokens.shape[1:])
        after = (count - before) * self._chunk - self._tokens
        parts = [ops.full((size, *inner_shape), fill, tokens.dtype) for size in (before * self._chunk, after)]
        return ops.reshape(ops.concatenate([parts[0], tokens, parts[1]]), (count, self._chunk, *inner_shape))


# -- Masks: which tokens attend to each other.

_NO_SEQUENCE = -1  # the sequence number of padding and of fill: no token attends to them


def same_document(document_ids: Tensor) -> Tensor:
    """Compares the texts of all tokens: int `[batch, seq_length]` -> bool `[batch, seq_length, seq_length]`."""
    return ops.equal(ops.expand_dims(document_ids, 2), ops.expand_dims(document_ids, 1))


class AttentionMask:
    """Numbers to add to scores, so that no token attends to padding, to other texts, or outside its window."""

    # All layers share it. `document_ids`, int `[batch, seq_length]`, is the index of each token's text; None: all one.

    def __init__(self, unpadding: Unpadding, document_ids: Tensor | None = None) -> None:
        self._unpadding, self._document_ids = unpadding, document_ids
        self._cache: dict[tuple[bool, str], Tensor | None] = {}

    def additive(self, is_local: bool, dtype: str = "float32", bias: Tensor | None = None) -> Tensor | None:
        """Computes 0 or a very negative number, plus a bias, in the type of the scores; None: nothing to mask."""
        # `[batch or 1, num_heads or 1, seq_length or 1, seq_length]`; for local attention `[chunks, 1, chunk, 3 *
        # chunk]`.
        if (is_local, dtype) not in self._cache:
            mask = self._in_band() if is_local else self._in_sequences()
            if bias is not None:
                mask = bias[None] if mask is None else mask + bias
            if mask is not None and dtype != "float32":  # float32's lowest number would become infinite in bfloat16
                mask = ops.cast(ops.maximum(mask, float(ml_dtypes.finfo(dtype).min)), dtype)
            self._cache[is_local, dtype] = mask
        return self._cache[is_local, dtype]

    def _in_sequences(self) -> Tensor | None:
        mask, padding_mask = None, self._unpadding.padding_mask
        if padding_mask is not None:
            mask = ops.expand_dims((1.0 - ops.cast(padding_mask, "float32")) * LOWEST, (1, 2))
        if self._document_ids is not None:
            attends = ops.expand_dims(same_document(self._document_ids), 1)
            mask = ops.where(attends, ops.zeros((), "float32") if mask is None else mask, LOWEST)
        return mask

    def _in_band(self) -> Tensor:
        unpadding, band = self._unpadding, self._unpadding.band
        indices = unpadding.flat_indices
        sequences = keys = indices // unpadding.shape[1]
        if unpadding.padding_mask is not None:
            keys = ops.where(unpadding.tokens(unpadding.padding_mask) > 0, sequences, _NO_SEQUENCE)
        is_near = band.compare(indices, indices, lambda query, key: ops.abs(query - key)) <= band.half_window
        attends = is_near & band.compare(sequences, keys, ops.equal)
        if self._document_ids is not None:
            documents = ops.cast(unpadding.tokens(self._document_ids), "int32")
            attends &= band.compare(documents, documents, ops.equal)
        return ops.where(ops.expand_dims(attends, 1), ops.zeros((), "float32"), LOWEST)

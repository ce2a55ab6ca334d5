"""Poolings, which make one vector of several. Their rows in `choices.py` name these functions."""

from __future__ import annotations

from keras import ops

from keras_bert.tensors import Tensor

# -- Of windows: values along axis 1 where a mask, bool, is True


def largest(values: Tensor, mask: Tensor) -> Tensor:
    """Computes the largest values; it also takes an empty batch."""
    lowest = -3.4028235e38
    return ops.max(ops.where(mask, values, lowest), axis=1, initial=lowest)  # without `initial`, Keras refuses it


def total(values: Tensor, mask: Tensor) -> Tensor:
    """Adds the values."""
    return ops.sum(values * ops.cast(mask, values.dtype), axis=1)


# -- Of tokens: hidden states, `[batch, seq_length, hidden]`, where a mask, `[batch, seq_length, 1]`, is 1; all float32


def mean(hidden: Tensor, mask: Tensor) -> Tensor:
    return _weighted(hidden, _shares(mask))


def mean_by_root(hidden: Tensor, mask: Tensor) -> Tensor:
    return _weighted(hidden, mask / ops.sqrt(ops.maximum(_sum(mask), 1.0)))


def mean_by_position(hidden: Tensor, mask: Tensor) -> Tensor:
    return _weighted(hidden, _shares(mask * ops.cumsum(ops.ones_like(mask), axis=1)))  # from position 1


def maximum(hidden: Tensor, mask: Tensor) -> Tensor:
    return largest(hidden, mask > 0)


def first_token(hidden: Tensor, mask: Tensor) -> Tensor:
    return _weighted(hidden, mask * ops.cast(ops.cumsum(mask, axis=1) == 1.0, mask.dtype))


def last_token(hidden: Tensor, mask: Tensor) -> Tensor:
    return _weighted(hidden, mask * ops.cast(ops.cumsum(mask, axis=1) == _sum(mask), mask.dtype))


def _weighted(hidden: Tensor, weights: Tensor) -> Tensor:
    return ops.sum(hidden * weights, axis=1)


def _shares(mask: Tensor) -> Tensor:
    return mask / ops.maximum(_sum(mask), 1.0)


def _sum(mask: Tensor) -> Tensor:
    return ops.sum(mask, axis=1, keepdims=True)

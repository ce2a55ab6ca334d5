"""Poolings, which make one vector of a text's hidden states. Each has its name in `choices.POOLINGS`, too."""

from __future__ import annotations

from collections.abc import Callable

from keras import ops

from keras_bert.tensors import Tensor


def _sum(mask: Tensor) -> Tensor:
    return ops.sum(mask, axis=1, keepdims=True)


def _mean(mask: Tensor) -> Tensor:
    return mask / ops.maximum(_sum(mask), 1.0)


def largest(values: Tensor, mask: Tensor) -> Tensor:
    """Computes the largest values along axis 1 where a mask, bool, is True; it also takes an empty batch."""
    lowest = -3.4028235e38
    return ops.max(ops.where(mask, values, lowest), axis=1, initial=lowest)  # without `initial`, Keras refuses it


def total(values: Tensor, mask: Tensor) -> Tensor:
    """Adds the values along axis 1 where a mask, bool, is True."""
    return ops.sum(values * ops.cast(mask, values.dtype), axis=1)


def pooled(pooling: str, hidden: Tensor, mask: Tensor) -> Tensor:
    """Pools hidden states, `[batch, seq_length, hidden]`, where a mask, `[batch, seq_length, 1]`, is 1; all float32."""
    return _POOLINGS[pooling](hidden, mask)


def _weighted(weights: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Makes a pooling of a function: mask -> the weights of a text's tokens, both float32 `[batch, seq_length, 1]`."""
    return lambda hidden, mask: ops.sum(hidden * weights(mask), axis=1)


# Name -> its function, of hidden states and mask as above.
_POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "max": lambda hidden, mask: largest(hidden, mask > 0),
    "mean": _weighted(_mean),
    "mean_sqrt_len_tokens": _weighted(lambda mask: mask / ops.sqrt(ops.maximum(_sum(mask), 1.0))),
    "weightedmean": _weighted(lambda mask: _mean(mask * ops.cumsum(ops.ones_like(mask), axis=1))),  # from position 1
    "cls": _weighted(lambda mask: mask * ops.cast(ops.cumsum(mask, axis=1) == 1.0, mask.dtype)),
    "lasttoken": _weighted(lambda mask: mask * ops.cast(ops.cumsum(mask, axis=1) == _sum(mask), mask.dtype)),
}

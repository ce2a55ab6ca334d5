"""Poolings, which make one vector of a text's hidden states. To add one, add a line to the table below."""

from __future__ import annotations

from collections.abc import Callable

from keras import ops

from keras_bert.tensors import Tensor


def _count_tokens(mask: Tensor) -> Tensor:
    return ops.sum(mask, axis=1, keepdims=True)


def _mean(mask: Tensor) -> Tensor:
    return mask / ops.maximum(_count_tokens(mask), 1.0)


def _mean_sqrt_len_tokens(mask: Tensor) -> Tensor:
    return mask / ops.sqrt(ops.maximum(_count_tokens(mask), 1.0))


def _weightedmean(mask: Tensor) -> Tensor:
    positions = mask * ops.cumsum(ops.ones_like(mask), axis=1)  # from 1
    return positions / ops.maximum(_count_tokens(positions), 1.0)


def _cls(mask: Tensor) -> Tensor:
    return mask * ops.cast(ops.cumsum(mask, axis=1) == 1.0, mask.dtype)


def _lasttoken(mask: Tensor) -> Tensor:
    return mask * ops.cast(ops.cumsum(mask, axis=1) == _count_tokens(mask), mask.dtype)


# Each pooling is a function: mask -> the weights of a text's tokens, both float32 `[batch, seq_length, 1]`.
_WEIGHTS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_sqrt_len_tokens,
    "weightedmean": _weightedmean,
    "cls": _cls,
    "lasttoken": _lasttoken,
}


def largest(values: Tensor, mask: Tensor) -> Tensor:
    """Computes the largest values along axis 1 where a mask, bool, is True; it also takes an empty batch."""
    lowest = -3.4028235e38
    return ops.max(ops.where(mask, values, lowest), axis=1, initial=lowest)  # without `initial`, Keras refuses it


def pooled(pooling: str, hidden: Tensor, mask: Tensor) -> Tensor:
    """Pools hidden states, `[batch, seq_length, hidden]`, where a mask, `[batch, seq_length, 1]`, is 1; all float32."""
    if pooling == "max":
        return largest(hidden, mask > 0)
    return ops.sum(hidden * _WEIGHTS[pooling](mask), axis=1)

"""Poolings: the hidden states of a text -> one vector. A pooling is a line in the table below."""

from __future__ import annotations

from collections.abc import Callable

from keras import ops

from keras_bert.tensors import Tensor


def _number(mask: Tensor) -> Tensor:
    return ops.sum(mask, axis=1, keepdims=True)


def _mean(mask: Tensor) -> Tensor:
    return mask / ops.maximum(_number(mask), 1.0)


def _mean_sqrt_len_tokens(mask: Tensor) -> Tensor:
    return mask / ops.sqrt(ops.maximum(_number(mask), 1.0))


def _weightedmean(mask: Tensor) -> Tensor:
    positions = mask * ops.cumsum(ops.ones_like(mask), axis=1)  # from 1
    return positions / ops.maximum(_number(positions), 1.0)


def _cls(mask: Tensor) -> Tensor:
    return mask * ops.cast(ops.cumsum(mask, axis=1) == 1.0, mask.dtype)


def _lasttoken(mask: Tensor) -> Tensor:
    return mask * ops.cast(ops.cumsum(mask, axis=1) == _number(mask), mask.dtype)


# Pooling -> the weights of a text's tokens, from the mask; float32 `[batch, seq_length, 1]` each.
_WEIGHTS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_sqrt_len_tokens,
    "weightedmean": _weightedmean,
    "cls": _cls,
    "lasttoken": _lasttoken,
}


def pooled(pooling: str, hidden: Tensor, mask: Tensor) -> Tensor:
    """float32 `[batch, seq_length, hidden]`, float32 `[batch, seq_length, 1]` (1 = token) -> `[batch, hidden]`."""
    if pooling == "max":
        return ops.max(ops.where(mask > 0, hidden, -3.4028235e38), axis=1)
    return ops.sum(hidden * _WEIGHTS[pooling](mask), axis=1)

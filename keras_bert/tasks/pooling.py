"""The hidden states of a text -> one vector; the names are those of sentence-transformers."""

from __future__ import annotations

from typing import Any

from keras import ops


def pooled(pooling: str, hidden: Any, mask: Any) -> Any:
    """float32 `[batch, seq_length, hidden]`, float32 `[batch, seq_length, 1]` (1 = token) -> `[batch, hidden]`."""
    if pooling == "max":
        return ops.max(ops.where(mask > 0, hidden, -3.4028235e38), axis=1)
    total, number = ops.sum(mask, axis=1, keepdims=True), ops.cumsum(mask, axis=1)  # of each token, from 1
    if pooling == "mean":
        weights = mask / ops.maximum(total, 1.0)
    elif pooling == "mean_sqrt_len_tokens":
        weights = mask / ops.sqrt(ops.maximum(total, 1.0))
    elif pooling == "weightedmean":
        positions = mask * ops.cumsum(ops.ones_like(mask), axis=1)
        weights = positions / ops.maximum(ops.sum(positions, axis=1, keepdims=True), 1.0)
    else:
        chosen = number == (1.0 if pooling == "cls" else total)
        weights = mask * ops.cast(chosen, mask.dtype)
    return ops.sum(hidden * weights, axis=1)

"""Batches of examples of similar length, in another order every epoch."""

from __future__ import annotations

import numpy as np

# Rows are sorted by length within groups of this many batches. The lengths in a batch are then almost equal, and the
# order of an epoch is still random.
_BATCHES_AT_A_TIME = 50


def batches_of_epoch(
    lengths: np.ndarray, seed: int, epoch: int, batch_size: int | None = None, batch_tokens: int | None = None
) -> list[np.ndarray]:
    """The batches of one epoch; every row is in exactly one. The same arguments always give the same batches.

    Args:
        lengths: int `[examples]`, in tokens.
        seed: the seed of the run.
        epoch: the number of the epoch, from 0.
        batch_size: rows per batch; give this or `batch_tokens`.
        batch_tokens: the most tokens in a batch, padding included; a longer row is a batch of its own.

    Returns:
        The row numbers of each batch, int64 `[rows]`.

    Example:
        >>> batches = batches_of_epoch(np.array([3, 9, 3, 9]), seed=0, epoch=0, batch_size=2)
        >>> sorted(sorted(batch.tolist()) for batch in batches)
        [[0, 2], [1, 3]]
    """
    if (batch_size is None) == (batch_tokens is None):
        raise ValueError(f"batch_size is {batch_size} and batch_tokens {batch_tokens}; give exactly one of them")
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))
    rows_a_batch = batch_size or max(1, int(batch_tokens / np.mean(lengths)))
    at_a_time = rows_a_batch * _BATCHES_AT_A_TIME
    batches = []
    for start in range(0, len(order), at_a_time):
        rows = order[start : start + at_a_time]
        rows = rows[np.argsort(-lengths[rows], kind="stable")]
        while len(rows):
            count = batch_size or max(1, batch_tokens // int(lengths[rows[0]]))
            batches.append(rows[:count])
            rows = rows[count:]
    return [batches[i] for i in generator.permutation(len(batches))]


def padding_share(lengths: np.ndarray, batches: list[np.ndarray]) -> float:
    """The share of padding among the tokens of all batches: 0 to 1."""
    padded = sum(len(rows) * int(lengths[rows].max()) for rows in batches)
    return 1 - sum(int(lengths[rows].sum()) for rows in batches) / padded

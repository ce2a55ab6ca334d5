"""Which examples go into which batch: rows of similar length together, in another order every epoch."""

from __future__ import annotations

import numpy as np

# Rows are sorted by length among so many batches at a time: lengths within a batch are then almost equal, and the order
# of an epoch is still random.
_BATCHES_AT_A_TIME = 50


def batches_of_epoch(
    lengths: np.ndarray, seed: int, epoch: int, batch_size: int | None = None, batch_tokens: int | None = None
) -> list[np.ndarray]:
    """The batches of one epoch: every row in exactly one of them. The same for the same arguments, always.

    Args:
        lengths: int `[examples]`, in pieces.
        seed: of the run.
        epoch: number of the epoch, from 0.
        batch_size: rows a batch; or else
        batch_tokens: the most pieces in a batch, its padding included; a longer row is a batch of its own.

    Returns:
        int64 `[rows]` each: row numbers.

    Example:
        >>> batches = batches_of_epoch(np.array([3, 9, 3, 9]), seed=0, epoch=0, batch_size=2)
        >>> sorted(sorted(batch.tolist()) for batch in batches)
        [[0, 2], [1, 3]]
    """
    if (batch_size is None) == (batch_tokens is None):
        raise ValueError(f"batch_size is {batch_size} and batch_tokens {batch_tokens}: give one of the two")
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
    """How much of all that is computed is padding: 0 to 1."""
    padded = sum(len(rows) * int(lengths[rows].max()) for rows in batches)
    return 1 - sum(int(lengths[rows].sum()) for rows in batches) / padded

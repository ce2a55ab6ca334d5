"""Makes batches of examples of similar length, in another order every epoch, and holds out validation examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import tensorflow as tf

from keras_bert.tasks.columns import columns_of, plain, plain_labels

if TYPE_CHECKING:
    from keras_bert.tasks.columns import Labels, Texts

# Rows are sorted by length within groups of this many batches. The lengths in a batch are then almost equal, and the
# order of an epoch is still random.
_BATCHES_PER_GROUP = 50

Labelled: TypeAlias = "tuple[Texts, Labels | None]"  # examples and their labels, as `fine_tune` takes them


def batches_of_epoch(
    lengths: np.ndarray, seed: int, epoch: int, batch_size: int | None = None, batch_tokens: int | None = None
) -> list[np.ndarray]:
    """Divides examples into the batches of one epoch. The same arguments always give the same batches.

    Every row is in exactly one batch. Rows of a batch have similar lengths, so that little is padded.

    Args:
        lengths: int `[examples]`, in tokens.
        seed: the seed of the run.
        epoch: the number of the epoch, from 0.
        batch_size: rows per batch. Pass either this or `batch_tokens`.
        batch_tokens: the most tokens in a batch, with padding; a longer row is a batch of its own.

    Returns:
        The row numbers of each batch, int64 `[rows]`.

    Raises:
        ValueError: neither or both of `batch_size` and `batch_tokens` are passed.

    Example:
        >>> batches = batches_of_epoch(np.array([3, 9, 3, 9]), seed=0, epoch=0, batch_size=2)
        >>> sorted(sorted(batch.tolist()) for batch in batches)
        [[0, 2], [1, 3]]
    """
    if (batch_size is None) == (batch_tokens is None):
        raise ValueError(f"batch_size is {batch_size} and batch_tokens is {batch_tokens}; pass exactly one of them")
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))
    tokens = batch_tokens or 0
    rows_per_batch = batch_size or max(1, int(tokens / np.mean(lengths)))
    rows_per_group = rows_per_batch * _BATCHES_PER_GROUP
    batches = []
    for start in range(0, len(order), rows_per_group):
        rows = order[start : start + rows_per_group]
        rows = rows[np.argsort(-lengths[rows], kind="stable")]
        while len(rows):
            count = batch_size or max(1, tokens // int(lengths[rows[0]]))
            batches.append(rows[:count])
            rows = rows[count:]
    return [batches[i] for i in generator.permutation(len(batches))]


# -- Holds out a share of the training examples for validation.


def hold_out(examples: Labelled, share: float, seed: int) -> tuple[Labelled, Labelled]:
    """Splits examples at random into two parts. The same arguments always give the same split.

    Args:
        examples: `(x, y)`, as `fine_tune` takes them.
        share: the share of the examples to hold out, between 0 and 1.
        seed: the seed of the split.

    Returns:
        The examples to train on and the held-out examples, both in their original order.

    Raises:
        ValueError: one of the two parts would be empty, or the numbers of examples and labels differ.

    Example:
        >>> hold_out((["a", "b", "c", "d"], [1, 2, 3, 4]), share=0.25, seed=1)
        ((['a', 'b', 'c'], [1, 2, 3]), (['d'], [4]))
    """
    x, y = plain(examples[0]), plain_labels(examples[1])
    columns = [*columns_of(x, None), *([] if y is None else [y])]
    counts = {len(column) for column in columns}
    if len(counts) > 1:
        raise ValueError(
            f"the examples and their labels differ in number: {' and '.join(f'{each:,}' for each in sorted(counts))}"
        )
    (count,) = counts
    held_out = round(share * count)
    if not 0 < held_out < count:
        raise ValueError(
            f"validation_split is {share}, which holds out {held_out:,} of {count:,} examples and leaves "
            f"{count - held_out:,} to train on; choose a share that leaves some of both"
        )
    order = np.random.default_rng([seed, count]).permutation(count)
    training_rows, validation_rows = np.sort(order[held_out:]), np.sort(order[:held_out])
    return (_take(x, training_rows), _take(y, training_rows)), (_take(x, validation_rows), _take(y, validation_rows))


def _take(column: Any, rows: np.ndarray) -> Any:
    """Selects rows of texts, pairs (a tuple of two columns) or labels."""
    if column is None:  # there are no labels
        return None
    if isinstance(column, tuple):
        return tuple(_take(each, rows) for each in column)
    if tf.is_tensor(column):
        return tf.gather(column, rows)
    return column[rows] if isinstance(column, np.ndarray) else [column[i] for i in rows]

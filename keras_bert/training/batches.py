"""Makes batches of examples of similar length, in another order every epoch, and holds out validation examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from keras_bert.answers.columns import Labels, Texts

# Rows are sorted by length within groups of this many batches. The lengths in a batch are then almost equal, and the
# order of an epoch is still random.
_BATCHES_PER_GROUP = 50

Labelled: TypeAlias = "tuple[Texts, Labels | None]"  # examples and their labels, as `checked_examples` returns them


def batches_of_epoch(
    lengths: np.ndarray, seed: int, epoch: int, batch_size: int | None = None, batch_tokens: int | None = None
) -> list[np.ndarray]:
    """Divides examples of these lengths, in tokens, into batches of one of the two sizes: the row numbers of each."""
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
            count = batch_size or max(1, tokens // int(lengths[rows[0]]))  # a longer row is a batch of its own
            batches.append(rows[:count])
            rows = rows[count:]
    return [batches[i] for i in generator.permutation(len(batches))]


def columns_in(x: Texts) -> tuple[Any, ...]:
    """Lists the columns of texts of `Labelled`."""
    return x if isinstance(x, tuple) else (x,)


# -- Holds out a share of the training examples for validation.


def hold_out(examples: Labelled, share: float, seed: int) -> tuple[Labelled, Labelled]:
    """Splits examples at random into those to train on and a share that is held out, both in their original order."""
    x, y = examples
    counts = {len(column) for column in (*columns_in(x), y) if column is not None}
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

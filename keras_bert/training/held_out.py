"""Holds out a share of the training examples for validation."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.tasks.columns import columns_of, plain, plain_labels


def hold_out(examples: tuple[Any, Any], share: float, seed: int) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Splits examples at random; the same arguments always give the same split.

    Args:
        examples: `(x, y)`, as `fine_tune` takes them.
        share: between 0 and 1: the share of the examples to hold out.
        seed: the seed of the split.

    Returns:
        The examples to train on and the held-out examples, both in the given order.

    Raises:
        ValueError: one of the two would be empty, or the numbers of examples and labels differ.

    Example:
        >>> hold_out((["a", "b", "c", "d"], [1, 2, 3, 4]), share=0.25, seed=1)
        ((['a', 'b', 'c'], [1, 2, 3]), (['d'], [4]))
    """
    x, y = plain(examples[0]), plain_labels(examples[1])
    columns = [*columns_of(x, None), *([] if y is None else [y])]
    counts = {len(column) for column in columns}
    if len(counts) > 1:
        raise ValueError(f"there are {' and '.join(f'{each:,}' for each in sorted(counts))} examples and labels")
    (count,) = counts
    held = round(share * count)
    if not 0 < held < count:
        raise ValueError(
            f"validation_split is {share}, which holds out {held:,} of {count:,} examples and leaves {count - held:,} "
            "to train on; neither may be empty"
        )
    order = np.random.default_rng([seed, count]).permutation(count)
    parts = np.sort(order[held:]), np.sort(order[:held])
    return tuple((_chosen(x, rows), _chosen(y, rows)) for rows in parts)


def _chosen(column: Any, rows: np.ndarray) -> Any:
    """Some rows of texts, pairs (a tuple of two columns) or labels."""
    if column is None:  # there are no labels
        return None
    if isinstance(column, tuple):
        return tuple(_chosen(each, rows) for each in column)
    if tf.is_tensor(column):
        return tf.gather(column, rows)
    return column[rows] if isinstance(column, np.ndarray) else [column[i] for i in rows]

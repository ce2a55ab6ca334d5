"""The arguments of losses: vectors of columns of texts, and scores."""

from __future__ import annotations

from typing import Any

from keras import ops

LOWEST = -1e9  # of float32 scores: its exponential is 0


def columns_of_vectors(vectors: Any, least: int, most: int | None = 0, normalize: bool = True) -> list[Any]:
    """Vectors `[batch, columns, size]` -> the vectors of each column, `[batch, size]`, by default of length 1.

    Args:
        vectors: the output of a `BertSentenceEncoder`.
        least: the fewest columns that the loss takes.
        most: the most columns; by default `least`; None: any number.
        normalize: whether to give them length 1.

    Raises:
        ValueError: there are fewer columns, or more.
    """
    most = least if most == 0 else most
    found = vectors.shape[1] if len(vectors.shape) == 3 else 1
    if found < least or (most and found > most):
        expected = f"{least}" if most else f"{least} or more"
        raise ValueError(f"the model was given {found} columns of texts; this loss compares {expected}")
    vectors = ops.cast(vectors, "float32")
    vectors = ops.normalize(vectors, axis=-1) if normalize else vectors
    return [vectors[:, column] for column in range(found)]


def numbers(y_true: Any) -> Any:
    """Scores or labels -> float32 `[batch]`."""
    return ops.reshape(ops.cast(y_true, "float32"), (-1,))


def distances(one: Any, other: Any) -> Any:
    """Vectors `[batch, size]` each -> their distances, `[batch]`. The root would have no gradient at 0."""
    return ops.sqrt(ops.maximum(ops.sum(ops.square(one - other), axis=-1), 1e-12))

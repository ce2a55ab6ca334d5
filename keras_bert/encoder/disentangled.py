"""Disentangled attention: tokens also attend by distance (He et al. 2020, DeBERTa, section 3.1)."""

import math
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_bert.encoder.layout import shapes_may_vary
from keras_bert.tensors import Tensor


class Distances(NamedTuple):
    """The embeddings of the distances between the tokens of a text.

    Attributes:
        rows: float `[rows, hidden]`, one row per bucket.
        row_indices: int32 `[2 * length - 1]`: the row of each distance (the query's position minus the key's), from
            `length - 1` down to `1 - length`.
    """

    rows: Tensor
    row_indices: Tensor


def buckets_of_distances(side: int, positions: int) -> np.ndarray:
    """Computes the bucket of each distance, as DeBERTaV3's code does (He et al. 2021).

    Distances up to `side / 2` have a bucket each. Longer distances share buckets, whose ranges grow exponentially. (The
    formula in section 3.1 of the DeBERTa paper has no logarithm.)

    Args:
        side: the number of buckets on either side.
        positions: the length of the longest text.

    Returns:
        int32 `[positions]`: the buckets of the distances 0, 1, 2, ...

    Example:
        >>> buckets_of_distances(8, 20)
        array([0, 1, 2, 3, 4, 5, 5, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7],
              dtype=int32)
    """
    exact = side // 2
    near, far = np.arange(min(exact + 1, positions)), np.arange(exact + 1, positions, dtype=np.float32)
    steps = np.log(far / np.float32(exact)) / np.float32(math.log(max(positions - 1, 2) / exact)) * (exact - 1)
    return np.concatenate([near, np.ceil(steps) + exact]).astype(np.int32)


def select_distances(table: Tensor, positions: int, length: int | Tensor) -> Distances:
    """Selects the table's rows for the distances in texts of one length.

    Args:
        table: float `[2 * side, hidden]`; row `side` is the distance 0.
        positions: the length of the longest text.
        length: the length of the texts, a number or a scalar tensor.
    """
    side = table.shape[0] // 2
    buckets = buckets_of_distances(side, positions)
    if isinstance(length, int):
        longest = int(buckets[min(length, positions) - 1])
    else:
        longest = ops.take(buckets, length - 1) if shapes_may_vary() else side
    buckets_by_distance = ops.convert_to_tensor(buckets)[:length]
    row_indices = ops.concatenate([ops.flip(buckets_by_distance), -buckets_by_distance[1:]], axis=0) + longest
    return Distances(table[side - longest : side + longest + 1], row_indices)


def distance_scores(
    query: Tensor, key: Tensor, distance_query: Tensor, distance_key: Tensor, row_indices: Tensor
) -> Tensor:
    """Computes the content-to-position plus the position-to-content scores (equation 3 of the paper).

    `score_ij = query_i distance_key_d + key_j distance_query_d`, where d is the distance from token i to token j.

    Args:
        query, key: float `[batch, num_heads, length, head_size]`, of tokens.
        distance_query, distance_key: float `[num_heads, rows, head_size]`, of distances.
        row_indices: the row of each distance, see `Distances`.

    Returns:
        float `[batch, num_heads, length, length]`: query i (third axis), key j (fourth axis).
    """
    distance_key, distance_query = (
        ops.transpose(ops.take(rows, order, axis=1), (0, 2, 1))  # [num_heads, head_size, 2 * length - 1]
        for rows, order in ((distance_key, row_indices), (distance_query, ops.flip(row_indices)))
    )
    to_position, from_position = (
        _diagonals(ops.matmul(query, distance_key)),
        _diagonals(ops.matmul(key, distance_query)),
    )
    return to_position + ops.transpose(from_position, (0, 1, 3, 2))


def _diagonals(x: Tensor) -> Tensor:
    """Selects `y[i, j] = x[i, j - i + n - 1]`: float `[batch, heads, n, 2n - 1]` -> `[batch, heads, n, n]`.

    Each row of 2n - 1 numbers is padded to 2n. Read again as rows of 2n - 1, row i starts i numbers earlier.
    """
    batch, heads, length, distances = ops.shape(x)
    x = ops.reshape(ops.pad(x, [[0, 0], [0, 0], [0, 0], [0, 1]]), (batch, heads, length * (distances + 1)))
    return ops.reshape(x[:, :, length - 1 : -1], (batch, heads, length, distances))[..., :length]

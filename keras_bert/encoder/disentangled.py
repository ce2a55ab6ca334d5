"""Disentangled attention: tokens also attend by distance (He et al. 2020, DeBERTa, section 3.1)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from keras import ops

from keras_bert.encoder.unpadding import shapes_may_vary
from keras_bert.tensors import Tensor


@dataclass(frozen=True)  # Keras would cast a tuple's floats to its compute dtype
class Distances:
    """The embeddings of the distances between the tokens of a text, one for each bucket of distances."""

    vectors: Tensor  # float [buckets, hidden]
    # int32 [2 * length - 1]: the vector of each distance (the query's position minus the key's), from `length - 1` down
    # to `1 - length`
    indices: Tensor

    def scores(
        self, query: Tensor, key: Tensor, scale: float, project: Callable[[Tensor], tuple[Tensor, Tensor]]
    ) -> Tensor:
        """Computes what distances, mapped by `project`, add to scores: float32 `[batch, num_heads, length, length]`."""
        scores = distance_scores(query * scale, key * scale, *project(self.vectors), self.indices)
        return ops.cast(scores, "float32")


def buckets_of_distances(side: int, positions: int) -> np.ndarray:
    """Computes the buckets of the distances 0, 1, ..., `positions - 1`, as DeBERTaV3's code does (He et al. 2021)."""
    # Distances up to `side / 2` have a bucket each. Longer distances share buckets, whose ranges grow exponentially.
    # (The formula in section 3.1 of the DeBERTa paper has no logarithm.)
    exact = side // 2
    near, far = np.arange(min(exact + 1, positions)), np.arange(exact + 1, positions, dtype=np.float32)
    steps = np.log(far / np.float32(exact)) / np.float32(math.log(max(positions - 1, 2) / exact)) * (exact - 1)
    return np.concatenate([near, np.ceil(steps) + exact]).astype(np.int32)


def select_distances(vectors: Tensor, positions: int, length: int | Tensor) -> Distances:
    """Selects a text's distances from those of `positions` tokens, `[2 * side, hidden]`; `side` is distance 0."""
    side = vectors.shape[0] // 2
    buckets = buckets_of_distances(side, positions)
    if isinstance(length, int):
        longest = int(buckets[min(length, positions) - 1])
    else:
        longest = ops.take(buckets, length - 1) if shapes_may_vary() else side
    buckets_by_distance = ops.convert_to_tensor(buckets)[:length]
    indices = ops.concatenate([ops.flip(buckets_by_distance), -buckets_by_distance[1:]], axis=0) + longest
    return Distances(vectors[side - longest : side + longest + 1], indices)


def distance_scores(
    query: Tensor, key: Tensor, distance_query: Tensor, distance_key: Tensor, indices: Tensor
) -> Tensor:
    """Computes the content-to-position plus the position-to-content scores (equation 3 of the paper).

    `score_ij = query_i distance_key_d + key_j distance_query_d`, where d is the distance from token i to token j.
    """
    distance_key, distance_query = (
        ops.transpose(ops.take(vectors, order, axis=1), (0, 2, 1))  # [num_heads, head_size, 2 * length - 1]
        for vectors, order in ((distance_key, indices), (distance_query, ops.flip(indices)))
    )
    to_position = _diagonals(ops.matmul(query, distance_key))
    from_position = _diagonals(ops.matmul(key, distance_query))
    return to_position + ops.transpose(from_position, (0, 1, 3, 2))


def _diagonals(x: Tensor) -> Tensor:
    """Selects `y[i, j] = x[i, j - i + n - 1]`: float `[batch, heads, n, 2n - 1]` -> `[batch, heads, n, n]`."""
    # Each row of 2n - 1 numbers is padded to 2n. Read again as rows of 2n - 1, row i starts i numbers earlier.
    batch, heads, length, distances = ops.shape(x)
    x = ops.reshape(ops.pad(x, [[0, 0], [0, 0], [0, 0], [0, 1]]), (batch, heads, length * (distances + 1)))
    return ops.reshape(x[:, :, length - 1 : -1], (batch, heads, length, distances))[..., :length]

"""Positions inside attention: rotary embeddings, and a bias for the distance of two tokens."""

import math

import numpy as np
from keras import ops

from keras_bert.encoder.layers import EmbeddingTable
from keras_bert.tensors import Tensor


def rotate(x: Tensor, positions: Tensor, theta: float, factor: float = 1.0) -> Tensor:
    """Rotates queries or keys by angles that grow with the position.

    Elements i and i + d/2 of a head are the coordinates of point i. At position p, point i is rotated by the angle
    `p theta^(-2i/d)`. The positions then enter the product of a query and a key only by their distance.

    Args:
        x: float `[rows, ..., d]`; d is even.
        positions: int `[rows]`.
        theta: the base of the angles; points rotate more slowly with a larger base.
        factor: divides the angle of point i by `factor^(2(i + 1)/d)`.

    Returns:
        float of the shape and type of `x`; the angles are float32.

    Example:
        >>> from keras import ops
        >>> rotated = rotate(ops.ones((3, 2)), ops.arange(3), theta=10_000.0)  # by 0, 1 and 2 radians
        >>> [f"{float(first):.2f} {float(second):.2f}" for first, second in rotated]
        ['1.00 1.00', '-0.30 1.38', '-1.33 0.49']
    """
    half = x.shape[-1] // 2
    points = np.arange(half, dtype=np.float32)
    frequencies = (1 / (theta ** (points / half) * factor ** ((points + 1) / half))).astype(np.float32)
    angles = ops.expand_dims(ops.cast(positions, "float32"), 1) * frequencies  # [rows, d / 2]
    angles = ops.reshape(angles, (-1, *[1] * (len(x.shape) - 2), half))
    cos, sin = ops.cos(angles), ops.sin(angles)
    first, second = ops.split(ops.cast(x, "float32"), 2, axis=-1)
    rotated = ops.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return ops.cast(rotated, x.dtype)


# -- Relative position bias: a learned number for the distance of two tokens (Raffel et al. 2019, T5, section 2.1).

_MAX_DISTANCE = 128  # longer distances share the last bucket


def relative_bias(table: EmbeddingTable, length: int | Tensor) -> Tensor:
    """Looks up each head's bias for each distance; all layers add it to their attention scores.

    Args:
        table: `[buckets, num_heads]`.
        length: the number of positions, a number or a scalar tensor.

    Returns:
        float32 `[num_heads, length, length]`: query (second axis), key (third axis).
    """
    positions = ops.arange(length, dtype="int32")
    distances = ops.expand_dims(positions, 0) - ops.expand_dims(positions, 1)  # key minus query
    values = table(compute_buckets(distances, table.input_dim))  # [length, length, num_heads]
    return ops.cast(ops.transpose(values, (2, 0, 1)), "float32")


def compute_buckets(distances: Tensor, buckets: int) -> Tensor:
    """Computes the bucket of each distance: int32 -> int32 of the same shape, 0 to `buckets - 1`.

    The first half of the buckets is for keys before the query, the second half for keys after it. In each half, short
    distances have a bucket each. Longer distances share buckets, whose ranges grow exponentially.

    Example:
        >>> compute_buckets(ops.convert_to_tensor([-200, -9, -1, 0, 1, 9, 200]), 32).numpy()
        array([15,  8,  1,  0, 17, 24, 31], dtype=int32)
    """
    side = buckets // 2
    exact = side // 2
    absolute = ops.abs(distances)
    # NumPy computes the table, so that every backend has the same buckets.
    steps = (
        np.log(np.maximum(np.arange(_MAX_DISTANCE + 1), exact) / exact)
        / math.log(_MAX_DISTANCE / exact)
        * (side - exact)
    )
    far = ops.take(np.minimum(exact + steps.astype(np.int32), side - 1), ops.minimum(absolute, _MAX_DISTANCE))
    bucket = ops.where(absolute < exact, absolute, ops.cast(far, "int32"))
    return bucket + ops.cast(distances > 0, "int32") * side

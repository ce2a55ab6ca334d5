"""Positions inside attention: rotary embeddings, and a bias for the distance of two tokens."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from keras_bert.tensors import Tensor


def rotate(x: Tensor, positions: Tensor, theta: float, factor: float = 1.0) -> Tensor:
    """Rotates queries or keys, float `[tokens, ..., d]`, by angles that grow with the position, int `[tokens]`.

    Elements i and i + d/2 of a head are the coordinates of point i. At position p, point i is rotated by the angle
    `p theta^(-2i/d) / factor^(2(i + 1)/d)`, so positions enter the product of Q and K only by their distance.
    """
    half = x.shape[-1] // 2
    points = np.arange(half, dtype=np.float32)
    frequencies = (1 / (theta ** (points / half) * factor ** ((points + 1) / half))).astype(np.float32)
    angles = ops.expand_dims(ops.cast(positions, "float32"), 1) * frequencies  # [tokens, d / 2]
    angles = ops.reshape(angles, (-1, *[1] * (len(x.shape) - 2), half))
    cos, sin = ops.cos(angles), ops.sin(angles)
    first, second = ops.split(ops.cast(x, "float32"), 2, axis=-1)
    rotated = ops.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return ops.cast(rotated, x.dtype)


# -- Relative position bias: a learned number for the distance of two tokens (Raffel et al. 2019, T5, section 2.1).

_MAX_DISTANCE = 128  # longer distances share the last bucket


@dataclass(frozen=True)  # Keras would cast a tuple's floats to its compute dtype
class RelativeBias:
    """What all layers add to their attention scores: float32 `[num_heads, length, length]`, of query and key."""

    bias: Tensor

    def scores(self, query: Tensor, key: Tensor, scale: float, project: Callable[[Tensor], Tensor]) -> Tensor:
        """Returns the bias, which depends neither on queries and keys nor on the layer, as `Distances.scores` do."""
        return self.bias


def relative_bias(embedding: keras.layers.Embedding, length: int | Tensor) -> RelativeBias:
    """Looks up each head's bias for each distance, in an embedding of `num_heads` numbers for each bucket."""
    positions = ops.arange(length, dtype="int32")
    distances = ops.expand_dims(positions, 0) - ops.expand_dims(positions, 1)  # key minus query
    values = embedding(compute_buckets(distances, embedding.input_dim))  # [length, length, num_heads]
    return RelativeBias(ops.cast(ops.transpose(values, (2, 0, 1)), "float32"))


def compute_buckets(distances: Tensor, buckets: int) -> Tensor:
    """Computes the bucket of each distance: int32 -> int32 of the same shape, 0 to `buckets - 1`."""
    # The first half of the buckets is for keys before the query, the second half for keys after it. In each half, short
    # distances have a bucket each. Longer distances share buckets, whose ranges grow exponentially.
    side = buckets // 2
    exact = side // 2
    absolute = ops.abs(distances)
    # NumPy computes these, so that every backend has the same buckets.
    steps = (
        np.log(np.maximum(np.arange(_MAX_DISTANCE + 1), exact) / exact)
        / math.log(_MAX_DISTANCE / exact)
        * (side - exact)
    )
    far = ops.take(np.minimum(exact + steps.astype(np.int32), side - 1), ops.minimum(absolute, _MAX_DISTANCE))
    bucket = ops.where(absolute < exact, absolute, ops.cast(far, "int32"))
    return bucket + ops.cast(distances > 0, "int32") * side

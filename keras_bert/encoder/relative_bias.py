"""A learned bias of attention for the distance of two tokens (Raffel et al. 2019, T5, section 2.1)."""

import math
from typing import Any

import numpy as np
from keras import ops

from keras_bert.encoder.layers import EmbeddingTable

_FARTHEST = 128  # all distances from here on share a bucket


def relative_bias(table: EmbeddingTable, length: Any) -> Any:
    """A number for each head and each distance, which all layers add to their scores.

    Args:
        table: `[buckets, num_heads]`.
        length: the number of positions, a number or a scalar tensor.

    Returns:
        float32 `[num_heads, length, length]`, from each position (second axis) to each other one (third axis).
    """
    places = ops.arange(length, dtype="int32")
    distances = ops.expand_dims(places, 0) - ops.expand_dims(places, 1)  # key minus query
    values = table(buckets_of(distances, table.input_dim))  # [length, length, num_heads]
    return ops.cast(ops.transpose(values, (2, 0, 1)), "float32")


def buckets_of(distances: Any, buckets: int) -> Any:
    """The bucket of each distance: int32 -> int32 of the same shape, 0 to `buckets - 1`.

    The first half is for keys before the query, the second for keys after it. Of each half, one half are the distances
    0, 1, 2, ... themselves; the others are ranges that grow logarithmically.

    Example:
        >>> buckets_of(ops.convert_to_tensor([-200, -9, -1, 0, 1, 9, 200]), 32).numpy()
        array([15,  8,  1,  0, 17, 24, 31], dtype=int32)
    """
    side = buckets // 2
    exact = side // 2
    before = ops.abs(distances)
    # A table of the logarithms: the same buckets on every backend.
    steps = np.log(np.maximum(np.arange(_FARTHEST + 1), exact) / exact) / math.log(_FARTHEST / exact) * (side - exact)
    far = ops.take(np.minimum(exact + steps.astype(np.int32), side - 1), ops.minimum(before, _FARTHEST))
    bucket = ops.where(before < exact, before, ops.cast(far, "int32"))
    return bucket + ops.cast(distances > 0, "int32") * side

"""Relative position bias: a learned number for the distance of two tokens (Raffel et al. 2019, T5, section 2.1)."""

import math
from typing import Any

import numpy as np
from keras import ops

from keras_bert.encoder.layers import EmbeddingTable

_FARTHEST = 128  # longer distances share the last bucket


def relative_bias(table: EmbeddingTable, length: Any) -> Any:
    """The bias of each head for each distance, which all layers add to their attention scores.

    Args:
        table: `[buckets, num_heads]`.
        length: the number of positions, a number or a scalar tensor.

    Returns:
        float32 `[num_heads, length, length]`: query (second axis), key (third axis).
    """
    places = ops.arange(length, dtype="int32")
    distances = ops.expand_dims(places, 0) - ops.expand_dims(places, 1)  # key minus query
    values = table(buckets_of(distances, table.input_dim))  # [length, length, num_heads]
    return ops.cast(ops.transpose(values, (2, 0, 1)), "float32")


def buckets_of(distances: Any, buckets: int) -> Any:
    """The bucket of each distance: int32 -> int32 of the same shape, 0 to `buckets - 1`.

    The first half is for keys before the query, the second for keys after it. In each half, short distances have a
    bucket each; longer ones share buckets, whose ranges grow exponentially.

    Example:
        >>> buckets_of(ops.convert_to_tensor([-200, -9, -1, 0, 1, 9, 200]), 32).numpy()
        array([15,  8,  1,  0, 17, 24, 31], dtype=int32)
    """
    side = buckets // 2
    exact = side // 2
    before = ops.abs(distances)
    # A table, computed in numpy, gives the same buckets on every backend.
    steps = np.log(np.maximum(np.arange(_FARTHEST + 1), exact) / exact) / math.log(_FARTHEST / exact) * (side - exact)
    far = ops.take(np.minimum(exact + steps.astype(np.int32), side - 1), ops.minimum(before, _FARTHEST))
    bucket = ops.where(before < exact, before, ops.cast(far, "int32"))
    return bucket + ops.cast(distances > 0, "int32") * side

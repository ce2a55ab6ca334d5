"""Rotary position embeddings (Su et al. 2021, RoFormer, section 3.2.2)."""

from typing import Any

import numpy as np
from keras import ops


def rotated(x: Any, positions: Any, theta: float, factor: float = 1.0) -> Any:
    """Rotates queries or keys by angles that grow with the position.

    Numbers i and i + d/2 of a head are the coordinates of a point. At position p, the point is rotated by the angle
    `p theta^(-2i/d)`. The product of a query and a key then depends on the distance of their positions only.

    Args:
        x: float `[rows, ..., d]`; d is even.
        positions: int `[rows]`.
        theta: the base of the angles; a larger one rotates more slowly.
        factor: divides the angle of point i by `factor^(2(i + 1)/d)`.

    Returns:
        float of the shape and type of `x`; the angles are float32.

    Example:
        >>> from keras import ops
        >>> turned = rotated(ops.ones((3, 2)), ops.arange(3), theta=10_000.0)  # by 0, 1 and 2 radians
        >>> [f"{float(first):.2f} {float(second):.2f}" for first, second in turned]
        ['1.00 1.00', '-0.30 1.38', '-1.33 0.49']
    """
    half = x.shape[-1] // 2
    places = np.arange(half, dtype=np.float32)
    speeds = (1 / (theta ** (places / half) * factor ** ((places + 1) / half))).astype(np.float32)
    angles = ops.expand_dims(ops.cast(positions, "float32"), 1) * speeds  # [rows, d / 2]
    angles = ops.reshape(angles, (-1, *[1] * (len(x.shape) - 2), half))
    cos, sin = ops.cos(angles), ops.sin(angles)
    first, second = ops.split(ops.cast(x, "float32"), 2, axis=-1)
    turned = ops.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return ops.cast(turned, x.dtype)

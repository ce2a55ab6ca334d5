"""Places the labels of points so that none covers another label or a point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RADIUS = 6  # of a point, in pixels
LETTERS = 11  # the size of a label's letters, in pixels

_DIRECTIONS = np.array([(1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1)])
_RINGS = (1, 1.8, 2.6)  # distances, as multiples of the smallest


def label_places(
    points: np.ndarray, numbers: Sequence[str], size: tuple[float, float]
) -> list[tuple[float, float] | None]:
    """The centre of each label: the nearest free place around its point.

    Args:
        points: `[points, 2]`, in pixels. The n-th number belongs to the n-th point.
        numbers: the labels, in digits.
        size: the width and the height of the picture, in pixels.

    Returns:
        The place of each number; None if all places around its point are taken.

    Example:
        >>> label_places(np.array([[50.0, 50.0], [64.0, 50.0]]), ["1", "2"], (100, 100))
        [(36.5, 50.0), (77.5, 50.0)]
    """
    taken, halves = points, np.full(points.shape, float(RADIUS))  # rectangles: their centres, and half their sizes
    found: list[tuple[float, float] | None] = []
    for point, number in zip(points, numbers, strict=False):
        half = np.array([0.6 * len(number) + 0.4, 1.0]) * LETTERS / 2  # with a gap between two numbers
        around = np.concatenate([point + ring * _DIRECTIONS * (half + RADIUS + 2) for ring in _RINGS])
        inside = ((around >= half) & (around <= np.array(size) - half)).all(axis=1)
        covers = (np.abs(around[:, None] - taken) < half + halves).all(axis=2).any(axis=1)
        free = around[inside & ~covers][:1]
        taken, halves = np.concatenate([taken, free]), np.concatenate([halves, np.tile(half, (len(free), 1))])
        found.append((round(float(free[0, 0]), 1), round(float(free[0, 1]), 1)) if len(free) else None)
    return found


def is_far(label: Sequence[float], point: Sequence[float]) -> bool:
    """Whether a label is so far from its point that a line must join them."""
    return float(np.hypot(label[0] - point[0], label[1] - point[1])) > 3 * RADIUS + LETTERS

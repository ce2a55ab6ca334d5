"""What a served model takes and returns: named arrays, each with a type and a shape. It needs no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Spec(NamedTuple):
    """The type and the shape of an array."""

    dtype: np.dtype  # of strings, which are bytes objects, `np.dtype(object)`
    shape: tuple[int | None, ...] | None  # None: an axis of any size, or instead of a tuple any number of axes

    @property
    def type_name(self) -> str:
        """The type's name in messages."""
        return "string" if self.dtype.kind == "O" else self.dtype.name

    def accepts(self, shape: tuple[int, ...]) -> bool:
        """Checks whether an array of this shape fits."""
        return self.shape is None or (
            len(shape) == len(self.shape)
            and all(size in (None, given) for size, given in zip(self.shape, shape, strict=True))
        )


@dataclass(frozen=True, eq=False)
class Signature:
    """The inputs and outputs of a served model's function, by name."""

    inputs: dict[str, Spec]
    outputs: dict[str, Spec]

"""What the runtimes share: what runs a model, its signatures, and errors of opening it. It needs no TensorFlow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from keras_bert import files

if TYPE_CHECKING:
    import numpy as np

Inputs: TypeAlias = "dict[str, np.ndarray]"
Run: TypeAlias = "Callable[[Inputs], dict[str, np.ndarray]]"  # inputs under the runtime's names -> outputs by name


@contextlib.contextmanager
def opening(path: Path, program: str) -> Iterator[None]:
    """Makes a ValueError in one line of any error of a runtime, each of which has classes of its own."""
    try:
        yield
    except Exception as error:
        files.raise_if_not_of_content(path, error)
        reason = [line.strip() for line in str(error).splitlines() if line.strip()][-1:]
        raise ValueError(f"{path} is damaged, or {program} cannot run it: {''.join(reason)}") from None


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

"""What the runtimes share: the type of what runs a model, and errors of opening it. It needs no TensorFlow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

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

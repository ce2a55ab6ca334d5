"""Reading and writing safetensors files: named arrays, nothing that executes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from keras_bert import files


class SafetensorsFile:
    """An open file: the names and shapes of its tensors at once, their values on demand."""

    def __init__(self, path: Path, file: "safe_open") -> None:
        self.path = path
        self._file = file
        self.names = set(file.keys())

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._file.get_slice(name).get_shape())

    def read(self, name: str) -> np.ndarray:
        """The tensor as float32, whatever float type it was stored in."""
        try:
            value = self._file.get_tensor(name)
        except (SafetensorError, TypeError, ValueError) as error:
            raise ValueError(f"{self.path}: cannot read {name}: {error}") from None
        if not np.issubdtype(value.dtype, np.floating) and value.dtype != ml_dtypes.bfloat16:
            raise ValueError(f"{self.path}: {name} is {value.dtype}, but a weight must be a float tensor")
        return value.astype(np.float32)


@contextmanager
def open_safetensors(path: Path) -> Iterator[SafetensorsFile]:
    """Opens a file for reading.

    Raises:
        ValueError: the file is cut short, or is no safetensors file.
    """
    try:
        file = safe_open(path, framework="numpy")
    except SafetensorError as error:
        raise ValueError(
            f"{path} ({path.stat().st_size:,} bytes) is not a whole safetensors file; fetch it again ({error})"
        ) from None
    with file as opened:
        yield SafetensorsFile(path, opened)


def write_safetensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Writes all tensors, or, when interrupted, nothing: the file appears under its name when it is complete."""
    contiguous = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    with files.written_whole(path) as unfinished:
        # transformers reads "format" to learn how to interpret the layout; "pt" is its own.
        save_file(contiguous, unfinished, {"format": "pt"})

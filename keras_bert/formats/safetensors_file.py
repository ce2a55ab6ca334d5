"""Reads and writes safetensors files: named arrays, and no code."""

import json
import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from keras_bert import atomic, files
from keras_bert.formats import aligned

_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}  # little-endian


class SafetensorsFile:
    """An open file. The names and shapes of its tensors are read at once, their values on demand."""

    def __init__(self, path: Path, file: "safe_open") -> None:
        self.path = path
        self.size = path.stat().st_size
        self._file = file
        self.names = set(file.keys())
        self._bytes = path.open("rb", buffering=0)
        header_size = int.from_bytes(self._bytes.read(8), "little")
        self._header = json.loads(self._bytes.read(header_size))  # checked by `safe_open`
        self._start = 8 + header_size

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._header[name]["shape"])

    def read(self, name: str) -> np.ndarray:
        """The array, in its own memory, aligned for TensorFlow."""
        entry = self._header[name]
        if sys.byteorder != "little" or entry["dtype"] not in _DTYPES:
            return self._converted(name)
        array = aligned.empty(tuple(entry["shape"]), _DTYPES[entry["dtype"]])
        self._bytes.seek(self._start + entry["data_offsets"][0])
        rest = memoryview(array.reshape(-1).view(np.uint8))
        while rest:
            count = self._bytes.readinto(rest)  # at most 2 GB at a time
            if not count:
                raise ValueError(f"{self.path}: cannot read {name}: the file has become shorter")
            rest = rest[count:]
        return array

    def _converted(self, name: str) -> np.ndarray:
        try:
            # One mapping per tensor: a mapping keeps all that it has read in memory until it is closed.
            with safe_open(self.path, framework="numpy") as file:
                return file.get_tensor(name)
        except (SafetensorError, AttributeError, TypeError, ValueError) as error:  # numpy has no float8
            raise ValueError(f"{self.path}: cannot read {name}: {error}") from None

    def close(self) -> None:
        self._file.__exit__(None, None, None)
        self._bytes.close()


def open_safetensors(path: Path) -> SafetensorsFile:
    """Opens a file for reading. Raises ValueError if it is truncated, or not a safetensors file."""
    try:
        file = safe_open(path, framework="numpy")
    except SafetensorError as error:
        files.refuse_pointer(path)
        raise ValueError(
            f"{path} ({path.stat().st_size:,} bytes) is not a whole safetensors file; fetch it again ({error})"
        ) from None
    return SafetensorsFile(path, file.__enter__())


def write_safetensors(
    path: Path, shapes: Mapping[str, tuple[int, ...]], tensors: Iterable[tuple[str, np.ndarray]]
) -> None:
    """Writes float32 tensors one by one, in the order of `shapes`. The file gets its name when it is complete.

    The library's own writer needs all tensors in memory, and copies them.
    """
    # "pt" is the format that transformers expects.
    header: dict = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the values start at a multiple of 8
    with atomic.written_whole(path) as unfinished, unfinished.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for (name, value), (expected, shape) in zip(tensors, shapes.items(), strict=True):
            if name != expected or value.shape != tuple(shape):
                raise AssertionError(f"{name} of shape {value.shape} was written in place of {expected} of {shape}")
            file.write(np.ascontiguousarray(value, "<f4"))

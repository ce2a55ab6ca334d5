"""Files of weights: safetensors, HDF5, and PyTorch's. Reading them here never runs code from a file."""

from __future__ import annotations

import json
import math
import mmap
import os
import pickle
import re
import struct
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from keras_bert import files
from keras_bert.formats import storage
from keras_bert.shapes import Shape

if TYPE_CHECKING:
    import h5py

_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}  # little-endian
# Errors of what is damaged, or of float8, which NumPy lacks.
_UNREADABLE = (SafetensorError, AttributeError, TypeError, ValueError)


class SafetensorsFile:
    """An open safetensors file. Names and shapes are read when it is opened, values on demand."""

    def __init__(self, path: Path) -> None:
        files.check_file(path)
        self.path = path
        self.size = path.stat().st_size
        _check_header(path)
        try:
            self._file = safe_open(path, framework="numpy").__enter__()
        except (SafetensorError, MemoryError) as error:
            raise ValueError(
                f"{path} ({self.size:,} bytes) is not a whole safetensors file; fetch it again ({error})"
            ) from None
        self.names = set(self._file.keys())
        self._bytes = path.open("rb", buffering=0)
        header_size = int.from_bytes(self._bytes.read(8), "little")
        self._header = json.loads(self._bytes.read(header_size))  # checked by `safe_open`
        self._start = 8 + header_size

    @property
    def metadata(self) -> dict[str, str]:
        return self._header.get("__metadata__", {})

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._header[name]["shape"])

    def read(self, name: str) -> np.ndarray:
        """Reads an array into memory of its own, aligned for TensorFlow."""
        entry = self._header[name]
        if sys.byteorder != "little" or entry["dtype"] not in _DTYPES:
            return self._read_converted(name)
        array = storage.empty(tuple(entry["shape"]), _DTYPES[entry["dtype"]])
        self._bytes.seek(self._start + entry["data_offsets"][0])
        remaining = array.reshape(-1).view(np.uint8).data
        while remaining:
            count = self._bytes.readinto(remaining)  # the system reads at most 2 GB at a time
            if not count:
                raise ValueError(f"{self.path}: cannot read {name}: the file has become shorter")
            remaining = remaining[count:]
        return array

    def _read_converted(self, name: str) -> np.ndarray:
        # Open a mapping per tensor: a mapping keeps every page it has read in memory until it is closed.
        with (
            files.as_value_error(self.path, f"{self.path}: cannot read {name}", *_UNREADABLE),
            safe_open(self.path, framework="numpy") as file,
        ):
            return file.get_tensor(name)

    def close(self) -> None:
        self._file.__exit__(None, None, None)
        self._bytes.close()


def _check_header(path: Path) -> None:
    """Raises ValueError if a file does not begin as safetensors do, before the library maps all of it."""
    with path.open("rb") as file:
        start = file.read(9)
    if start[8:] != b"{":
        size = path.stat().st_size
        raise ValueError(
            f"{path} ({size:,} bytes) is not a whole safetensors file; fetch it again (it begins with {start!r})"
        )


def write_safetensors(
    path: Path, shapes: Mapping[str, tuple[int, ...]], tensors: Iterable[tuple[str, np.ndarray]]
) -> None:
    """Writes float32 tensors one by one, while the library needs all in memory. The file appears whole."""
    # "pt" is the format that transformers expects.
    header: dict = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the values start at a multiple of 8 bytes
    with files.written_whole(path) as unfinished, unfinished.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for (name, value), (expected, shape) in zip(tensors, shapes.items(), strict=True):
            if name != expected or value.shape != tuple(shape):
                raise AssertionError(f"{name} of shape {value.shape} was written in place of {expected} of {shape}")
            file.write(np.ascontiguousarray(value, "<f4").data)


# -- Small safetensors files with a checksum, which only this package reads.


def write_checked(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Writes arrays of any type and texts, with a checksum, whole or not at all. Raises OSError if it cannot."""
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with files.written_whole(path) as unfinished:
        try:
            save_file(arrays, unfinished, {**metadata, "sha256": _checksum(arrays, metadata)})
        except SafetensorError as error:
            if (number := re.search(r"\(os error (\d+)\)", str(error))) is None:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(unfinished)) from error


def read_checked(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Reads the arrays and texts of `write_checked`, or raises ValueError if a bit is damaged."""
    files.check_file(path)
    with files.as_value_error(path, f"{path} is damaged", *_UNREADABLE, KeyError):
        _check_header(path)
        with safe_open(path, framework="numpy") as file:
            metadata = dict(file.metadata() or {})
            arrays = {name: file.get_tensor(name) for name in sorted(file.keys(), key=_by_number)}
    texts = {name: text for name, text in metadata.items() if name != "sha256"}
    if metadata.get("sha256") != _checksum(arrays, texts):
        raise ValueError(f"{path} is damaged: its checksum is wrong")
    return arrays, metadata


def _by_number(name: str) -> tuple[int, str]:
    return len(name), name


def _checksum(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> str:
    parts: list[bytes | memoryview] = ["".join(metadata[name] for name in sorted(metadata)).encode()]
    for name in sorted(arrays, key=_by_number):
        parts.append(f"{name} {arrays[name].dtype.str} {arrays[name].shape}".encode())
        parts.append(arrays[name].reshape(-1).view(np.uint8).data)
    return files.sha256(parts)


# -- HDF5 files of weights, as Keras writes them.

_H5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MOST_NAMES = 20_000  # of arrays and groups in a file; BERT-Large has 1,500
_LONGEST_NAME = 500


class H5File:
    """An open HDF5 file. Paths and shapes of its arrays are read when it is opened, values on demand."""

    # Of HDF5, only what Keras writes is read: arrays of numbers that lie in the file in one piece. What else a file may
    # hold would open other files (links), load libraries (filters), or make gigabytes of a few bytes (compression).

    def __init__(self, path: Path) -> None:
        import h5py

        self.path = path
        self.size = path.stat().st_size
        self._groups = {""}
        self._arrays: dict[str, h5py.Dataset] = {}
        check_h5(path)
        with files.as_value_error(path, f"{path} ({self.size:,} bytes) is not a whole HDF5 file; fetch it again"):
            self._file = h5py.File(path, "r")
            problem = self._file.visit_links(self._add)
        if problem:
            self.close()
            raise ValueError(f"{path} cannot be read: {problem}")
        self.names = set(self._arrays)

    def _add(self, name: str | bytes) -> str | None:
        """Notes an array or a group. Returns what is wrong, before anything else of it is read."""
        import h5py

        if not isinstance(name, str) or not name.isprintable() or len(name) > _LONGEST_NAME:
            return f"{name[:80]!r} is no name in UTF-8 of at most {_LONGEST_NAME} printable characters"
        if len(self._groups) + len(self._arrays) > _MOST_NAMES:
            return f"it has more than {_MOST_NAMES:,} arrays and groups"
        # A name with a slash in a group would lead through other links.
        if name.rpartition("/")[0] not in self._groups or name in self._groups or name in self._arrays:
            return f"{name} is there twice, or in no group"
        if not isinstance(self._file.get(name, getlink=True), h5py.HardLink):
            return f"{name} is a link, perhaps to another file"
        item = self._file[name]
        if isinstance(item, h5py.Group):
            self._groups.add(name)
            return None
        if not isinstance(item, h5py.Dataset):
            return f"{name} is neither an array nor a group"
        if item.external or item.is_virtual:  # a link could read any file on the disk
            return f"the values of {name} are in another file"
        # A small file can refer to one text a million times and fill the memory.
        if item.shape is None or item.dtype.kind not in "fiub":
            return f"{name} holds {str(item.dtype)[:80]}, not numbers"
        if item.chunks:
            return f"{name} is compressed or in several pieces; `h5repack -f NONE -l CONTI OLD NEW` undoes this"
        num_bytes = math.prod(item.shape) * item.id.get_type().get_size()
        if num_bytes > min(item.id.get_storage_size(), self.size):
            return f"{name} has {num_bytes:,} bytes, which are not in the file"
        self._arrays[name] = item
        return None

    def text(self, name: str) -> str | None:
        """Reads a text that belongs to the whole file, such as Keras's "model_config"; None if there is none."""
        attributes = self._file.attrs
        with files.as_value_error(self.path, f"{self.path}: cannot read {name}"):
            # A list may refer to one text a million times.
            value = attributes[name] if name in attributes and attributes.get_id(name).shape == () else None
        if value is None:
            return None
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def shape(self, name: str) -> Shape:
        return self._arrays[name].shape

    def read(self, name: str) -> np.ndarray:
        with files.as_value_error(self.path, f"{self.path}: cannot read {name}"):
            return self._arrays[name][()]

    def close(self) -> None:
        self._file.close()


def check_h5(path: Path) -> None:
    """Raises ValueError where HDF5 would take all memory: a heap whose free places refer to each other in a circle."""
    # Call it before HDF5 opens a file. A heap, the names in a group, begins with "HEAP", a version, 3 bytes, its size,
    # its first free place, its address.
    files.check_file(path)
    with path.open("rb") as file:
        start = file.read(16)
        sizes = start[13:15] if start[8:9] in (b"\0", b"\1") else start[9:11]  # by the version of the file
        if start[:8] != _H5_SIGNATURE or sizes != b"\x08\x08":
            size = path.stat().st_size
            raise ValueError(f"{path} ({size:,} bytes) is not a whole HDF5 file as Keras writes them; fetch it again")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            heap = -1
            while (heap := content.find(b"HEAP\0", heap + 1)) >= 0:
                size, free, address = struct.unpack("<3Q", content[heap + 8 : heap + 32].ljust(24))
                if address + size > len(content):
                    continue  # HDF5 refuses it, or these are values of an array
                for _ in range(size // 16 + 1):  # more free places than have room
                    if free + 16 > size:
                        break
                    free = int.from_bytes(content[address + free : address + free + 8], "little")
                else:
                    raise ValueError(f"{path} cannot be read: the heap at byte {heap:,} has an endless list")


# -- `pytorch_model.bin`: a pickle, which can run code when loaded. torch.load(weights_only=True) prevents that.

_SAFE_SINCE = (2, 6)  # in earlier versions, weights_only=True can be bypassed (CVE-2025-32434)
_ADVICE = (
    "convert it once, where torch and transformers are installed: "
    "AutoModel.from_pretrained(directory).save_pretrained(directory) writes model.safetensors"
)


class TorchFile:
    """An open `pytorch_model.bin`: tensors by name, memory-mapped if the file allows it."""

    def __init__(self, path: Path) -> None:
        files.check_file(path)
        self.path = path
        self.size = path.stat().st_size
        explanation = f"{path} is a pickle, which can run untrusted code; it is only read with torch"
        try:
            import torch
        except ImportError:
            raise ImportError(f"{explanation} (weights_only=True), which is not installed; {_ADVICE}") from None
        if tuple(int(part) for part in torch.__version__.split(".")[:2]) < _SAFE_SINCE:
            raise ImportError(f"{explanation} 2.6 or later, not with {torch.__version__}; {_ADVICE}")
        try:
            self._tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        except pickle.UnpicklingError as error:
            raise ValueError(f"{path} was refused: it holds more than tensors ({error})") from None
        except Exception as error:  # the type of torch's error depends on the damage
            files.raise_if_not_of_content(path, error)
            raise ValueError(f"{path} ({self.size:,} bytes) cannot be read; fetch it again: {error}") from None
        if not isinstance(self._tensors, dict) or not all(
            isinstance(tensor, torch.Tensor) for tensor in self._tensors.values()
        ):
            raise ValueError(f"{path} does not hold a dict of tensors by name")
        self.names = set(self._tensors)

    def shape(self, name: str) -> Shape:
        return tuple(self._tensors[name].shape)

    def read(self, name: str) -> np.ndarray:
        tensor = self._tensors[name]
        return (tensor.float() if tensor.is_floating_point() else tensor).numpy()  # numpy has no bfloat16

    def close(self) -> None:
        self._tensors = {}

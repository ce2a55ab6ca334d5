"""Reads HDF5 files of weights, as Keras writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from keras_bert import files
from keras_bert.formats.shapes import Shape


class H5File:
    """An open file. The paths and shapes of its arrays are read at once, their values on demand.

    Raises:
        ValueError: the file is damaged, or links to another file.
    """

    def __init__(self, path: Path) -> None:
        import h5py

        self.path = path
        self.size = path.stat().st_size
        self._arrays: dict[str, h5py.Dataset] = {}
        self._shapes: dict[str, Shape] = {}
        try:
            self._file = h5py.File(path, "r")
            self._file.visititems(self._add)
        except Exception as error:  # the type of h5py's error depends on the damage
            files.refuse_pointer(path)
            raise ValueError(
                f"{path} ({path.stat().st_size:,} bytes) is not a whole HDF5 file; fetch it again ({error})"
            ) from None
        self.names = set(self._arrays)

    def _add(self, name: str, item: object) -> None:
        if not isinstance(name, str):
            raise ValueError(f"{name!r} is not a name in UTF-8")
        if hasattr(item, "shape"):
            if item.external or item.is_virtual:  # a link could read any file on the disk
                raise ValueError(f"{name} is in another file")
            if item.dtype.kind not in "fiub":  # a text could be stored once and be read a million times
                raise ValueError(f"{name} holds {item.dtype}, not numbers")
            self._arrays[name] = item
            self._shapes[name] = tuple(item.shape or ())

    def shape(self, name: str) -> Shape:
        return self._shapes[name]

    def read(self, name: str) -> np.ndarray:
        try:
            return self._arrays[name][()]
        except Exception as error:
            raise ValueError(f"{self.path}: cannot read {name}: {error}") from None

    def close(self) -> None:
        self._file.close()

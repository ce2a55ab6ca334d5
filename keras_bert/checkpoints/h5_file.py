"""HDF5 files of weights, as Keras writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from keras_bert.checkpoints.shapes import Shape


class H5File:
    """An open file: the paths and shapes of its arrays at once, their values on demand.

    Args:
        path: of the file.

    Raises:
        ValueError: the file is damaged, or takes an array from elsewhere.
    """

    def __init__(self, path: Path) -> None:
        import h5py

        self.path = path
        self._arrays: dict[str, h5py.Dataset] = {}
        try:
            self._file = h5py.File(path, "r")
            self._file.visititems(self._add)
        except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
            raise ValueError(
                f"{path} ({path.stat().st_size:,} bytes) is not a whole HDF5 file; fetch it again ({error})"
            ) from None
        self.names = set(self._arrays)

    def _add(self, name: str, item: object) -> None:
        if hasattr(item, "shape"):
            if item.external or item.is_virtual:  # the values would be those of any file that can be read
                raise ValueError(f"{name} is kept in another file")
            self._arrays[name] = item

    def shape(self, name: str) -> Shape:
        return tuple(self._arrays[name].shape or ())

    def read(self, name: str) -> np.ndarray:
        """The array as float32, whatever float type it was stored in."""
        array = self._arrays[name]
        if not np.issubdtype(array.dtype, np.floating):
            raise ValueError(f"{self.path}: {name} is {array.dtype}, but a weight must be a float tensor")
        try:
            return np.asarray(array[()]).astype(np.float32, copy=False)
        except (OSError, RuntimeError, ValueError, TypeError) as error:
            raise ValueError(f"{self.path}: cannot read {name}: {error}") from None

    def close(self) -> None:
        self._file.close()

"""Several open files of weights as one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from keras_bert.formats.checkpoint import WeightFile
from keras_bert.formats.shapes import Shape


class JoinedFile:
    """Several open files as one, or one under other names.

    Args:
        path: the file that messages name.
        places: name -> an open file, and the name in it.
    """

    def __init__(self, path: Path, places: Mapping[str, tuple[WeightFile, str]]) -> None:
        self.path = path
        self.names = set(places)
        self._places = places
        self._files = {id(file): file for file, _ in places.values()}.values()
        self.size = sum(file.size for file in self._files)

    def shape(self, name: str) -> Shape:
        file, inside = self._places[name]
        return file.shape(inside)

    def read(self, name: str) -> np.ndarray:
        file, inside = self._places[name]
        return file.read(inside)

    def close(self) -> None:
        for file in self._files:
            file.close()

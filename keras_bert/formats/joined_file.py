"""Several files of weights as one, such as shards with an index."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from keras_bert import files
from keras_bert.formats.checkpoint import WeightFile
from keras_bert.formats.shapes import Shape


class JoinedFile:
    """Several open files as one, or one under other names.

    Args:
        path: the file that messages name.
        places: name -> an open file, and the array's name in it.
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


def open_shards(path: Path, open_shard: Callable[[Path], WeightFile]) -> JoinedFile:
    """Opens all files of an index: JSON with "weight_map", from names of tensors to names of files beside it.

    Raises:
        FileNotFoundError: a shard is missing.
        ValueError: the index is damaged, or names a file outside of its directory or a tensor that its shard lacks.
    """
    shard_of = files.read_json(path, {"weight_map": {str: str}})["weight_map"]
    shards: dict[str, WeightFile] = {}
    with ExitStack() as open_ones:
        for shard in sorted(set(shard_of.values())):
            shards[shard] = open_shard(_beside(path, shard))
            open_ones.callback(shards[shard].close)
        for name, shard in shard_of.items():
            if name not in shards[shard].names:
                raise ValueError(f"{path} says that {name} is in {shard}, but it is not")
        open_ones.pop_all()
    return JoinedFile(path, {name: (shards[shard], name) for name, shard in shard_of.items()})


def _beside(index: Path, name: str) -> Path:
    """The path of a shard. It must be in the directory of the index, because an index is not trusted."""
    if name in ("", ".", "..") or any(separator in name for separator in ("/", "\\", "\0")):
        raise ValueError(f"{index} names the shard {name!r}; a shard must be a file beside its index, without a path")
    path = index.parent / name
    home = Path(os.path.realpath(index.parent))
    allowed = [home]
    if home.parent.name == "snapshots":
        # The cache of the Hugging Face Hub: the files of a snapshot are links to blobs.
        allowed.append(home.parent.parent / "blobs")
    if path.is_symlink() and Path(os.path.realpath(path)).parent not in allowed:
        raise ValueError(f"{index} names the shard {name}, which is a link to a file outside of its directory")
    if not path.is_file():
        raise FileNotFoundError(f"{index} names the shard {name}, which is missing; fetch it, too")
    return path

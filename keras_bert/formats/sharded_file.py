"""Weights in several files, with an index from weights to files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from keras_bert import files
from keras_bert.formats.checkpoint import WeightFile
from keras_bert.formats.shapes import Shape


class ShardedFile:
    """Several open files as one. Its names are those in the index.

    Args:
        path: the index: JSON with "weight_map", from names of tensors to names of files beside it.
        open_shard: opens one file.

    Raises:
        FileNotFoundError: a shard is missing.
        ValueError: the index is damaged, names a file outside of its directory, or a tensor that the shard lacks.
    """

    def __init__(self, path: Path, open_shard: Callable[[Path], WeightFile]) -> None:
        self.path = path
        self._shards: dict[str, WeightFile] = {}
        weight_map = files.read_json(path).get("weight_map")
        if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
            raise ValueError(f"{path} has no 'weight_map' from names of tensors to names of files")
        self._shard_of = weight_map
        self.names = set(weight_map)
        try:
            for shard in sorted(set(weight_map.values())):
                self._shards[shard] = open_shard(_beside(path, shard))
            for name, shard in weight_map.items():
                if name not in self._shards[shard].names:
                    raise ValueError(f"{path} says that {name} is in {shard}, but it is not")
        except BaseException:
            self.close()
            raise

    def shape(self, name: str) -> Shape:
        return self._shards[self._shard_of[name]].shape(name)

    def read(self, name: str) -> np.ndarray:
        return self._shards[self._shard_of[name]].read(name)

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()


def _beside(index: Path, name: str) -> Path:
    """The shard of that name. It must be in the directory of the index, because an index is not trusted."""
    if name in ("", ".", "..") or any(separator in name for separator in ("/", "\\", "\0")):
        raise ValueError(f"{index} names the shard {name!r}; a shard is a file beside its index, without any path")
    path = index.parent / name
    home = Path(os.path.realpath(index.parent))
    allowed = [home]
    if home.parent.name == "snapshots":
        # The cache of the Hugging Face Hub: the files of a snapshot are links to blobs.
        allowed.append(home.parent.parent / "blobs")
    if path.is_symlink() and Path(os.path.realpath(path)).parent not in allowed:
        raise ValueError(f"{index} names the shard {name}, which is a link out of its directory")
    if not path.is_file():
        raise FileNotFoundError(f"{index} names the shard {name}, which is missing; fetch it, too")
    return path

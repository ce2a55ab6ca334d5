"""Keeps the vectors of texts in a growing file, so that interrupted work is not repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from tqdm import tqdm

_KEY_BYTES = 16
TEXTS_AT_A_TIME = 2048  # texts encoded before they are written: the most that an interruption loses


def key_of(content: bytes) -> bytes:
    """A short digest that stands for a text or a row."""
    return hashlib.blake2b(content, digest_size=_KEY_BYTES).digest()


class EncodedTexts:
    """Vectors by the keys of their texts, including those that an earlier process wrote.

    Args:
        path: the file. An incomplete vector of a killed process is cut off.
        width: the size of a vector.
    """

    def __init__(self, path: Path, width: int) -> None:
        self.path, self.width = path, width
        self._type = np.dtype([("key", f"V{_KEY_BYTES}"), ("vector", "<f4", (width,))])
        self._file = open(path, "ab")  # noqa: SIM115  stays open with the object
        self._file.truncate(self._file.tell() // self._type.itemsize * self._type.itemsize)
        keys = self._records()["key"].tolist() if self._file.tell() else ()
        self._numbers = {key: number for number, key in enumerate(keys)}

    def __contains__(self, key: bytes) -> bool:
        return key in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, keys: list[bytes], vectors: np.ndarray) -> None:
        """Adds vectors, float32 `[keys, width]`, and writes them at once."""
        records = np.empty(len(keys), self._type)
        records["key"] = np.frombuffer(b"".join(keys), f"V{_KEY_BYTES}")
        records["vector"] = vectors
        self._file.write(records.tobytes())
        self._file.flush()
        first = len(self._numbers)
        self._numbers.update({key: number for number, key in enumerate(keys, start=first)})

    def encode(
        self,
        texts: Mapping[bytes, str],
        encode: Callable[[list[str]], tuple[np.ndarray, int]],
        progress: bool | None = None,
    ) -> dict[str, int]:
        """Adds the vectors of texts that are not in the file yet.

        Args:
            texts: key -> text.
            encode: texts -> their vectors, and the number of truncated texts.
            progress: whether to show a progress bar; by default on a terminal.

        Returns:
            Counts: `encoded` now, and `cut` among them.
        """
        left = [key for key in texts if key not in self]
        cut, disable = 0, None if progress is None else not progress
        done = len(texts) - len(left)
        with tqdm(total=len(texts), initial=done, unit=" texts", delay=1, disable=disable) as bar:
            for first in range(0, len(left), TEXTS_AT_A_TIME):
                keys = left[first : first + TEXTS_AT_A_TIME]
                vectors, cut_here = encode([texts[key] for key in keys])
                self.add(keys, vectors)
                cut += cut_here
                bar.update(len(keys))
        return {"encoded": len(left), "cut": cut}

    def vectors(self, keys: Iterable[bytes]) -> np.ndarray:
        """float32 `[keys, width]`."""
        return self._records()["vector"][[self._numbers[key] for key in keys]]

    def close(self) -> None:
        self._file.close()

    def _records(self) -> np.memmap:
        return np.memmap(self.path, self._type, "r")

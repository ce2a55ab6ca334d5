"""Keeps the vectors of texts in a growing file, so that interrupted work is not repeated."""

from __future__ import annotations

import hashlib
import zlib
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
        path: the file. An incomplete vector of a killed process is cut off, and a damaged one is not used.
        width: the size of a vector.
    """

    def __init__(self, path: Path, width: int) -> None:
        self.path, self.width = path, width
        of_vector = [("key", f"V{_KEY_BYTES}"), ("vector", "<f4", (width,))]
        self._type = np.dtype([("checked", of_vector), ("checksum", "<u4")])
        self._file = open(path, "ab")  # noqa: SIM115  stays open with the object
        self._file.truncate(self._file.tell() // self._type.itemsize * self._type.itemsize)
        self._count = self._file.tell() // self._type.itemsize
        self._numbers: dict[bytes, int] = {}  # of the records
        for number, record in enumerate(self._records() if self._count else ()):
            if zlib.crc32(record["checked"].tobytes()) == record["checksum"]:
                self._numbers[record["checked"]["key"].item()] = number

    def __contains__(self, key: bytes) -> bool:
        return key in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, keys: list[bytes], vectors: np.ndarray) -> None:
        """Adds vectors, float32 `[keys, width]`, and writes them at once."""
        records = np.empty(len(keys), self._type)
        records["checked"]["key"] = np.frombuffer(b"".join(keys), f"V{_KEY_BYTES}")
        records["checked"]["vector"] = vectors
        records["checksum"] = [zlib.crc32(each.tobytes()) for each in records["checked"]]
        self._file.write(records.tobytes())
        self._file.flush()
        self._numbers.update({key: number for number, key in enumerate(keys, start=self._count)})
        self._count += len(keys)

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
        return self._records()["checked"]["vector"][[self._numbers[key] for key in keys]]

    def close(self) -> None:
        self._file.close()

    def _records(self) -> np.memmap:
        return np.memmap(self.path, self._type, "r")

"""The rows of an index: a file of JSON lines, and a file with the start of each row."""

from __future__ import annotations

import io
import json
import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np


class IndexRows:
    """The rows of an index, read one by one on demand.

    Args:
        rows: the file of JSON lines.
        starts: the file with the offset of each row, and the end of the last.

    Raises:
        ValueError: the files do not belong together.
    """

    def __init__(self, rows: Path, starts: Path) -> None:
        try:
            self._starts = np.load(starts, mmap_mode="r", allow_pickle=False)
            with open(rows, "rb") as file:
                self._rows = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            fits = self._starts.dtype == np.int64 and self._starts.ndim == 1 and self._starts[-1] == len(self._rows)
        except (ValueError, IndexError, EOFError):
            fits = False
        if not fits:
            raise ValueError(f"{starts} is damaged; remove its directory and index the corpus again")

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, number: int) -> dict[str, Any]:
        return json.loads(self.line(number))

    def line(self, number: int) -> bytes:
        """A row as JSON, with its line end."""
        return self._rows[self._starts[number] : self._starts[number + 1]]

    def lines(self) -> Iterator[bytes]:
        return map(self.line, range(len(self)))


def write_rows(lines: Iterable[bytes], rows: Path, starts: Path) -> None:
    """Writes the files for `IndexRows`."""
    places = [0]
    with open(rows, "wb") as file:
        for line in lines:
            places.append(places[-1] + file.write(line))
    content = io.BytesIO()  # into a file, NumPy writes by itself: its error for a full disk gives no reason
    np.save(content, np.array(places, np.int64), allow_pickle=False)
    starts.write_bytes(content.getbuffer())

"""The files of an index: its rows, and a manifest with the sizes and checksums of all files."""

from __future__ import annotations

import datetime
import io
import json
import mmap
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from keras_bert import files
from keras_bert.data.tables import missing_column_error

T = TypeVar("T")

MANIFEST = "index.json"
_SHAPE = {
    "preset": str,
    "model": str,
    "text_column": str,
    "stored": str,
    "texts": int,
    "version": int,
    "similarity": str,
    "bytes": {str: int},
    "checksums": {str: int},
}
_DECIMAL = re.compile(r"-?(0|[1-9]\d*)\.\d+")
_READ_BYTES = 2**24  # bytes to read at a time


@dataclass(frozen=True)
class Manifest:
    """The content of `index.json`. Each build writes files of a new version, so the old index stays until its end."""

    preset: str  # the handle of the model
    model: str  # the digest of the model
    text_column: str
    stored: str  # "float32" or "int8"
    texts: int
    version: int
    similarity: str = "cosine"  # of the model, "cosine" or "dot": the meaning of a product of vectors
    bytes: dict[str, int] = field(default_factory=dict)  # the size of each file, by name
    checksums: dict[str, int] = field(default_factory=dict)  # the CRC-32 of each file, by name

    @property
    def vectors(self) -> str:
        return f"vectors-{self.version}.faiss"

    @property
    def rows(self) -> str:
        return f"rows-{self.version}.jsonl"

    @property
    def starts(self) -> str:
        """The name of the file with the start of each row in the file of rows."""
        return f"rows-{self.version}.npy"

    @property
    def names(self) -> tuple[str, str, str]:
        return self.vectors, self.rows, self.starts


def read_index(directory: Path, read: Callable[[Manifest], T]) -> T | None:
    """Reads an index, again if another process replaces it meanwhile. Returns None if there is no index."""
    while (manifest := _read_manifest(directory)) is not None:
        try:
            _check_files(directory, manifest)
            return read(manifest)
        except (ValueError, FileNotFoundError):
            if _read_manifest(directory) == manifest:
                raise
    return None


def find_manifest(directory: Path) -> Manifest:
    """Reads the manifest of an index. Raises FileNotFoundError if there is none, and ValueError if it is damaged."""
    if (manifest := _read_manifest(directory)) is None:
        raise FileNotFoundError(f"{directory} holds no {MANIFEST}; index a corpus there, to the end")
    return manifest


def _read_manifest(directory: Path) -> Manifest | None:
    try:
        values = files.read_json(directory / MANIFEST, {**_SHAPE, "checksum": int})
    except FileNotFoundError:
        return None
    if values.pop("checksum") != _compute_manifest_checksum(values):
        raise _damaged_error(directory, MANIFEST, "has changed")
    return Manifest(**{name: values[name] for name in _SHAPE})


def _check_files(directory: Path, manifest: Manifest) -> None:
    for name in manifest.names:
        size = (directory / name).stat().st_size if (directory / name).is_file() else None
        if size is None or size != manifest.bytes.get(name):
            problem = "is missing" if size is None else f"has {size:,} bytes, not {manifest.bytes.get(name, 0):,}"
            raise _damaged_error(directory, name, problem)
        if _compute_checksum(directory / name) != manifest.checksums.get(name):
            raise _damaged_error(directory, name, "has changed")


def _damaged_error(directory: Path, name: str, problem: str) -> ValueError:
    return ValueError(f"{directory} is damaged: {name} {problem}; remove the directory and index the corpus again")


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Writes the manifest and removes the files of older versions. Call it when the new files are complete."""
    values = asdict(manifest)
    values["bytes"] = {name: (directory / name).stat().st_size for name in manifest.names}
    values["checksums"] = {name: _compute_checksum(directory / name) for name in manifest.names}
    values["checksum"] = _compute_manifest_checksum(values)
    files.write_texts(directory, {MANIFEST: files.to_json(values)})
    for pattern in ("vectors-*.faiss", "rows-*.jsonl", "rows-*.npy"):
        for path in directory.glob(pattern):
            if path.name not in manifest.names:
                path.unlink()


def _compute_manifest_checksum(values: dict[str, object]) -> int:
    """Computes the CRC-32 of the values of a manifest, without the checksum itself."""
    return zlib.crc32(files.to_json(values).encode())


def _compute_checksum(path: Path) -> int:
    """Computes the CRC-32 of a file, at one or two gigabytes per second."""
    checksum = 0
    with open(path, "rb") as file:
        while part := file.read(_READ_BYTES):
            checksum = zlib.crc32(part, checksum)
    return checksum


# -- The rows of an index: a file of JSON lines, and a file with the start of each row.


# NumPy reads a header as a Python literal, which Python 3.11 cannot do in two threads at once (python/cpython#106905).
_HEADERS = threading.Lock()


class IndexRows:
    """The rows of an index, read one by one on demand."""

    def __init__(self, rows: Path, starts: Path) -> None:
        try:
            with _HEADERS:
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
        """Reads a row as JSON, with its line end."""
        return self._rows[self._starts[number] : self._starts[number + 1]]

    def lines(self) -> Iterator[bytes]:
        return map(self.line, range(len(self)))

    def matching(self, where: Mapping[str, object]) -> np.ndarray:
        """Finds the numbers, int64, of the rows that have one of the values of `where` in each of its columns."""
        wanted = {column: _Values(values) for column, values in where.items()}
        if not wanted:
            raise ValueError("where is empty; expected a column and its value, such as {'id': '7'}")
        numbers, columns = [], set()
        for number, line in enumerate(self.lines()):
            row = json.loads(line)
            columns |= row.keys()
            if all(column in row and row[column] in values for column, values in wanted.items()):
                numbers.append(number)
        if missing := [column for column in wanted if column not in columns]:
            raise missing_column_error("the index", missing[0], sorted(columns))
        return np.array(numbers, np.int64)


class _Values:
    """Values of a filter. Texts equal texts exactly; a value of another type also equals the text that means it."""

    def __init__(self, values: object) -> None:
        wanted = list_values(values)
        self._texts = {each for each in wanted if isinstance(each, str)}
        self._others = {_meaning(each) for each in wanted if not isinstance(each, str)}
        self._all = self._others | set(map(_meaning, self._texts))

    def __contains__(self, cell: object) -> bool:
        if isinstance(cell, str):
            return cell in self._texts or (bool(self._others) and _meaning(cell) in self._others)
        return _meaning(cell) in self._all


def list_values(values: Any) -> list[object]:
    """Lists the alternatives of a filter, a value or several, as Python's values."""
    if isinstance(values, np.ndarray | np.generic):
        values = values.tolist()
    is_one = isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable)
    return [each.item() if isinstance(each, np.generic) else each for each in ([values] if is_one else values)]


def _meaning(value: object) -> str:
    """Converts a cell to a text: 7, 7.0, "7" and "7.0" are one, True and "TRUE", a date and its text."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.date | datetime.time):
        return str(value)  # as in the index
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    if text.lower() in ("true", "false"):
        return text.lower()
    return text.rstrip("0").rstrip(".") if _DECIMAL.fullmatch(text) else text


def write_rows(lines: Iterable[bytes], rows: Path, starts: Path) -> None:
    """Writes the files for `IndexRows`."""
    offsets = [0]
    with open(rows, "wb") as file:
        for line in lines:
            offsets.append(offsets[-1] + file.write(line))
    content = io.BytesIO()  # not the file itself: NumPy's error for a full disk gives no reason
    np.save(content, np.array(offsets, np.int64), allow_pickle=False)
    starts.write_bytes(content.getbuffer())

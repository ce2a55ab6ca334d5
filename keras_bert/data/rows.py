"""Reads CSV, TSV, JSON lines and Parquet: rows with their line numbers."""

from __future__ import annotations

import csv
import io
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert.data.decoding import json_object, parquet_cells, reading_parquet
from keras_bert.extras import needed
from keras_bert.files import lines_of, read_text, with_line_feeds

_CELL_LIMIT = threading.Lock()
FORMATS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_ALL = "'csv', 'tsv', 'jsonl' or 'parquet'"


@dataclass(frozen=True)
class Rows:
    """The content of a table."""

    names: list[str] | None  # names of the columns; for JSON lines, the keys of all rows; None without a header line
    width: int  # the number of columns
    # Each row: its (first) line number, from 1, and its cells: a list, a dict (JSON lines and Parquet), or an error
    # message. A cell of Parquet that Python cannot hold is a ValueError.
    rows: list[tuple[int, list[str] | dict[str, Any] | str]]
    numbered: str = "line"  # the unit of the numbers: lines, or the rows of Parquet


def format_of(path: str | Path, given: str | None) -> str:
    """The format of a table: `given`, else that of the file's extension. Raises ValueError if it is unknown."""
    if given is not None and given not in FORMATS.values():
        raise ValueError(f"format is {given!r}; expected {_ALL}")
    found = given or FORMATS.get(Path(path).suffix.lower())
    if not found:
        raise ValueError(f"{path} does not end in {', '.join(FORMATS)}; pass format={_ALL}")
    return found


def read_rows(path: str | Path, format: str, header: bool) -> Rows:
    """Reads a table in one of `FORMATS`, as `read_table` does. `header`: whether the first line of a CSV or TSV is one.

    Raises:
        ValueError: as every reader; or the table has only a header, or a quote that is never closed.
        ImportError: it is Parquet, but pyarrow is not installed.
    """
    if format == "parquet":
        return _parquet_rows(path)
    text = read_text(path)
    if format == "jsonl":
        return _json_rows(text)
    found = list(_split_csv(text, path) if format == "csv" else _split_tsv(text))
    while found and not found[-1][1]:  # blank lines at the end
        found.pop()
    names = None
    if header:
        first = found.pop(0)[1]
        if not first or isinstance(first, str):
            raise ValueError(f"{path}: line 1, which should name the columns, is {first or 'blank'}")
        names = [name.strip() for name in first]
    if not found:
        raise ValueError(f"{path} has a header line and no rows")
    # Without a header, the width is that of most rows, because the first row may be bad.
    lengths = Counter(len(cells) for _, cells in found if isinstance(cells, list))
    width = len(names) if names is not None else lengths.most_common(1)[0][0] if lengths else 0
    return Rows(names, width, [(line, _checked(cells, width)) for line, cells in found])


def _checked(cells: list[str] | str, width: int) -> list[str] | str:
    """A row's cells, or an error message."""
    if not cells:
        return "blank"
    if isinstance(cells, list) and len(cells) != width:
        return f"{len(cells)} cell{'s' if len(cells) > 1 else ''} instead of {width}"
    return cells


def _split_tsv(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and cells; no cells for a blank line."""
    for line, content in enumerate(lines_of(text), start=1):
        yield line, content.split("\t") if content else []


def _split_csv(text: str, path: str | Path) -> Iterator[tuple[int, list[str] | str]]:
    """Line numbers and cells; no cells for a blank line, and an error message for a malformed row."""
    # Lines end with \n or \r\n: as in an editor, a \r in a quoted cell does not end a line.
    reader = csv.reader(io.StringIO(with_line_feeds(text), newline="\n"), strict=True)
    with _cells_of_any_length(len(text)):
        while True:
            line = reader.line_num + 1
            try:
                yield line, next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if "unexpected end" in str(error):  # the cell takes the rest of the file, so no row can be left out
                    raise ValueError(
                        f"{path}, line {line}: a quote is opened and never closed; double the quotes inside texts, "
                        "or read the file with format='tsv' if it has no quoted cells"
                    ) from None
                yield line, f"not CSV ({error})"


@contextmanager
def _cells_of_any_length(length: int) -> Iterator[None]:
    """Lifts the csv module's process-wide limit of 131,072 characters per cell: a text may be a book."""
    with _CELL_LIMIT:  # a reader in another thread must not restore the limit too early
        before = csv.field_size_limit()
        csv.field_size_limit(max(before, length))
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _json_rows(text: str) -> Rows:
    rows = [(line, _json_row(content)) for line, content in enumerate(lines_of(text.rstrip()), start=1)]
    names = list(dict.fromkeys(name for _, row in rows if isinstance(row, dict) for name in row))
    return Rows(names, len(names), rows)


def _json_row(content: str) -> dict[str, Any] | str:
    """A line's object, or an error message."""
    try:
        return json_object(content)
    except ValueError as error:
        return str(error)


def _parquet_rows(path: str | Path) -> Rows:
    parquet = needed("pyarrow.parquet", "pyarrow", "parquet")
    with open(path, "rb") as file, reading_parquet(path):
        table = parquet.ParquetFile(file).read()
        names = table.column_names
        columns = [parquet_cells(*each) for each in zip(table.columns, names, strict=True)]
    if not table.num_rows:
        raise ValueError(f"{path} is empty")
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{path} has {times} columns {name!r}; the names must differ")
    rows = (dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True))
    return Rows(names, len(names), list(enumerate(rows, start=1)), "row")

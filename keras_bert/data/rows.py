"""CSV, TSV and JSON lines -> rows with their line numbers."""

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

from keras_bert.data.decoding import json_object, lines_of, read_text

_CELL_LIMIT = threading.Lock()
FORMATS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


@dataclass(frozen=True)
class Rows:
    """The content of a table.

    Attributes:
        names: the names of the columns; for JSON lines, all keys of all rows. None without a header line.
        width: the number of columns.
        rows: for each row the number of its (first) line, from 1, and its cells: a list of `width` strings, or for JSON
            lines a dict; or a str that says what is wrong with the row.
    """

    names: list[str] | None
    width: int
    rows: list[tuple[int, list[str] | dict[str, Any] | str]]


def format_of(path: str | Path, given: str | None) -> str:
    """The format of a table: `given`, else by the file's extension. Raises ValueError if neither is known."""
    if given is not None and given not in FORMATS.values():
        raise ValueError(f"format is {given!r}; it can be 'csv', 'tsv' or 'jsonl'")
    found = given or FORMATS.get(Path(path).suffix.lower())
    if not found:
        raise ValueError(f"{path} does not end in {', '.join(FORMATS)}; say what it is: format='csv', 'tsv' or 'jsonl'")
    return found


def read_rows(path: str | Path, format: str, header: bool) -> Rows:
    """Reads a table.

    Args:
        path: a file in UTF-8.
        format: "csv": quoted as in RFC 4180, so that a cell may hold commas, quotes and line ends. "tsv": not
            quoted at all, so that a quote is a character like any other. "jsonl": an object a line.
        header: whether the first line of a CSV or TSV has the columns' names.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not UTF-8, is empty, has a header only, or a quote that is never closed.
    """
    text = read_text(path)
    if format == "jsonl":
        return _json_rows(text)
    split = _split_csv(text, path) if format == "csv" else _split_tsv(text)
    found = list(split)
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
    # Without a header, most rows decide: if the first one is odd, the others are still right.
    lengths = Counter(len(cells) for _, cells in found if isinstance(cells, list))
    width = len(names) if names is not None else lengths.most_common(1)[0][0] if lengths else 0
    return Rows(names, width, [(line, _checked(cells, width)) for line, cells in found])


def _checked(cells: list[str] | str, width: int) -> list[str] | str:
    """A row's cells, or what is wrong with it."""
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
    """Line numbers and cells; no cells for a blank line, and an error message for a row that is not CSV."""
    # Lines end with \n or \r\n: a \r in a quoted cell ends no line, as in an editor.
    reader = csv.reader(io.StringIO(text, newline="\n"), strict=True)
    with _cells_of_any_length(len(text)):
        while True:
            line = reader.line_num + 1
            try:
                yield line, next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if "unexpected end" in str(error):  # this cell has the rest of the file: no row can be left out
                    raise ValueError(
                        f"{path}, line {line}: a quote is opened here that is never closed; double the quotes that "
                        "are part of a text, or read it with format='tsv' if the file does not quote"
                    ) from None
                yield line, f"not CSV ({error})"


@contextmanager
def _cells_of_any_length(length: int) -> Iterator[None]:
    """Lifts the csv module's process-wide limit of 131,072 characters a cell: a text may be a book."""
    with _CELL_LIMIT:  # or a file that is read at the same time would restore the limit too early
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
    """A line's object, or what is wrong with it."""
    try:
        return json_object(content)
    except ValueError as error:
        return str(error)

"""The one reader of tables: rows of any format in `table_formats.py`, numbered, and the finder of their columns."""

from __future__ import annotations

import contextlib
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from keras_bert.counted import counted, did_you_mean, listed
from keras_bert.data import table_formats
from keras_bert.data.examples import Problems, check_row, check_text
from keras_bert.data.table_formats import Row

Column: TypeAlias = str | int  # by name, or by number from 1, also as a str of digits
R = TypeVar("R", bound=Row)
_FIRST_ROWS = 20  # rows that together usually have all columns


class Table:
    """A table that is read row by row. Each iteration yields `(number, row)` from the beginning."""

    def __init__(
        self,
        path: str | Path,
        format: str | None = None,
        header: bool = True,
        delimiter: str | None = None,
        sheet: str | None = None,
    ) -> None:
        self.path, self.format = path, table_formats.known_format(path, format)
        self._format = table_formats.FORMATS[self.format]
        if delimiter is not None and self._format.delimiter != "":
            raise ValueError(f"delimiter is {delimiter!r}, but {path} is {self.format}; only a CSV takes a delimiter")
        if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n'):
            raise ValueError(f"delimiter is {delimiter!r}; expected one character, such as ';'")
        if sheet is not None and not self._format.has_sheets:
            raise ValueError(f"sheet is {sheet!r}, but {path} is a {self._format.word}; only a workbook has sheets")
        self.unit, self.has_cells = self._format.unit, self._format.has_cells
        self.has_header = header and self.has_cells  # whether the first row names the columns
        self.delimiter = self._format.delimiter or delimiter  # None if cells have no character between them
        # How to read a CSV: its delimiter, and the lines before the table; a workbook: a sheet, and whether to warn.
        self._how: tuple[str | int | None, ...] = (sheet, sheet is None) if self._format.has_sheets else ()
        if self._format.delimiter == "":
            self._how = (delimiter, 0) if delimiter else table_formats.recognise_delimiter(path, header)
            self.delimiter = str(self._how[0])
        self.names: list[str] | None = None  # of the columns; for JSON lines, the rows have them
        if self._format.names:
            self.names = self._format.names(path)
        elif self.has_header:
            self.names = self._read_names(next(self._read(), None))

    def empty_error(self) -> ValueError:
        """Makes the error for a table without rows."""
        has_only_header = self.has_header and self.names is not None
        return ValueError(f"{self.path} {'has a header line and no rows' if has_only_header else 'is empty'}")

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        return self._check_rows(table_formats.drop_last_blanks(self._read())) if self.has_cells else self._read()

    def _read(self) -> Iterator[tuple[int, Any]]:
        how, self._how = self._how, self._how[:1] if self._format.has_sheets else self._how  # warns once
        return self._format.read(self.path, *how)

    def _read_names(self, first: tuple[int, list[str] | str] | None) -> list[str]:
        number, cells = first or (1, [])
        if isinstance(cells, str) or not "".join(cells).strip():
            if not any(True for _ in table_formats.drop_last_blanks(self._read())):
                raise self.empty_error()
            what = cells if isinstance(cells, str) else "blank"
            raise ValueError(f"{self.path}: {self.unit} {number}, which should name the columns, is {what}")
        return [name.strip() for name in cells]

    def _check_rows(self, rows: Iterator[tuple[int, list[str] | str]]) -> Iterator[tuple[int, list[str] | str]]:
        """Yields the rows without the header and its repetitions; for a row of another width, a message."""
        if self.names is None:
            yield from ((number, cells or "blank") for number, cells in rows)
            return
        next(rows, None)
        repeated = []
        for number, cells in rows:
            if isinstance(cells, list) and len(self.names) > 1 and [cell.strip() for cell in cells] == self.names:
                repeated.append(number)
            else:
                yield number, _check_width(cells, len(self.names))
        if repeated:
            warnings.warn(
                f"{self.path} repeats its header in {self.unit} {', '.join(map(str, repeated[:10]))}"
                f"{' and others' if len(repeated) > 10 else ''}; rows left out: {len(repeated):,}",
                stacklevel=4,
            )


@dataclass(frozen=True)
class TableRows:
    """The rows of a table, in memory."""

    table: Table = field(compare=False)
    names: list[str] | None  # of the columns; for JSON lines, the keys of all rows; None without a header
    width: int  # the number of columns
    rows: list[tuple[int, Row]]  # with numbers from 1; for a row of several lines, that of the first

    def find(self, column: Column) -> Column | None:
        """Finds a column: its index in rows that are lists, its key in dicts, None if all rows are bad."""
        path, are_cells = self.table.path, self.table.has_cells
        if all(isinstance(row, str) for _, row in self.rows):
            return None
        indices = [index for index, name in enumerate(self.names or []) if name == column]
        if not indices and are_cells and str(column).isdecimal():
            if 1 <= int(column) <= self.width:
                return int(column) - 1
            raise ValueError(f"{path} has no column {column}; its columns are 1 to {self.width}")
        if self.names is None:
            raise ValueError(
                f"{path} is read without a header: choose columns by number, 1 to {self.width}, not {column!r}"
            )
        if not indices:
            raise missing_column_error(path, column, self.names, are_cells)
        if len(indices) > 1:
            numbers = " and ".join(str(index + 1) for index in indices)
            raise ValueError(f"{path} has several columns {column!r}; choose one by number, {numbers}")
        return indices[0] if are_cells else column

    def has(self, column: Column) -> bool:
        """Checks whether there is a column of this name or number."""
        is_number = self.table.has_cells and str(column).isdecimal() and 1 <= int(column) <= self.width
        return is_number or column in (self.names or ())

    def find_all(self, columns: Iterable[Column | None]) -> list[Column | None]:
        return [None if column is None else self.find(column) for column in columns]


def read_rows(path: str | Path, format: str | None = None, first: int | None = None, **how: Any) -> TableRows:
    """Reads a table into memory, or its `first` rows; `how` are other arguments of `Table`."""
    table = Table(path, format, **how)
    rows, names = list(itertools.islice(table, first)), table.names
    if not rows:
        raise table.empty_error()
    if names is None and not table.has_cells:
        names = list(dict.fromkeys(name for _, row in rows if isinstance(row, dict) for name in row))
    if names is not None:
        return TableRows(table, names, len(names), rows)
    width = _count_usual_cells(cells for _, cells in rows)
    return TableRows(table, None, width, [(number, _check_width(cells, width)) for number, cells in rows])


def check_columns(path: str | Path, columns: Iterable[Column | None], **how: Any) -> None:
    """Checks that a table has columns (None is ignored). Reads the first rows, and more only if these lack a column."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reading itself warns
        with contextlib.suppress(ValueError):
            read_rows(path, first=_FIRST_ROWS, **how).find_all(columns)
            return
    read_rows(path, **how).find_all(columns)


def read_cell(row: Any, key: Column | None, column: Column) -> object:
    """Reads the cell of a row, a list or a dict, at the key that `TableRows.find` returned for a column."""
    if isinstance(row, dict) and key not in row:
        raise ValueError(f"no {column}")
    return check_cell(row[key], column)


def check_cell(cell: object, column: Column) -> object:
    """Returns a cell. Raises ValueError for what Python cannot hold, and for a formula without its value."""
    if isinstance(cell, ValueError):
        raise cell
    if isinstance(cell, table_formats.Unstored):
        raise ValueError(
            f"{column} is a formula without a stored value: open the workbook in Excel or LibreOffice, and save it"
        )
    return cell


def _count_usual_cells(rows: Iterable[Row]) -> int:
    """Counts the cells that most rows have: without a header, the first row may be bad."""
    lengths = Counter(len(cells) for cells in rows if isinstance(cells, list))
    return lengths.most_common(1)[0][0] if lengths else 0


def _check_width(cells: R, width: int) -> R | str:
    """Checks the number of cells of a row, and returns the cells, or a message if there are too few or too many."""
    if not cells:
        return "blank"
    if isinstance(cells, list) and len(cells) != width:
        return f"{counted(cells, 'cell')} instead of {width}"
    return cells


def missing_column_error(
    path: str | Path, column: str | int, names: Sequence[str], may_be_example: bool = False
) -> ValueError:
    """Makes the error for a lacking column, with the name probably meant, or that the names are an example."""
    quoted_names = listed([repr(shorten(name)) for name in names])
    advice = did_you_mean(str(column), names)
    if may_be_example and not advice and look_like_example(names):
        advice = "; if its first line is an example, read it without a header, and choose columns by number"
    return ValueError(f"{path} has no column {column!r}; its columns are {quoted_names}{advice}")


def look_like_example(names: Sequence[str]) -> bool:
    """Whether the names of columns look like an example's cells: one is empty, long or a number, or two are equal."""
    is_cell = any(not name or len(name) > 40 or re.fullmatch(r"[-+.,\d]+", name) for name in names)
    return is_cell or len(set(names)) < len(names)


def shorten(text: str) -> str:
    """Shortens a text to at most 40 characters, for a message."""
    return text if len(text) <= 40 else f"{text[:37]}..."


# -- Rows that must have texts.


class CorpusRow(NamedTuple):
    """A row of a corpus. A row of a text file has only the text column."""

    line: int  # the number of its first line in the file, from 1; in Parquet and Excel files, of the row
    columns: dict[str, Any]  # its cells
    text: str


def text_rows(
    path: str | Path, columns: Sequence[str], *, skip_bad: bool = False, may_be_empty: bool = False, **how: Any
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields each row's number and cells by column, with texts in `columns`; bad rows raise, or warn, at the end."""
    table = Table(path, **how)
    names = table.names
    if names is None and table.has_cells:
        width = _count_usual_cells(row for _, row in itertools.islice(table, table_formats.SAMPLED_ROWS))
        names = [str(number) for number in range(1, 1 + width)]
    names = table_formats.check_unique(path, names or [])  # JSON lines have none
    for column in columns if names else ():
        if column not in names:
            raise missing_column_error(path, column, names, table.has_header)
    if not table.has_cells and not table.names and any(True for _ in table):
        check_columns(path, columns, format=table.format)  # one message, and not one for each line
    problems, number_of_rows = Problems(path, "rows"), 0
    for number_of_rows, (number, cells) in enumerate(table, start=1):  # noqa: B007
        try:
            cells = _check_width(cells, len(names)) if isinstance(cells, list) else cells
            if isinstance(cells, str):
                raise ValueError(cells)
            row = cells if isinstance(cells, dict) else dict(zip(names, cells, strict=True))
            for column in columns:
                text_of(row, column)
            yield number, check_row(row)
        except ValueError as error:
            problems.add(f"{table.unit} {number}", str(error))
    if not number_of_rows and not may_be_empty:
        raise table.empty_error()
    problems.settle(number_of_rows, skip_bad)


def check_corpus(path: str | Path, text_column: str, *, must_be_table: bool = False) -> None:
    """Checks that a file is a corpus with a column of texts, as `read_corpus` does, up to the first text."""
    found = table_formats.known_format(path, None) if must_be_table else table_formats.format_of(path)
    if found is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the reading itself warns
            next(text_rows(path, [text_column], may_be_empty=True), None)


def text_of(row: Mapping[str, object], column: str) -> str:
    """Reads the text in a column of a row. Raises ValueError if there is none."""
    if column not in row:
        raise ValueError(f"no {column!r}; its keys are {listed(list(map(repr, row)))}")
    return text_in(row[column], column)


def text_in(value: object, name: str) -> str:
    """Reads the text in a cell. Raises ValueError, with the name of the column, if there is none."""
    value = check_cell(value, name)
    if value is None:
        raise ValueError(f"{name} is empty")
    if not isinstance(value, str):
        raise ValueError(f"{name} is {shorten(repr(value))}, which is not a text")
    return check_text(value, name)


def read_corpus(path: str | Path, text_column: str = "text", skip_bad: bool = False) -> list[CorpusRow]:
    """Reads a corpus: a table, as `read_table` does; any other file has one text per line. Skips its blank lines."""
    if table_formats.format_of(path) is not None:
        numbered_rows = text_rows(path, [text_column], skip_bad=skip_bad)
        return [CorpusRow(number, row, row[text_column]) for number, row in numbered_rows]
    lines = table_formats.number_lines(path)
    texts = [CorpusRow(number, {text_column: text}, text) for number, text in lines if text.strip()]
    if not texts:
        raise ValueError(f"{path} is empty")
    return texts

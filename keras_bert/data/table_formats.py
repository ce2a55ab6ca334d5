"""The formats of tables: how each is recognised, and how its rows are read. A format is a line of `FORMATS`."""

from __future__ import annotations

import csv
import itertools
import re
import stat
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from keras_bert.data.examples import parse_json_object
from keras_bert.data.workbook_process import read_workbook
from keras_bert.extras import import_extra
from keras_bert.files import open_bytes, raise_if_not_of_content, read_lines

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

_DELIMITERS = (",", ";", "\t")  # that are recognised in a CSV file
SAMPLED_ROWS = 20  # the rows of a CSV file that decide its delimiter, or its width
_CELL_LIMIT_LOCK = threading.Lock()
PARQUET_ROWS = 16384  # to read at a time
_PARQUET_BUFFER = 2**20  # bytes of a column to read at a time, instead of whole row groups
# The errors of pyarrow for a cell that Python cannot hold; UnicodeDecodeError and ArrowInvalid are ValueErrors.
_NO_VALUE = (ValueError, OverflowError, IndexError, KeyError, TypeError, NotImplementedError)

# A row: its cells as a list, or by column; for a bad row, a message. An empty list is a blank row. A cell of Parquet
# that Python cannot hold is a ValueError object.
Row = list[str] | dict[str, Any] | str
C = TypeVar("C", bound=list[str] | str)


# -- CSV, quoted as in RFC 4180, and TSV, where a quote is like any other character.


def _read_csv(path: str | Path, delimiter: str, skipped: int = 0) -> Iterator[tuple[int, list[str] | str]]:
    # Lines end with \n or \r\n: as in an editor, a \r in a quoted cell does not end a line.
    lines = itertools.islice(read_lines(path), skipped, None)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        number = skipped + reader.line_num + 1
        try:
            with _cells_of_any_length():
                cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end" in str(error):  # the cell takes the rest of the file, so no row can be left out
                raise ValueError(
                    f"{path}, line {number}: a quote is opened and never closed; double the quotes inside texts, "
                    "or read the file as tsv if it has no quoted cells"
                ) from None
            cells = f"not CSV ({error})"
        yield number, cells


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    """Lifts the csv module's process-wide limit of 131,072 characters per cell: a text may be a book."""
    with _CELL_LIMIT_LOCK:  # a reader in another thread must not restore the limit too early
        before = csv.field_size_limit(2**31 - 1)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def recognise_delimiter(path: str | Path, header: bool) -> tuple[str, int]:
    """Recognises the delimiter of a CSV file, and counts the lines before the table.

    The delimiter gives most of the first rows as many cells as the header, two or more; without one, all the same.
    """
    first_line = next(read_lines(path), "")  # Excel may write the delimiter there
    if declared := re.fullmatch(r"sep=(.)\r?\n", first_line):
        return declared[1], 1
    fitting = {}  # delimiter -> the share of the rows that it divides alike
    for delimiter in _DELIMITERS:
        try:
            rows = [cells for _, cells in itertools.islice(_read_csv(path, delimiter), SAMPLED_ROWS) if cells]
        except ValueError:  # a quote that is never closed, or bad UTF-8: reading the table raises the same
            rows = []
        if header and rows and isinstance(rows[0], str):
            rows = []
        widths = [len(cells) for cells in rows if isinstance(cells, list)]
        is_divided = widths and widths[0] > 1 and (header or len(set(widths)) == 1)
        fitting[delimiter] = widths.count(widths[0]) / len(rows) if is_divided else 0
    best = [each for each in _DELIMITERS if 0 < fitting[each] == max(fitting.values())] or [","]
    if len(best) > 1 and not header:
        raise ValueError(f"{path} may have cells divided by {best[0]!r} or {best[1]!r}; choose the delimiter")
    return best[0], 0


def _read_tsv(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    return ((number, line.split("\t") if line else []) for number, line in number_lines(path))


# -- JSON lines.


def json_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yields the lines of a file with their numbers, without the blank ones at the end."""
    return drop_last_blanks(number_lines(path))


def number_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yields each line with its number, without its end."""
    for number, line in enumerate(read_lines(path), start=1):
        yield number, line.removesuffix("\n").removesuffix("\r")


def drop_last_blanks(rows: Iterable[tuple[int, C]]) -> Iterator[tuple[int, C]]:
    """Leaves out the blank rows at the end."""
    blanks: list[tuple[int, C]] = []
    for number, row in rows:
        if not "".join(row).strip():
            blanks.append((number, row))
            continue
        yield from blanks
        blanks = []
        yield number, row


def json_row(line: str) -> dict[str, Any] | str:
    """Parses the object in a line. If there is none, returns a message with the reason."""
    try:
        return parse_json_object(line)
    except ValueError as error:
        return str(error)


def _read_json_lines(path: str | Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    return ((number, json_row(line)) for number, line in json_lines(path))


# -- Workbooks.


def _read_first_sheet(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of the first sheet as texts, as in a CSV file."""
    rows, width = read_workbook(path), 0
    with closing(rows):
        sheet, *others = next(rows)
        if others:
            names = ", ".join(map(repr, others))
            warnings.warn(f"{path}: only the sheet {sheet!r} is read, not {names}", stacklevel=6)
        for number, cells in enumerate(rows, start=1):
            while len(cells) > width and not cells[-1]:
                cells.pop()
            width = width or len(cells)
            yield number, cells if any(cells) else []


# -- Parquet.


def parquet_batches(path: str | Path, rows: int, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a Parquet file, up to `rows` at a time. Raises ValueError if it is damaged."""
    with open_parquet(path) as file:
        yield from file.iter_batches(rows, columns=columns)


@contextmanager
def open_parquet(path: str | Path) -> Iterator[ParquetFile]:
    """Opens a Parquet file. Raises ValueError if it is damaged; pyarrow raises errors of several classes."""
    parquet = import_extra("pyarrow.parquet", "pyarrow", "parquet")
    pa = import_extra("pyarrow", "pyarrow", "parquet")
    try:
        with (
            open_bytes(path) as opened,
            parquet.ParquetFile(opened, buffer_size=_PARQUET_BUFFER, pre_buffer=False) as file,
        ):
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise_if_not_of_content(path, error)
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from None


def _read_parquet_names(path: str | Path) -> list[str]:
    with open_parquet(path) as file:
        return check_unique(path, file.schema_arrow.names)


def check_unique(path: str | Path, names: list[str]) -> list[str]:
    """Checks that the names of columns differ, and returns them."""
    for name, times in Counter(names).most_common(1):
        if times > 1:
            raise ValueError(f"{path} has {times} columns {name!r}; the names must differ")
    return names


def convert_parquet_cells(column: pa.Array | pa.ChunkedArray, name: str) -> list[object]:
    """Converts a column of Parquet to Python values.

    One that Python cannot hold, such as the date 12000-01-01, becomes a text, or else a ValueError object.
    """
    try:
        return column.to_pylist()
    except _NO_VALUE:
        return [_convert_parquet_cell(each, name) for each in column]


def _convert_parquet_cell(cell: pa.Scalar, name: str) -> object:
    try:
        return cell.as_py()
    except UnicodeDecodeError as error:
        return ValueError(f"{name} is not UTF-8: bad byte {error.object[error.start]:#04x} at byte {error.start}")
    except _NO_VALUE as error:
        try:
            return cell.cast("string").as_py()
        except _NO_VALUE:
            return ValueError(f"{name} has a value of {cell.type} that Python cannot hold: {error}")


def _read_parquet(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    numbers, names = itertools.count(1), _read_parquet_names(path)
    for batch in parquet_batches(path, PARQUET_ROWS):
        columns = (convert_parquet_cells(*each) for each in zip(batch.columns, names, strict=True))
        for cells in zip(*columns, strict=True):
            yield next(numbers), dict(zip(names, cells, strict=True))


# -- The table of formats.


class Format(NamedTuple):
    """A format of tables."""

    suffixes: tuple[str, ...]
    read: Callable[..., Iterator[tuple[int, Row]]]  # each row of a file with its number
    magic: tuple[bytes, ...] = ()  # the first four bytes of its files, if they are always the same
    word: str = ""  # for a file, in messages
    unit: str = "line"  # of the numbers of rows
    has_cells: bool = True  # whether rows are lists of cells, the first maybe a header, and not dicts
    names: Callable[[str | Path], list[str]] | None = None  # of columns, if a file states them apart from its rows


_WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
FORMATS = {
    "csv": Format((".csv",), _read_csv),
    "tsv": Format((".tsv",), _read_tsv),
    "jsonl": Format((".jsonl", ".ndjson"), _read_json_lines, has_cells=False),
    "parquet": Format(
        (".parquet",), _read_parquet, (b"PAR1",), "parquet file", "row", has_cells=False, names=_read_parquet_names
    ),
    "xlsx": Format(_WORKBOOKS, _read_first_sheet, (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"), "workbook", "row"),
}


def format_of(path: str | Path, format: str | None = None) -> str | None:
    """Determines the format of a table, by its first bytes, then `format`, then its extension; None if unknown."""
    if format is not None and format not in FORMATS:
        raise ValueError(f"format is {format!r}; expected {', '.join(map(repr, FORMATS))}")
    if Path(path).exists() and stat.S_ISFIFO(Path(path).stat().st_mode):
        raise ValueError(f"{path} is a pipe, and tables are read more than once; write it into a file first")
    with open_bytes(path) as file:
        first_bytes = file.read(4)
    found = next((name for name, each in FORMATS.items() if first_bytes in each.magic), None)
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() != ".gz"]
    by_suffix = (name for name, each in FORMATS.items() if suffixes and suffixes[-1] in each.suffixes)
    expected = format or next(by_suffix, None)
    if found and format not in (None, found):
        raise ValueError(f"format is {format!r}, but {path} is {found}; leave format out")
    if expected and FORMATS[expected].magic and not found:
        raise ValueError(f"{path} is not a {FORMATS[expected].word}: it begins with {first_bytes!r}")
    return found or expected


def known_format(path: str | Path, format: str | None) -> str:
    """Determines the format of a table. Raises as `format_of`, and ValueError if it is unknown."""
    known = format_of(path, format)
    if known is None:
        *names, last = map(repr, FORMATS)
        suffixes = ", ".join(suffix for each in FORMATS.values() for suffix in each.suffixes)
        raise ValueError(f"{path} does not end in {suffixes}; choose the format {', '.join(names)} or {last}")
    return known

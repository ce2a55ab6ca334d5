"""The one reader of tables: CSV, TSV, JSON lines, Parquet and workbooks as numbered rows, of any size."""

from __future__ import annotations

import csv
import difflib
import itertools
import re
import stat
import threading
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from keras_bert.data.examples import Problems, check_row, check_text, parse_json_object
from keras_bert.data.workbooks import read_workbook
from keras_bert.extras import import_extra
from keras_bert.files import open_bytes, read_lines

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "xlsx"),
}
NAMES = tuple(dict.fromkeys(FORMATS.values()))
# The first bytes of a file -> its format, for formats that mark their files.
_MAGIC = {b"PAR1": "parquet", b"PK\x03\x04": "xlsx", b"\xd0\xcf\x11\xe0": "xlsx"}
_DELIMITERS = (",", ";", "\t")  # that are recognised in a CSV file
_SAMPLED_ROWS = 20  # the rows of a CSV file that decide its delimiter
_CELL_LIMIT_LOCK = threading.Lock()
PARQUET_ROWS = 16384  # to read at a time
_PARQUET_BUFFER = 2**20  # bytes of a column to read at a time, instead of whole row groups
# The errors of pyarrow for a cell that Python cannot hold; UnicodeDecodeError and ArrowInvalid are ValueErrors.
_NO_VALUE = (ValueError, OverflowError, IndexError, KeyError, TypeError, NotImplementedError)

# A row: its cells as a list (CSV, TSV, Excel) or by column (JSON lines, Parquet); for a bad row, a message. A cell of
# Parquet that Python cannot hold is a ValueError object.
Row = list[str] | dict[str, Any] | str
R = TypeVar("R", bound=Row)
C = TypeVar("C", bound=list[str] | str)


@dataclass(frozen=True)
class Rows:
    """The rows of a table, in memory.

    Attributes:
        names: the names of the columns; for JSON lines, the keys of all rows; None without a header line.
        width: the number of columns.
        rows: each row with its number, from 1; for a row of several lines, the number of the first.
        unit: the unit of the numbers: "line", or "row" in Parquet and Excel files.
    """

    names: list[str] | None
    width: int
    rows: list[tuple[int, Row]]
    unit: str


def format_of(path: str | Path, format: str | None = None) -> str | None:
    """Determines the format of a table, by its first bytes, then `format`, then its extension; None if unknown.

    Raises:
        OSError: the file cannot be read.
        ValueError: `format` is unknown or contradicts the file.
    """
    if format is not None and format not in NAMES:
        raise ValueError(f"format is {format!r}; expected {', '.join(map(repr, NAMES))}")
    if Path(path).exists() and stat.S_ISFIFO(Path(path).stat().st_mode):
        raise ValueError(f"{path} is a pipe, and tables are read more than once; write it into a file first")
    with open_bytes(path) as file:
        first_bytes = file.read(4)
    format_in_file = _MAGIC.get(first_bytes)
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() != ".gz"]
    expected_format = format or FORMATS.get(suffixes[-1] if suffixes else "")
    if format_in_file and format not in (None, format_in_file):
        raise ValueError(f"format is {format!r}, but {path} is {format_in_file}; leave format out")
    if expected_format in _MAGIC.values() and not format_in_file:
        what = "workbook" if expected_format == "xlsx" else f"{expected_format} file"
        raise ValueError(f"{path} is not a {what}: it begins with {first_bytes!r}")
    return format_in_file or expected_format


def known_format(path: str | Path, format: str | None) -> str:
    """Determines the format of a table. Raises as `format_of`, and ValueError if it is unknown."""
    known = format_of(path, format)
    if known is None:
        *names, last = map(repr, NAMES)
        raise ValueError(f"{path} does not end in {', '.join(FORMATS)}; choose the format {', '.join(names)} or {last}")
    return known


def read_rows(
    path: str | Path,
    format: str | None = None,
    header: bool = True,
    delimiter: str | None = None,
    first: int | None = None,
) -> Rows:
    """Reads a table into memory, or its `first` rows. Arguments and errors are those of `read_table`."""
    table = Table(path, format, header, delimiter)
    rows, names = list(itertools.islice(table, first)), table.names
    if not rows:
        raise table.empty_error()
    if names is None and table.format == "jsonl":
        names = list(dict.fromkeys(name for _, row in rows if isinstance(row, dict) for name in row))
    if names is not None:
        return Rows(names, len(names), rows, table.unit)
    width = _count_usual_cells(cells for _, cells in rows)
    return Rows(None, width, [(number, _check_width(cells, width)) for number, cells in rows], table.unit)


class Table:
    """A table that is read row by row. Each iteration yields `(number, row)` from the beginning.

    Attributes:
        format: one of `NAMES`.
        delimiter: the character between the cells of a CSV or TSV; None for the other formats.
        names: the names of the columns; None without a header, and for JSON lines.
        unit: the unit of the numbers, "line" or "row".
    """

    def __init__(
        self, path: str | Path, format: str | None = None, header: bool = True, delimiter: str | None = None
    ) -> None:
        self.path, self.format = path, known_format(path, format)
        if delimiter is not None and self.format != "csv":
            raise ValueError(f"delimiter is {delimiter!r}, but {path} is {self.format}; only a CSV takes a delimiter")
        if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n'):
            raise ValueError(f"delimiter is {delimiter!r}; expected one character, such as ';'")
        self.unit = "row" if self.format in ("parquet", "xlsx") else "line"
        self.delimiter = "\t" if self.format == "tsv" else delimiter
        self._skipped = 0  # lines before the table
        if self.format == "csv" and delimiter is None:
            self.delimiter, self._skipped = _recognise_delimiter(path, header)
        self.names: list[str] | None = None
        if self.format == "parquet":
            self.names = _read_parquet_names(path)
        elif self.format != "jsonl" and header:
            self.names = self._read_names(next(self._read_cells(), None))

    def empty_error(self) -> ValueError:
        """Makes the error for a table without rows."""
        has_header = self.names is not None and self.format != "parquet"
        return ValueError(f"{self.path} {'has a header line and no rows' if has_header else 'is empty'}")

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        if self.format == "jsonl":
            yield from ((number, json_row(line)) for number, line in json_lines(self.path))
        elif self.format == "parquet":
            numbers, names = itertools.count(1), self.names or []
            for batch in parquet_batches(self.path, PARQUET_ROWS):
                columns = (convert_parquet_cells(*each) for each in zip(batch.columns, names, strict=True))
                for cells in zip(*columns, strict=True):
                    yield next(numbers), dict(zip(names, cells, strict=True))
        else:
            yield from self._check_rows(_drop_last_blanks(self._read_cells()))

    def _read_cells(self) -> Iterator[tuple[int, list[str] | str]]:
        """Yields the cells of each row: an empty list for a blank row, a message for a malformed one."""
        if self.format == "xlsx":
            return _read_first_sheet(self.path)
        if self.format == "tsv":
            return ((number, line.split("\t") if line else []) for number, line in _number_lines(self.path))
        return _read_csv(self.path, self.delimiter or ",", self._skipped)

    def _read_names(self, first: tuple[int, list[str] | str] | None) -> list[str]:
        number, cells = first or (1, [])
        if isinstance(cells, str) or not "".join(cells).strip():
            if not any(True for _ in _drop_last_blanks(self._read_cells())):
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


def columns_at(table: Table, numbers: Sequence[int], without: Collection[str | int]) -> list[dict[str, Any]]:
    """Reads all columns except `without`, for rows given by number.

    Args:
        table: the table.
        numbers: the numbers of the rows, in the order of the table.
        without: columns to leave out, by name or by number from 1; names that the table lacks are ignored.

    Returns:
        For each row, a dict column -> cell. All rows have the same columns: a key that a row of JSON lines lacks is
        None. Without a header, columns are "1", "2" and so on. If two columns have one name, the second is renamed by
        its number: "name (3)".

    Raises:
        ValueError: a cell cannot be written.
    """
    names = None if table.names is None else _make_unique(table.names)
    wanted_numbers, rows = set(numbers), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reader of the examples has warned already
        for number, row in table:
            if number not in wanted_numbers:
                continue
            keys = names or [str(number) for number in range(1, len(row) + 1)]
            try:
                rows.append(check_row(row if isinstance(row, dict) else dict(zip(keys, row, strict=True))))
            except ValueError as error:
                raise ValueError(f"{table.path}, {table.unit} {number}: {error}") from None
    names = names or list(dict.fromkeys(name for row in rows for name in row))
    excluded = {names[int(each) - 1] if each not in names and str(each).isdecimal() else each for each in without}
    return [{name: row.get(name) for name in names if name not in excluded} for row in rows]


def _make_unique(names: Sequence[str]) -> list[str]:
    """Makes names unique: adds the number of the column to a repeated name."""
    unique: list[str] = []
    for number, name in enumerate(names, start=1):
        while name in unique:
            name = f"{name} ({number})"
        unique.append(name)
    return unique


def _count_usual_cells(rows: Iterable[Row]) -> int:
    """Counts the cells that most rows have: without a header, the first row may be bad."""
    lengths = Counter(len(cells) for cells in rows if isinstance(cells, list))
    return lengths.most_common(1)[0][0] if lengths else 0


def _check_width(cells: R, width: int) -> R | str:
    """Checks the number of cells of a row, and returns the cells, or a message if there are too few or too many."""
    if not cells:
        return "blank"
    if isinstance(cells, list) and len(cells) != width:
        return f"{len(cells)} cell{'s' if len(cells) > 1 else ''} instead of {width}"
    return cells


def _drop_last_blanks(rows: Iterable[tuple[int, C]]) -> Iterator[tuple[int, C]]:
    """Leaves out the blank rows at the end."""
    blanks: list[tuple[int, C]] = []
    for number, row in rows:
        if not "".join(row).strip():
            blanks.append((number, row))
            continue
        yield from blanks
        blanks = []
        yield number, row


def json_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yields the lines of a file with their numbers, without the blank ones at the end."""
    return _drop_last_blanks(_number_lines(path))


def _number_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yields each line with its number, without its end."""
    for number, line in enumerate(read_lines(path), start=1):
        yield number, line.removesuffix("\n").removesuffix("\r")


def json_row(line: str) -> dict[str, Any] | str:
    """Parses the object in a line. If there is none, returns a message with the reason."""
    try:
        return parse_json_object(line)
    except ValueError as error:
        return str(error)


def missing_column_error(
    path: str | Path, column: str | int, names: list[str], may_be_example: bool = False
) -> ValueError:
    """Makes the error for a column that a table lacks, with the name that was probably meant.

    Args:
        path: the table.
        column: the column.
        names: the columns of the table.
        may_be_example: whether the names come from a first line that may be an example instead.
    """
    quoted_names = ", ".join(repr(shorten(name)) for name in names)
    similar = [name for name in names if _fold(name) == _fold(str(column))]
    similar = similar or difflib.get_close_matches(str(column), names, 1, 0.8)
    advice = f"; did you mean {similar[0]!r}?" if similar else ""
    looks_like_data = any(not name or len(name) > 40 or re.fullmatch(r"[-+.,\d]+", name) for name in names)
    if may_be_example and not similar and (looks_like_data or len(set(names)) < len(names)):
        advice = "; if its first line is an example, read it without a header, and choose columns by number"
    return ValueError(f"{path} has no column {column!r}; its columns are {quoted_names}{advice}")


def _fold(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()


def shorten(text: str) -> str:
    """Shortens a text to at most 40 characters, for a message."""
    return text if len(text) <= 40 else f"{text[:37]}..."


# -- Rows that must have texts.


class CorpusRow(NamedTuple):
    """A row of a corpus.

    Attributes:
        line: the number of its first line in the file, from 1; in Parquet and Excel files, the number of the row.
        columns: its cells by column. A row of a text file has only the text column.
        text: the cell of the text column.
    """

    line: int
    columns: dict[str, Any]
    text: str


def text_rows(
    path: str | Path,
    columns: Sequence[str],
    *,
    format: str | None = None,
    header: bool = True,
    delimiter: str | None = None,
    skip_bad: bool = False,
    may_be_empty: bool = False,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number of each row of a table, and its cells by column. Each row has a text in all of `columns`.

    Args:
        path, format, header, delimiter: see `read_table`. Without a header, the columns are "1", "2" and so on.
        columns: the names of the columns of texts.
        skip_bad: leave out bad rows, with a warning, instead of raising. The warning or error comes after the last row.
        may_be_empty: whether a table may have no rows.

    Raises:
        ValueError: as every reader (see `keras_bert.data`); or a column is missing, or two have one name. A row is bad
            if it has too many or too few cells, no text in one of the columns, or a cell that UTF-8 cannot hold.
    """
    table = Table(path, format, header, delimiter)
    names = table.names
    if names is None and table.format != "jsonl":
        names = [
            str(number)
            for number in range(1, 1 + _count_usual_cells(row for _, row in itertools.islice(table, _SAMPLED_ROWS)))
        ]
    name, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise ValueError(f"{path} has {times} columns {name!r}; the names must differ")
    names = names or []  # unknown for JSON lines
    for column in columns if names else ():
        if column not in names:
            raise missing_column_error(path, column, names, header and table.format in ("csv", "tsv", "xlsx"))
    problems, number_of_rows = Problems(path, "rows"), 0
    for number_of_rows, (number, cells) in enumerate(table, start=1):  # noqa: B007
        try:
            if isinstance(cells, str):
                raise ValueError(cells)
            if isinstance(cells, list) and isinstance(cells := _check_width(cells, len(names)), str):
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
    """Checks that a file has a column of texts. Reads only up to the first text. Raises as `read_corpus`.

    Args:
        path, text_column: see `read_corpus`.
        must_be_table: whether a file that is not a table, but has one text per line, is an error.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if must_be_table:
        known_format(path, None)
    if format_of(path) is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the reading itself warns
            next(text_rows(path, [text_column], may_be_empty=True), None)


def text_of(row: Mapping[str, object], column: str) -> str:
    """Reads the text in a column of a row. Raises ValueError if there is none."""
    if column not in row:
        raise ValueError(f"no {column!r}; its keys are {', '.join(map(repr, row))}")
    return text_in(row[column], column)


def text_in(value: object, name: str) -> str:
    """Reads the text in a cell. Raises ValueError, with the name of the column, if there is none."""
    if isinstance(value, ValueError):
        raise value
    if value is None:
        raise ValueError(f"{name} is empty")
    if not isinstance(value, str):
        raise ValueError(f"{name} is {shorten(repr(value))}, which is not a text")
    return check_text(value, name)


def read_corpus(path: str | Path, text_column: str = "text", skip_bad: bool = False) -> list[CorpusRow]:
    """Reads a corpus: a table in any of the formats of `read_table`; any other file has one text per line.

    Blank lines of a text file are skipped.

    Args:
        path: the file. The first line of a CSV, TSV or Excel file names the columns.
        text_column: the column of the texts.
        skip_bad: leave out bad rows, with a warning, instead of raising.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: as every reader (see `keras_bert.data`); or there is no such column, or a row has no text.
        ImportError: a package for the format is not installed.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "pets.csv")
        >>> _ = path.write_text("id,text\\n7,a cat\\n8,a kitten\\n")
        >>> read_corpus(path)[1]
        CorpusRow(line=3, columns={'id': '8', 'text': 'a kitten'}, text='a kitten')
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if format_of(path) is not None:
        numbered_rows = text_rows(path, [text_column], skip_bad=skip_bad)
        return [CorpusRow(number, row, row[text_column]) for number, row in numbered_rows]
    texts = [CorpusRow(number, {text_column: text}, text) for number, text in _number_lines(path) if text.strip()]
    if not texts:
        raise ValueError(f"{path} is empty")
    return texts


# -- CSV, quoted as in RFC 4180.


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


def _recognise_delimiter(path: str | Path, header: bool) -> tuple[str, int]:
    """Recognises the delimiter of a CSV file, and counts the lines before the table.

    The delimiter is the one that gives most of the first rows as many cells as the header, two or more; without a
    header, that gives all of them the same number. Excel may write it into a first line of its own, such as `sep=;`.

    Raises:
        ValueError: two characters divide the rows equally well, and there is no header to decide.
    """
    first_line = next(read_lines(path), "")
    if declared := re.fullmatch(r"sep=(.)\r?\n", first_line):
        return declared[1], 1
    fitting = {}  # delimiter -> the share of the rows that it divides alike
    for delimiter in _DELIMITERS:
        try:
            rows = [cells for _, cells in itertools.islice(_read_csv(path, delimiter), _SAMPLED_ROWS) if cells]
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
    """Opens a Parquet file.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: the file is damaged. (pyarrow raises errors of several classes, such as OSError.)
    """
    parquet = import_extra("pyarrow.parquet", "pyarrow", "parquet")
    pa = import_extra("pyarrow", "pyarrow", "parquet")
    try:
        with (
            open_bytes(path) as opened,
            parquet.ParquetFile(opened, buffer_size=_PARQUET_BUFFER, pre_buffer=False) as file,
        ):
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from None


def _read_parquet_names(path: str | Path) -> list[str]:
    with open_parquet(path) as file:
        names = file.schema_arrow.names
    name, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise ValueError(f"{path} has {times} columns {name!r}; the names must differ")
    return names


def convert_parquet_cells(column: pa.Array | pa.ChunkedArray, name: str) -> list[object]:
    """Converts a column of Parquet to Python values.

    A value that Python cannot hold, such as the date 12000-01-01, becomes a text. If that fails, it becomes a
    ValueError object, which code that needs the cell raises.
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

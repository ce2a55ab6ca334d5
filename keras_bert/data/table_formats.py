"""The formats of tables: how each is recognised, and how its rows are read. A format is a line of `FORMATS`."""

from __future__ import annotations

import csv
import fnmatch
import itertools
import re
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from keras_bert.counted import either, listed
from keras_bert.data.examples import parse_json_object
from keras_bert.data.file_kinds import NO_DATA, Look
from keras_bert.extras import import_extra
from keras_bert.files import MOST_BYTES, check_is_file, check_regular, open_bytes, raise_if_not_of_content, read_lines

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


class Unstored(str):
    """The empty cell of a formula whose value the workbook does not hold, as it was never computed."""


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
    """Recognises the delimiter of a CSV file, and counts the lines before the table."""
    # The delimiter gives most of the first rows as many cells as the header, two or more; without one, all the same.
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


def _read_sheet(
    path: str | Path, sheet: str | None = None, names_others: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of a sheet, by default the first, as texts, as in a CSV file."""
    from keras_bert.data.workbook_process import read_workbook  # it imports much

    rows, width = read_workbook(path, sheet), 0
    with closing(rows):
        first, *others = next(rows)
        names = listed(list(map(repr, others)))
        if sheet not in (None, first):
            raise ValueError(
                f"{path} has no sheet {sheet!r}; its sheets are {listed(list(map(repr, [first, *others])))}"
            )
        if others and names_others:
            advice = f"choose another with sheet={others[0]!r}"
            warnings.warn(f"{path}: only the sheet {first!r} is read, not {names}; {advice}", stacklevel=6)
        for number, values in enumerate(rows, start=1):
            cells: list[str] = [Unstored() if value is None else value for value in values]
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
    """Converts a column of Parquet; what Python cannot hold, such as the year 12000, becomes a text or ValueError."""
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

    title: str  # in help texts
    suffixes: tuple[str, ...]
    read: Callable[..., Iterator[tuple[int, Row]]]  # each row of a file with its number
    word: str  # for a file, in messages
    magic: tuple[bytes, ...] = ()  # the first four bytes of its files, if they are always the same
    unit: str = "line"  # of the numbers of rows
    has_cells: bool = True  # whether rows are lists of cells, the first maybe a header, and not dicts
    names: Callable[[str | Path], list[str]] | None = None  # of columns, if a file states them apart from its rows
    delimiter: str | None = None  # the character between cells; "": each file has its own; None: there is none
    has_sheets: bool = False
    fits: Callable[[Look], bool] = lambda look: True  # whether a file that begins as its files do is one of them


def _is_workbook(look: Look) -> bool:
    """Whether a zip file, or a file of old Office, is Excel's or LibreOffice's."""
    is_open_document = b"application/vnd.oasis.opendocument.spreadsheet" in look.beginning
    is_excel = look.beginning.startswith(_OFFICE[1]) or any(name.startswith("xl/") for name in look.zipped)
    return is_open_document or is_excel


_WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")  # only the first is written
_OFFICE = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # zip, and old Office
FORMATS = {
    "csv": Format("CSV", (".csv",), _read_csv, "table (CSV)", delimiter=""),
    "tsv": Format("TSV", (".tsv",), _read_tsv, "table (TSV)", delimiter="\t"),
    "jsonl": Format("JSON lines", (".jsonl", ".ndjson"), _read_json_lines, "file of JSON lines", has_cells=False),
    "parquet": Format(
        "Parquet", (".parquet",), _read_parquet, "parquet file", (b"PAR1",), "row", False, _read_parquet_names
    ),
    "xlsx": Format("Excel", _WORKBOOKS, _read_sheet, "workbook", _OFFICE, "row", has_sheets=True, fits=_is_workbook),
}
TABLES = either(each.title for each in FORMATS.values())  # in help texts


class FileKind(NamedTuple):
    """What a file of a user is: a format of tables, "text", "conll", "squad", "json", "records", or else "unknown"."""

    name: str
    title: str  # in messages: "it is ..."
    has_magic: bool = False  # whether its first bytes say so, and not its name
    is_data: bool = True  # whether a reader of data reads it; what is not known is read as lines of text

    @property
    def is_table(self) -> bool:
        return self.name in FORMATS

    @property
    def is_text(self) -> bool:
        """Whether it may be read as one text per line."""
        return self.is_data and self.name in ("text", "unknown")


_KINDS = {name: FileKind(name, f"a {each.word}") for name, each in FORMATS.items()}
_BY_NAME = {
    **{suffix: _KINDS[name] for name, each in FORMATS.items() for suffix in each.suffixes},
    **dict.fromkeys((".txt", ".text"), FileKind("text", "text")),
    **dict.fromkeys((".conll", ".conllu", ".iob", ".iob2", ".bio"), FileKind("conll", "a file of CoNLL's columns")),
}


def kind_of(path: str | Path) -> FileKind:
    """Recognizes a file by its first bytes, then by its name. Every command asks this function what a file is."""
    look = Look(Path(path))
    found = next((name for name, each in FORMATS.items() if look.beginning.startswith(each.magic)), None)
    is_damaged = look.suffix in _BY_NAME and not look.zipped  # or compressed again
    if found is not None and (FORMATS[found].fits(look) or is_damaged):
        return _KINDS[found]._replace(has_magic=True)
    if (other := next((kind for kind in NO_DATA if kind.recognizes(look)), None)) is not None:
        return FileKind(other.name, other.title, has_magic=True, is_data=False)
    if look.suffix == ".json":
        return _kind_of_json(path, look)
    if fnmatch.fnmatch(look.path.name, "*.tfrecord*"):
        return FileKind("records", "a file of examples (TFRecord)", is_data=False)
    return _BY_NAME.get(look.suffix, FileKind("unknown", "a file that is not known here"))


def _kind_of_json(path: str | Path, look: Look) -> FileKind:
    """Recognizes what is named .json: SQuAD, JSON lines, which many libraries name so, or other JSON."""
    start = look.beginning.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        return FileKind("unknown", "an empty file")
    if start.startswith(b"["):
        return FileKind("json", "a list in JSON, not JSON lines (jq -c '.[]' makes them)")
    if b'"paragraphs"' in start or b'"data"' in start.partition(b":")[0]:
        return FileKind("squad", "a JSON object like SQuAD's")
    first = _first_line(path).strip() if start.startswith(b"{") else b""
    if first.endswith(b"}") and b'"paragraphs"' not in first:
        return _KINDS["jsonl"]
    return FileKind("json", "an object in JSON, not JSON lines (jq -c . makes one of it)")


def _first_line(path: str | Path) -> bytes:
    with suppress(ValueError), open_bytes(path) as file:  # gzip may be damaged
        return file.readline(MOST_BYTES)
    return b""


def check_kind(path: str | Path, expected: str, *names: str) -> FileKind:
    """Recognizes a file. Raises ValueError, with what it is, unless it has one of these names."""
    kind = kind_of(path)
    if not kind.is_data or kind.name not in names:
        raise ValueError(f"{path} is {kind.title}; expected {expected}")
    return kind


def check_lines(path: str | Path, expected: str = "text") -> None:
    """Raises ValueError, with what a file is, unless it may be read as lines of text."""
    check_kind(path, expected, "text", "unknown")


def text_files(path: Path) -> list[Path]:
    """Lists `path` or its .txt files. Raises FileNotFoundError if any is missing, ValueError if it is no text."""
    if not path.is_dir():
        if not path.exists():
            raise FileNotFoundError(f"there is no file {path}")
        check_lines(path)
        return [path]
    paths = sorted(path.glob("*.txt"))
    if not paths:
        raise FileNotFoundError(f"the directory {path} has no .txt files")
    for each in paths:
        if not each.exists():
            raise FileNotFoundError(f"{each} is a link to {each.readlink()}, which does not exist")
        check_regular(each)
        check_lines(each)
    return paths


def format_of(
    path: str | Path, format: str | None = None, expected: str = "a table, or texts, one per line"
) -> str | None:
    """Finds a table's format by first bytes, `format`, name; None: lines. Raises ValueError if it is another."""
    if format is not None and format not in FORMATS:
        raise ValueError(f"format is {format!r}; expected {', '.join(map(repr, FORMATS))}")
    check_is_file(path)
    with open_bytes(path) as file:
        first_bytes = file.read(4)
    kind = kind_of(path)
    if not (kind.is_table or kind.is_text) and (not kind.is_data or format in (None, "jsonl")):
        raise ValueError(f"{path} is {kind.title}; expected {expected}")
    found = kind.name if kind.has_magic else None
    if found and format not in (None, found):
        raise ValueError(f"format is {format!r}, but {path} is {found}; leave format out")
    chosen = format or (kind.name if kind.is_table else None)
    if chosen and FORMATS[chosen].magic and not found:
        raise ValueError(f"{path} is not a {FORMATS[chosen].word}: it begins with {first_bytes!r}")
    return chosen


def known_format(path: str | Path, format: str | None) -> str:
    """Determines the format of a table. Raises as `format_of`, and ValueError if it is unknown."""
    known = format_of(path, format, "a table")
    if known is None:
        suffixes = ", ".join(suffix for each in FORMATS.values() for suffix in each.suffixes)
        raise ValueError(f"{path} does not end in {suffixes}; choose the format {either(map(repr, FORMATS))}")
    return known

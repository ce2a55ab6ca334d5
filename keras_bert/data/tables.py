"""Reads texts, pairs and labels from CSV, TSV, JSON lines and Parquet: rows with their line numbers, then columns."""

from __future__ import annotations

import csv
import io
import math
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert.data.examples import ColumnExamples, TextExamples
from keras_bert.data.problems import Problems, characters, json_object, one_text, parquet_cells, reading_parquet
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
        raise ValueError(f"{path} does not end in {', '.join(FORMATS)}; choose the format {_ALL}")
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


# -- Parses the labels in the cells of a table.

KINDS = ("class", "number", "multi_label")
LABEL_KINDS = {  # problem type of a classifier -> the kind of its labels
    "single_label_classification": "class",
    "multi_label_classification": "multi_label",
    "regression": "number",
}


def parse_label(value: Any, kind: str, separator: str = "|") -> str | float | tuple[str, ...]:
    """Parses the label in a cell: a string in CSV and TSV, any JSON value in JSON lines. Raises ValueError if it is
    bad.

    Args:
        value: the cell.
        kind: "class": one name, stripped of white space, or in JSON a whole number, true or false. "number": a finite
            number. "multi_label": any number of names: a string with separators, or a JSON list.
        separator: the string between names.

    Example:
        >>> parse_label(" good", "class"), parse_label("4.5", "number"), parse_label("war|love", "multi_label")
        ('good', 4.5, ('war', 'love'))
    """
    if kind != "multi_label":
        return _number(value) if kind == "number" else _name(value)
    if isinstance(value, str):
        value = value.split(separator) if value.strip() else []
    if not isinstance(value, list):
        raise ValueError(f"label is {value!r:.60}; expected a list of names")
    return tuple(dict.fromkeys(_name(name) for name in value))


def _name(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError("label is empty")
    if not isinstance(value, str):
        raise ValueError(f"label is {value!r:.60}, which is not the name of a class")
    return checked_name(value.strip())


def checked_name(label: str) -> str:
    """Returns a label. Raises ValueError if the tables of labels and measures cannot hold it."""
    if re.search(r"[\t\n\r]", label):
        raise ValueError(f"label is {label!r}, with a tab or a line end, which the tables of measures cannot hold")
    return characters(label, "label")


def _number(value: Any) -> float:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError("label is empty")
    try:
        if isinstance(value, bool) or (isinstance(value, str) and "_" in value):  # float() accepts both
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"label is {value!r:.60}, which is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"label is {value!r:.60}, which is not a finite number")
    return number


def read_table(
    path: str | Path,
    *,
    text_column: str | int = "text",
    text_pair_column: str | int | None = None,
    label_column: str | int | None = None,
    label_kind: str = "class",
    separator: str = "|",
    header: bool = True,
    format: str | None = None,
    skip_bad: bool = False,
) -> TextExamples:
    """Reads texts, or pairs of texts, and their labels from a file with one example per row.

    Args:
        path: the file.
        text_column, text_pair_column, label_column: columns by name or, in CSV and TSV, by number, counted from 1 (an
            int or a str of digits). Without `label_column`, no labels are read.
        label_kind: "class", a name; "number"; or "multi_label", any number of names: in CSV and TSV with `separator`
            between them, in JSON lines a list.
        separator: see `label_kind`.
        header: whether the first line of a CSV or TSV names the columns. If not, choose columns by number.
        format: "csv", quoted as in RFC 4180; "tsv", where a quote is like any other character, as in GLUE's files;
            "jsonl", an object per line; or "parquet" (the extra `parquet`). Default: by the file's extension.
        skip_bad: leave out bad rows, with a warning, instead of raising.

    Raises:
        ValueError: as every reader (see `keras_bert.data`); or a column is missing. A row is bad if it has too many or
            too few cells, no text, or a label of another kind.

    Arguments for GLUE's files and others like them:

        - SST-2: `text_column="sentence", label_column="label"`
        - MRPC: `text_column="#1 String", text_pair_column="#2 String", label_column="Quality", format="tsv"`
        - STS-B: `text_column="sentence1", text_pair_column="sentence2", label_column="score", label_kind="number"`
        - STS-B as CSV: `text_column=1, text_pair_column=2, label_column=3, label_kind="number", header=False`
        - CoLA, no header: `text_column=4, label_column=2, header=False`

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "reviews.tsv")
        >>> _ = path.write_text('sentence\\tlabel\\nA "film" it is not.\\tbad\\n')
        >>> read_table(path, text_column="sentence", label_column="label")
        TextExamples(texts=['A "film" it is not.'], pairs=None, labels=['bad'])
    """
    if label_kind not in KINDS:
        raise ValueError(f"label_kind is {label_kind!r}; expected {', '.join(map(repr, KINDS))}")
    rows = read_rows(path, format_of(path, format), header)
    problems = Problems(path, "rows")
    one_is_good = any(not isinstance(row, str) for _, row in rows.rows)
    text_key, pair_key, label_key = (
        _key(rows, column, path) if one_is_good else None for column in (text_column, text_pair_column, label_column)
    )
    has_pairs, has_labels = text_pair_column is not None, label_column is not None
    texts, pairs, labels = [], [], []
    for line, row in rows.rows:
        try:
            if isinstance(row, str):
                raise ValueError(row)
            text = one_text(*_string(row, text_key, text_column))
            pair = one_text(*_string(row, pair_key, text_pair_column)) if has_pairs else None
            label = parse_label(_cell(row, label_key, label_column), label_kind, separator) if has_labels else None
        except ValueError as error:
            problems.add(f"{rows.numbered} {line}", str(error))
        else:
            texts.append(text)
            pairs.append(pair)
            labels.append(label)
    problems.settle(len(rows.rows), skip_bad)
    return TextExamples(texts, pairs if has_pairs else None, labels if has_labels else None)


def read_columns(
    path: str | Path,
    *,
    text_columns: Sequence[str | int],
    score_column: str | int | Sequence[str | int] | None = None,
    header: bool = True,
    format: str | None = None,
    skip_bad: bool = False,
) -> ColumnExamples:
    """Reads texts to compare from a file with one example per row.

    Args:
        path: the file.
        text_columns: the columns of the anchors, the positives, and maybe negatives, by name or number, as for
            `read_table`.
        score_column: the column of the scores, which are numbers; or several columns, for several scores per row.
            Without it, no scores are read.
        header, format, skip_bad: see `read_table`.

    Raises:
        ValueError: as for `read_table`; or there are fewer than two columns.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "questions.tsv")
        >>> _ = path.write_text("question\\tcontext\\nWho sang?\\tAda sang.\\n")
        >>> read_columns(path, text_columns=["question", "context"])
        ColumnExamples(columns=(['Who sang?'], ['Ada sang.']), scores=None)
    """
    if len(text_columns) < 2:
        raise ValueError(f"text_columns is {list(text_columns)}; expected two or more")
    is_one = isinstance(score_column, str | int)
    score_columns = [score_column] if is_one else list(score_column or [])
    rows = read_rows(path, format_of(path, format), header)
    problems = Problems(path, "rows")
    one_is_good = any(not isinstance(row, str) for _, row in rows.rows)
    columns = [*text_columns, *score_columns]
    keys = [_key(rows, column, path) if one_is_good else None for column in columns]
    found, scores = [], []
    for line, row in rows.rows:
        try:
            if isinstance(row, str):
                raise ValueError(row)
            cells = list(zip(keys, columns, strict=True))
            texts = [one_text(*_string(row, *each)) for each in cells[: len(text_columns)]]
            of_row = tuple(parse_label(_cell(row, *each), "number") for each in cells[len(text_columns) :])
        except ValueError as error:
            problems.add(f"{rows.numbered} {line}", str(error))
        else:
            found.append(texts)
            scores.append(of_row[0] if is_one else of_row)
    problems.settle(len(rows.rows), skip_bad)
    return ColumnExamples(tuple(map(list, zip(*found, strict=True))), scores if score_columns else None)


def _key(rows: Rows, column: str | int | None, path: str | Path) -> str | int | None:
    """The index of a column's cells in a list, or their key in a dict. Raises ValueError if there is no such column."""
    if column is None:
        return None
    as_json = any(isinstance(row, dict) for _, row in rows.rows)
    places = [place for place, name in enumerate(rows.names or []) if name == column]
    if not places and not as_json and str(column).isdecimal():
        if 1 <= int(column) <= rows.width:
            return int(column) - 1
        raise ValueError(f"{path} has no column {column}; its columns are 1 to {rows.width}")
    if rows.names is None:
        raise ValueError(
            f"{path} is read without a header: choose columns by number, 1 to {rows.width}, not {column!r}"
        )
    if not places:
        listed = ", ".join(repr(_short(name)) for name in rows.names)
        advice = "" if as_json else "; if its first line is an example already, read it without a header, by number"
        raise ValueError(f"{path} has no column {column!r}; its columns are {listed}{advice}")
    if len(places) > 1:
        numbers = " and ".join(str(place + 1) for place in places)
        raise ValueError(f"{path} has several columns {column!r}; choose one by number, {numbers}")
    return column if as_json else places[0]


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:37]}..."


def _cell(row: list[str] | dict[str, Any], key: str | int, column: str | int) -> Any:
    if isinstance(row, dict) and key not in row:
        raise ValueError(f"no {column}")
    if isinstance(row[key], ValueError):
        raise row[key]
    return row[key]


def _string(row: list[str] | dict[str, Any], key: str | int, column: str | int) -> tuple[str, str]:
    """A cell that must be a text, and its name in messages."""
    name = column if isinstance(column, str) else f"column {column}"
    value = _cell(row, key, column)
    if not isinstance(value, str):
        raise ValueError(f"{name} is {_short(repr(value))}, which is not a text")
    return value, name

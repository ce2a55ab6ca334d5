"""Reads texts, pairs and labels from CSV, TSV, JSON lines and Parquet, by column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_bert.data.decoding import one_text
from keras_bert.data.examples import ColumnExamples, TextExamples
from keras_bert.data.labels import KINDS, parse_label
from keras_bert.data.problems import Problems
from keras_bert.data.rows import Rows, format_of, read_rows


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
        advice = "" if as_json else "; if its first line is an example already, read it with header=False, by number"
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

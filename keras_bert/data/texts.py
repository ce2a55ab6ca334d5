"""Reads texts, pairs and labels from tables, by column, and from a directory per class."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from keras_bert.data.examples import ColumnExamples, Problems, TextExamples, check_characters, check_text
from keras_bert.data.tables import Rows, missing_column_error, read_rows, text_in
from keras_bert.files import read_text

# -- Parses the labels in the cells of a table.

Key: TypeAlias = str | int | None  # None: no column is wanted, or all rows are bad
_FIRST_ROWS = 20  # rows that together usually have all columns
KINDS = ("class", "number", "multi_label")
LABEL_KINDS = {  # problem type of a classifier -> the kind of its labels
    "single_label_classification": "class",
    "multi_label_classification": "multi_label",
    "regression": "number",
}


def parse_label(value: object, kind: str, separator: str = "|") -> str | float | tuple[str, ...]:
    """Parses the label in a cell: a str in CSV and TSV, any JSON value in JSON lines. Raises ValueError if it is bad.

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
        return _parse_number(value) if kind == "number" else _parse_name(value)
    if isinstance(value, str):
        value = value.split(separator) if value.strip() else []
    if not isinstance(value, list):
        raise ValueError(f"label is {value!r:.60}; expected a list of names")
    return tuple(dict.fromkeys(_parse_name(name) for name in value))


def _parse_name(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError("label is empty")
    if not isinstance(value, str):
        raise ValueError(f"label is {value!r:.60}, which is not the name of a class")
    return check_label_name(value.strip())


def check_label_name(label: str) -> str:
    """Checks a label, and returns it. Raises ValueError if the tables of labels and measures cannot hold it."""
    if re.search(r"[\t\n\r]", label):
        raise ValueError(f"label is {label!r}, with a tab or a line end, which the tables of results cannot hold")
    return check_characters(label, "label")


def _parse_number(value: Any) -> float:
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
    delimiter: str | None = None,
    skip_bad: bool = False,
) -> TextExamples:
    """Reads texts, or pairs of texts, and their labels from a file with one example per row.

    Use it for classification and regression. `read_columns` is for sentence vectors, and `read_conll` for labels of
    words.

    Args:
        path: the file.
        text_column, text_pair_column, label_column: columns by name or, in CSV, TSV and Excel files, by number, counted
            from 1 (an int or a str of digits). Without `label_column`, no labels are read.
        label_kind: "class", a name; "number"; or "multi_label", any number of names: in CSV and TSV with `separator`
            between them, in JSON lines a list.
        separator: see `label_kind`.
        header: whether the first line of a CSV, TSV or Excel file names the columns. If not, choose columns by number.
        format: "csv", quoted as in RFC 4180; "tsv", where a quote is like any other character, as in GLUE's files;
            "jsonl", an object per line; "parquet" (the extra `parquet`); or "xlsx", the first sheet of a workbook,
            .xlsx, .xlsm, .xlsb, .xls or .ods (the extra `xlsx`); a cell with an error is empty. By default, the file's
            first bytes or its extension decide. Any of them may be compressed with gzip.
        delimiter: the character between the cells of a CSV. By default, it is recognised: a comma, a semicolon or a
            tab.
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
    rows = read_rows(path, format, header, delimiter)
    problems = Problems(path, "rows")
    any_good_row = any(not isinstance(row, str) for _, row in rows.rows)
    text_key, pair_key, label_key = (
        _find_column(rows, column, path) if any_good_row else None
        for column in (text_column, text_pair_column, label_column)
    )
    has_pairs, has_labels = text_pair_column is not None, label_column is not None
    texts, pairs, labels, places = [], [], [], []
    for line, row in rows.rows:
        try:
            if isinstance(row, str):
                raise ValueError(row)
            text = _read_text_cell(row, text_key, text_column)
            pair = _read_text_cell(row, pair_key, text_pair_column) if has_pairs else None
            label = parse_label(_read_cell(row, label_key, label_column), label_kind, separator) if has_labels else None
        except ValueError as error:
            problems.add(f"{rows.unit} {line}", str(error))
        else:
            texts.append(text)
            pairs.append(pair)
            labels.append(label)
            places.append(line)
    problems.settle(len(rows.rows), skip_bad)
    return TextExamples(texts, pairs if has_pairs else None, labels if has_labels else None, places)


def read_columns(
    path: str | Path,
    *,
    text_columns: Sequence[str | int],
    score_column: str | int | Sequence[str | int] | None = None,
    header: bool = True,
    format: str | None = None,
    delimiter: str | None = None,
    skip_bad: bool = False,
) -> ColumnExamples:
    """Reads texts to compare, to train or evaluate sentence vectors, from a file with one example per row.

    Args:
        path: the file.
        text_columns: the columns of the anchors, the positives, and maybe negatives, by name or number, as for
            `read_table`.
        score_column: the column of the scores, which are numbers; or several columns, for several scores per row.
            Without it, no scores are read.
        header, format, delimiter, skip_bad: see `read_table`.

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
    has_one_score = isinstance(score_column, str | int)
    score_columns = [score_column] if has_one_score else list(score_column or [])
    rows = read_rows(path, format, header, delimiter)
    problems = Problems(path, "rows")
    any_good_row = any(not isinstance(row, str) for _, row in rows.rows)
    columns = [*text_columns, *score_columns]
    keys = [_find_column(rows, column, path) if any_good_row else None for column in columns]
    text_rows, scores = [], []
    for line, row in rows.rows:
        try:
            if isinstance(row, str):
                raise ValueError(row)
            cells = list(zip(keys, columns, strict=True))
            texts = [_read_text_cell(row, *each) for each in cells[: len(text_columns)]]
            row_scores = tuple(parse_label(_read_cell(row, *each), "number") for each in cells[len(text_columns) :])
        except ValueError as error:
            problems.add(f"{rows.unit} {line}", str(error))
        else:
            text_rows.append(texts)
            scores.append(row_scores[0] if has_one_score else row_scores)
    problems.settle(len(rows.rows), skip_bad)
    return ColumnExamples(tuple(map(list, zip(*text_rows, strict=True))), scores if score_columns else None)


def check_columns(path: str | Path, columns: Sequence[str | int | None], **settings: Any) -> None:
    r"""Checks that a table has columns. It reads the first rows, and more only if these lack a column.

    Args:
        path: the table.
        columns: names or numbers, see `read_table`; None is ignored.
        **settings: `format`, `header` and `delimiter`, see `read_table`.

    Raises:
        OSError, ValueError: as `read_table`, but not for the cells of a row.

    Example:
        >>> import pathlib, tempfile
        >>> directory = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(directory.name, "reviews.csv")
        >>> _ = path.write_text("sentence,label\nA fine film.,good\n")
        >>> check_columns(path, ["sentence"])
        >>> check_columns(path, ["sentence", "Label"])
        Traceback (most recent call last):
        ...
        ValueError: ...reviews.csv has no column 'Label'; its columns are 'sentence', 'label'; did you mean 'label'?
        >>> directory.cleanup()
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reading itself warns
        try:
            _find_all_columns(read_rows(path, first=_FIRST_ROWS, **settings), columns, path)
        except ValueError:
            _find_all_columns(read_rows(path, **settings), columns, path)


def _find_all_columns(rows: Rows, columns: Sequence[str | int | None], path: str | Path) -> None:
    if any(not isinstance(row, str) for _, row in rows.rows):
        for column in columns:
            _find_column(rows, column, path)


def _find_column(rows: Rows, column: str | int | None, path: str | Path) -> str | int | None:
    """Finds the index of a column in rows that are lists, or its key in dicts. Raises ValueError if it is missing."""
    if column is None:
        return None
    is_json = any(isinstance(row, dict) for _, row in rows.rows)
    indices = [index for index, name in enumerate(rows.names or []) if name == column]
    if not indices and not is_json and str(column).isdecimal():
        if 1 <= int(column) <= rows.width:
            return int(column) - 1
        raise ValueError(f"{path} has no column {column}; its columns are 1 to {rows.width}")
    if rows.names is None:
        raise ValueError(
            f"{path} is read without a header: choose columns by number, 1 to {rows.width}, not {column!r}"
        )
    if not indices:
        raise missing_column_error(path, column, rows.names, not is_json)
    if len(indices) > 1:
        numbers = " and ".join(str(index + 1) for index in indices)
        raise ValueError(f"{path} has several columns {column!r}; choose one by number, {numbers}")
    return column if is_json else indices[0]


def _read_cell(row: list[str] | dict[str, Any], key: Key, column: Key) -> object:
    if isinstance(row, dict) and key not in row:
        raise ValueError(f"no {column}")
    cell = cast("dict[Key, object]", row)[key]  # or of a list, by index
    if isinstance(cell, ValueError):
        raise cell
    return cell


def _read_text_cell(row: list[str] | dict[str, Any], key: Key, column: Key) -> str:
    """Reads the text in a cell. Raises ValueError if there is none."""
    return text_in(_read_cell(row, key, column), column if isinstance(column, str) else f"column {column}")


def read_folders(path: str | Path, *, skip_bad: bool = False) -> TextExamples:
    """Reads texts, one per file, from directories named after their classes: `pos/*.txt`, `neg/*.txt`.

    Texts are sorted by class and file name. Directories whose name begins with a dot, and files with another extension,
    are ignored. With `skip_bad`, bad files are left out, with a warning, instead of raising.

    Raises:
        ValueError: as every reader (see `keras_bert.data`); or a class, or all of them, has no `.txt` files;
            a class's name cannot be a label; or a file is a broken link.

    Example:
        >>> import pathlib, tempfile
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> for name, text in {"pos/1.txt": "What a film!", "neg/1.txt": "I left."}.items():
        ...     (root / name).parent.mkdir()
        ...     _ = (root / name).write_text(text)
        >>> read_folders(root)
        TextExamples(texts=['I left.', 'What a film!'], pairs=None, labels=['neg', 'pos'])
    """
    path = Path(path)
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    for entry in entries:
        if not entry.exists():
            raise ValueError(f"{entry} is a link to {entry.readlink()}, which does not exist; repair or remove it")
    classes = [entry for entry in entries if entry.is_dir()]
    if not classes:
        raise ValueError(f"{path} has no directories; expected one for each class")
    problems = Problems(path, "files")
    texts, labels, places, total = [], [], [], 0
    for folder in classes:
        try:
            check_label_name(folder.name)
        except ValueError as error:
            raise ValueError(f"{path}: a directory's {error}") from None
        files = sorted(file for file in folder.glob("*.txt") if file.is_file() or not file.exists())
        if not files:
            raise ValueError(f"{folder} has no .txt files; expected the texts of a class")
        total += len(files)
        for file in files:
            name = f"{folder.name}/{file.name}"
            try:
                if not file.exists():
                    raise ValueError(f"is a link to {file.readlink()}, which does not exist")
                texts.append(check_text(read_text(file, may_be_compressed=True), name))
                labels.append(folder.name)
                places.append(name)
            except ValueError as error:
                problems.add(name, str(error).removeprefix(str(file)).lstrip(", "))
    problems.settle(total, skip_bad)
    return TextExamples(texts, labels=labels, places=places)

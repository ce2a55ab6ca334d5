"""Reads texts, pairs and labels from tables, by column, and from a directory per class."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from keras_bert.data.examples import Examples, Problems, Rows, check_characters, check_text
from keras_bert.data.tables import Column, TableRows, read_cell, read_rows, text_in
from keras_bert.files import check_regular, read_text

# -- Parses the labels in the cells of a table.

Labels: TypeAlias = Column | Sequence[Column] | None  # the columns of labels: one, several for tuples of them, or none
KINDS = ("class", "number", "multi_label")


def parse_label(value: object, kind: str, separator: str = "|", name: str = "label") -> str | float | tuple[str, ...]:
    """Parses a cell's label: a str in CSV and TSV, any JSON value in JSON lines. Raises ValueError if it is bad."""
    # A class is a name, or in JSON a whole number, true or false; several are a list, or a str with `separator`
    # between. `name` is that of the column.
    if kind != "multi_label":
        return _parse_number(value, name) if kind == "number" else _parse_name(value, name)
    if isinstance(value, str):
        value = value.split(separator) if value.strip() else []
    if not isinstance(value, list):
        raise ValueError(f"{name} is {value!r:.60}; expected a list of names")
    return tuple(dict.fromkeys(_parse_name(each, name) for each in value))


def _parse_name(value: object, name: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError(f"{name} is empty")
    if not isinstance(value, str):
        raise ValueError(f"{name} is {value!r:.60}, which is not the name of a class")
    return check_label_name(value.strip(), name)


def check_label_name(label: str, name: str = "label") -> str:
    """Checks a label, and returns it. Raises ValueError if the tables of labels and measures cannot hold it."""
    if re.search(r"[\t\n\r]", label):
        raise ValueError(f"{name} is {label!r}, with a tab or a line end, which the tables of results cannot hold")
    return check_characters(label, name)


def _parse_number(value: Any, name: str) -> float:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError(f"{name} is empty")
    try:
        if isinstance(value, bool) or (isinstance(value, str) and "_" in value):  # float() accepts both
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} is {value!r:.60}, which is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} is {value!r:.60}, which is not a finite number")
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
    sheet: str | None = None,
    skip_bad: bool = False,
) -> Examples:
    """Reads texts, or pairs of texts, and their labels from a file with one example per row.

    Use it for classification and regression. `read_columns` is for sentence vectors, and `read_conll` for labels of
    words.

    Args:
        path: the file.
        text_column, text_pair_column, label_column: columns by name or, in CSV, TSV and Excel files, by number, counted
            from 1 (an int or a str of digits). Without `label_column`, no labels are read.
        label_kind, separator: "class", a name; "number"; or "multi_label", any number of names: in CSV and TSV with
            `separator` between them, in JSON lines a list.
        header: whether the first line of a CSV, TSV or Excel file names the columns. If not, choose columns by number.
        format: "csv", quoted as in RFC 4180; "tsv", where a quote is like any other character, as in GLUE's files;
            "jsonl", an object per line; "parquet" (the extra `parquet`); or "xlsx", a sheet of a workbook,
            .xlsx, .xlsm, .xlsb, .xls or .ods (the extra `xlsx`); a cell with an error is empty. By default, the file's
            first bytes or its extension decide; JSON lines may be named .json. Any of them may be compressed with gzip.
        delimiter: the character between the cells of a CSV. By default, it is recognised: a comma, a semicolon or a
            tab.
        sheet: the name of a workbook's sheet; by default the first, with a warning that names the others.
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
        Examples(texts={'text': ['A "film" it is not.']}, labels=['bad'])
    """
    if label_kind not in KINDS:
        raise ValueError(f"label_kind is {label_kind!r}; expected {', '.join(map(repr, KINDS))}")
    texts = {"text": text_column} | ({} if text_pair_column is None else {"text_pair": text_pair_column})
    parse = functools.partial(parse_label, kind=label_kind, separator=separator)
    rows = read_rows(path, format, header=header, delimiter=delimiter, sheet=sheet)
    return examples_of(rows, texts, label_column, parse, skip_bad)


def examples_of(
    rows: TableRows, texts: Mapping[str, Column], labels: Labels, parse: Callable[..., Any], skip_bad: bool
) -> Examples:
    """Makes examples of rows: from the columns of texts, by their names in `Examples`, and those of labels."""
    is_one_label = isinstance(labels, str | int)
    labels = [labels] if is_one_label else list(labels or [])
    path, columns = rows.table.path, [*texts.values(), *labels]
    problems, keys = Problems(path, "rows"), list(zip(rows.find_all(columns), columns, strict=True))
    names = [column if isinstance(column, str) else f"column {column}" for column in columns]
    parsers = [functools.partial(text_in if i < len(texts) else parse, name=name) for i, name in enumerate(names)]
    found: list[list[Any]] = [[] for _ in columns]
    numbers, kept = [], []
    for number, row in rows.rows:
        try:
            if isinstance(row, str):
                raise ValueError(row)
            cells = [parse_cell(read_cell(row, *key)) for parse_cell, key in zip(parsers, keys, strict=True)]
        except ValueError as error:
            problems.add(f"{rows.table.unit} {number}", str(error))
            continue
        for column, cell in zip(found, cells, strict=True):
            column.append(cell)
        numbers.append(number)
        kept.append(row)
    problems.settle(len(rows.rows), skip_bad, stacklevel=4)
    label_columns = found[len(texts) :]
    found_labels = label_columns[0] if is_one_label else list(zip(*label_columns, strict=True))
    found_rows = Rows(path, {"line": numbers}, rows.table.unit, kept, rows.table.names, columns)
    return Examples(dict(zip(texts, found, strict=False)), found_labels if labels else None, found_rows)


def read_columns(
    path: str | Path,
    *,
    text_columns: Sequence[str | int],
    score_column: str | int | Sequence[str | int] | None = None,
    header: bool = True,
    format: str | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
    skip_bad: bool = False,
) -> Examples:
    """Reads texts to compare, to train or evaluate sentence vectors, from a file with one example per row.

    Args:
        path: the file.
        text_columns: the columns of the anchors, the positives, and maybe negatives, by name or number, as for
            `read_table`.
        score_column: the column of the scores, which are numbers; or several columns, for several scores per row.
            Without it, no scores are read.
        header, format, delimiter, sheet, skip_bad: see `read_table`.

    Raises:
        ValueError: as `read_table`; or there are fewer than two columns.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "questions.tsv")
        >>> _ = path.write_text("question\\tcontext\\nWho sang?\\tAda sang.\\n")
        >>> read_columns(path, text_columns=["question", "context"])
        Examples(texts={'query': ['Who sang?'], 'positive': ['Ada sang.']}, labels=None)
    """
    if len(text_columns) < 2:
        raise ValueError(f"text_columns is {list(text_columns)}; expected two or more")
    rows = read_rows(path, format, header=header, delimiter=delimiter, sheet=sheet)
    parse = functools.partial(parse_label, kind="number")
    return examples_of(rows, names_of_columns(text_columns), score_column, parse, skip_bad)


def names_of_columns(columns: Sequence[Column]) -> dict[str, Column]:
    """Names columns of texts to compare as `Examples` does."""
    names = ["query", "positive", *(f"negative_{number}" for number in range(1, len(columns) - 1))]
    return dict(zip(names, columns, strict=True))


def read_folders(path: str | Path, *, skip_bad: bool = False) -> Examples:
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
        Examples(texts={'text': ['I left.', 'What a film!']}, labels=['neg', 'pos'])
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
        files = sorted(file for file in folder.glob("*.txt") if not file.is_dir())
        if not files:
            raise ValueError(f"{folder} has no .txt files; expected the texts of a class")
        total += len(files)
        for file in files:
            name = f"{folder.name}/{file.name}"
            try:
                if not file.exists():
                    raise ValueError(f"is a link to {file.readlink()}, which does not exist")
                check_regular(file)
                texts.append(check_text(read_text(file, may_be_compressed=True), name))
                labels.append(folder.name)
                places.append(name)
            except ValueError as error:
                problems.add(name, str(error).removeprefix(str(file)).lstrip(", "))
    problems.settle(total, skip_bad)
    return Examples({"text": texts}, labels, Rows(path, {"file": places}, "file"))

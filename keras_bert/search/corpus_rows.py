"""Reads corpora: lines of text, tables, JSON lines or Parquet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert.data.problems import one_text, parquet_cells, whole_row
from keras_bert.data.tables import FORMATS, read_rows
from keras_bert.embedding import parquet
from keras_bert.files import lines_of, read_text

_ROWS_AT_A_TIME = 4096  # of Parquet


class CorpusRow(NamedTuple):
    """A row of a corpus.

    Attributes:
        line: the number of its (first) line in the file, from 1.
        columns: its cells by column. A line of text has one column: the text column.
        text: the cell of the text column.
    """

    line: int
    columns: dict[str, Any]
    text: str


def read_corpus(path: str | Path, text_column: str = "text") -> list[CorpusRow]:
    """Reads a corpus: CSV, TSV, JSON lines or Parquet, by its extension; any other file has one text per line.

    Blank lines of a text file are skipped.

    Args:
        path: the file. The first line of a CSV or TSV names the columns.
        text_column: the column of the texts.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is empty or not UTF-8, there is no such column, or a row has no text.
        ImportError: it is Parquet, but pyarrow is not installed.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "pets.csv")
        >>> _ = path.write_text("id,text\\n7,a cat\\n8,a kitten\\n")
        >>> read_corpus(path)[1]
        CorpusRow(line=3, columns={'id': '8', 'text': 'a kitten'}, text='a kitten')
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix.lower() == ".parquet":
        return list(_of_parquet(path, text_column))
    form = FORMATS.get(path.suffix.lower())
    return list(_of_table(path, form, text_column) if form else _of_lines(path, text_column))


def _of_lines(path: Path, text_column: str) -> Iterator[CorpusRow]:
    for line, text in enumerate(lines_of(read_text(path)), start=1):
        if text.strip():
            yield CorpusRow(line, {text_column: text}, text)


def _of_table(path: Path, form: str, text_column: str) -> Iterator[CorpusRow]:
    found = read_rows(path, form, header=True)
    _check_columns(path, found.names, text_column)
    for line, cells in found.rows:
        try:
            if isinstance(cells, str):
                raise ValueError(cells)
            columns = cells if isinstance(cells, dict) else dict(zip(found.names, cells, strict=True))
            if not isinstance(columns.get(text_column), str):
                raise ValueError(f"there is no text in {text_column!r}")
            text = one_text(columns[text_column], text_column)
            yield CorpusRow(line, whole_row(columns), text)
        except ValueError as error:
            raise ValueError(f"{path}, line {line}: {error}") from None


def _of_parquet(path: Path, text_column: str) -> Iterator[CorpusRow]:
    number = 0
    for batch, texts in parquet.parts(path, text_column, _ROWS_AT_A_TIME):
        names = batch.schema.names
        cells = [parquet_cells(*each) for each in zip(batch.columns, names, strict=True)]
        for *row, text in zip(*cells, texts, strict=True):
            number += 1
            try:
                yield CorpusRow(number, whole_row(dict(zip(names, row, strict=True))), text)
            except ValueError as error:
                raise ValueError(f"{path}, row {number}: {error}") from None
    if not number:
        raise ValueError(f"{path} is empty")


def _check_columns(path: Path, names: list[str], text_column: str) -> None:
    name, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise ValueError(f"{path} has {times} columns {name!r}; the names must differ")
    if names and text_column not in names:
        listed = ", ".join(map(repr, names))
        raise ValueError(f"{path} has no column {text_column!r} for text_column; its columns are {listed}")

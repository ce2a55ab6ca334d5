"""Copies tables with a vector in each row: JSON lines, Parquet, CSV, TSV. Writes vectors alone into a `.npy` file."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import numpy as np

from keras_bert import files
from keras_bert.data import table_formats, tables
from keras_bert.data.examples import Problems
from keras_bert.extras import import_extra

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
VECTOR = "vector"
PARQUET = "parquet"
# Takes some rows, as `chunks` yields them, and their vectors, float32 `[rows, width]`.
Write = Callable[[Any, np.ndarray], None]


@dataclass(frozen=True)
class TableCopy:
    """The copy of a table as CSV, TSV or Parquet. All methods raise ValueError if the table has bad rows."""

    source: Path
    column: str
    skip_bad: bool
    format: str

    def count(self) -> int:
        """Counts the rows that the copy will have."""
        return sum(len(texts) for _, texts in self.chunks(4096))

    def chunks(self, size: int) -> Iterator[tuple[Any, list[str]]]:
        """Yields rows and their texts, up to `size` at a time."""
        if VECTOR in (tables.Table(self.source).names or ()):
            raise ValueError(f"{self.source}: it already has a column {VECTOR!r}; rename that")
        numbered_rows = tables.text_rows(self.source, [self.column], skip_bad=self.skip_bad, may_be_empty=True)
        for chunk in _make_batches((row for _, row in numbered_rows), size):
            yield chunk, [row[self.column] for row in chunk]

    @contextmanager
    def writer(self, path: Path, width: int) -> Iterator[Write]:
        """Creates the copy, and yields a function that writes rows and their vectors."""
        if self.format == PARQUET:
            with _parquet_writer(path, self._find_schema(), width) as write_parquet:
                yield write_parquet
            return
        table = tables.Table(self.source)
        with open(path, "w", encoding="utf-8", newline="") as file:
            quoted = {"quoting": csv.QUOTE_NONE, "quotechar": None} if self.format == "tsv" else {}
            cells = csv.writer(file, delimiter=table.delimiter or ",", lineterminator="\n", **quoted)
            cells.writerow([*(table.names or ()), VECTOR])

            def write(rows: list[dict[str, Any]], vectors: np.ndarray) -> None:
                for row, vector in zip(rows, vectors, strict=True):
                    cells.writerow([*row.values(), f"[{', '.join(files.decimals(vector))}]"])

            yield write

    def _find_schema(self) -> pa.Schema:
        """Finds types of Parquet for the columns, that hold the values of all rows."""
        pa = _import_pyarrow()
        try:
            schemas = []
            for rows, _ in self.chunks(4096):
                # pyarrow takes the names of the first row
                names = dict.fromkeys(name for row in rows for name in row)
                schemas.append(pa.Table.from_pylist([{**names, **row} for row in rows]).schema)
            return pa.unify_schemas(schemas, promote_options="permissive")
        except (pa.ArrowException, OverflowError) as error:
            raise ValueError(f"{self.source} has values that one column of Parquet cannot hold: {error}") from None


class JsonLinesCopy(TableCopy):
    """The copy of JSON lines. Each line stays as it is, with the vector at the end of its object."""

    def chunks(self, size: int) -> Iterator[tuple[list[str], list[str]]]:
        problems, total = Problems(self.source, "rows"), 0

        def read_lines() -> Iterator[tuple[str, str]]:
            nonlocal total
            for total, (number, line) in enumerate(table_formats.json_lines(self.source), start=1):  # noqa: B007
                try:
                    row = table_formats.json_row(line)
                    if isinstance(row, str):
                        raise ValueError(row)
                    if VECTOR in row:
                        raise ValueError(f"it already has a {VECTOR}; rename that")
                    yield _standard(line.strip(), row), tables.text_of(row, self.column)
                except ValueError as error:
                    problems.add(f"line {number}", str(error))

        for chunk in _make_batches(read_lines(), size):
            lines, texts = zip(*chunk, strict=True)
            yield list(lines), list(texts)
        problems.settle(total, self.skip_bad)

    @contextmanager
    def writer(self, path: Path, width: int) -> Iterator[Write]:
        with open(path, "wb") as file:
            yield lambda lines, vectors: file.writelines(
                f"{with_vector(*row)}\n".encode() for row in zip(lines, vectors, strict=True)
            )


def _standard(line: str, row: dict[str, Any]) -> str:
    """Returns a line of JSON as it is, unless it has NaN or infinity, which Python reads and other parsers refuse."""
    try:
        if "NaN" in line or "Infinity" in line:
            json.dumps(row, allow_nan=False)
    except ValueError:
        return files.to_json_line(row)
    return line


class ParquetCopy(TableCopy):
    """The copy of a Parquet file. Its columns keep their types, and the vectors are an additional column."""

    def count(self) -> int:
        return sum(len(texts) for _, texts in self.chunks(table_formats.PARQUET_ROWS, columns=[self.column]))

    def chunks(self, size: int, columns: list[str] | None = None) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
        self._check_columns()
        problems, total = Problems(self.source, "rows"), 0
        for batch in table_formats.parquet_batches(self.source, size, columns):
            texts, is_good = [], []
            for value in table_formats.convert_parquet_cells(batch.column(self.column), self.column):
                total += 1
                try:
                    texts.append(tables.text_in(value, self.column))
                    is_good.append(True)
                except ValueError as error:
                    problems.add(f"row {total}", str(error))
                    is_good.append(False)
            yield batch if all(is_good) else batch.filter(_import_pyarrow().array(is_good)), texts
        problems.settle(total, self.skip_bad)

    def writer(self, path: Path, width: int) -> AbstractContextManager[Write]:
        with table_formats.open_parquet(self.source) as file:
            schema = file.schema_arrow
        return _parquet_writer(path, schema, width)

    def _check_columns(self) -> None:
        """Raises ValueError unless the file has exactly one text column of this name, and no vectors yet."""
        with table_formats.open_parquet(self.source) as file:
            schema = file.schema_arrow
        if VECTOR in schema.names:
            raise ValueError(f"{self.source}: it already has a column {VECTOR!r}; rename that")
        if self.column not in schema.names:
            raise tables.missing_column_error(self.source, self.column, schema.names)
        if schema.names.count(self.column) > 1:
            raise ValueError(f"{self.source} has several columns {self.column!r}; its columns are {schema.names}")
        kind = schema.field(self.column).type
        if not _is_text(kind):
            raise ValueError(f"{self.source}: the column {self.column!r} is of {kind}; expected text")


def choose_copy(source: Path, column: str, skip_bad: bool = False, format: str | None = None) -> TableCopy:
    """Chooses the class of a file's copy: as Parquet if `format` is "parquet", else in the format of the file."""
    kind = table_formats.known_format(source, None)
    if format not in (None, PARQUET):
        raise ValueError(f"format is {format!r}; expected {PARQUET!r}, or None for the format of each file")
    if kind not in _COPIES and format is None:
        word = table_formats.FORMATS[kind].word
        raise ValueError(f"{source} is a {word}, which has no room for vectors; choose the format parquet")
    if PARQUET in (kind, format):
        _import_pyarrow()  # raises before a model runs
    is_copied = format in (None, kind)  # else its rows are written in another format
    return (_COPIES[kind] if is_copied else TableCopy)(source, column, skip_bad, format or kind)


_COPIES = {"csv": TableCopy, "tsv": TableCopy, "jsonl": JsonLinesCopy, PARQUET: ParquetCopy}  # by the source's format


def name_of_copy(source: Path, format: str | None = None) -> str:
    """Names a copy like its file, without `.gz`, and with the extension of the copy's format."""
    name = source.with_suffix("") if source.suffix.lower() == ".gz" else source
    return name.with_suffix(f".{PARQUET}").name if format and name.suffix.lower() != f".{PARQUET}" else name.name


def with_vector(line: str, vector: np.ndarray) -> str:
    """Adds a vector to a JSON object that is not empty."""
    return f'{line[:-1].rstrip()}, "{VECTOR}": [{", ".join(files.decimals(vector))}]}}'


def _make_batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    items = iter(items)
    while chunk := list(itertools.islice(items, size)):
        yield chunk


@contextmanager
def _parquet_writer(path: Path, schema: pa.Schema, width: int) -> Iterator[Write]:
    """Creates a file, and yields a function that writes rows, as batches or as dicts, and their vectors."""
    pa, parquet = _import_pyarrow(), _import_pyarrow(".parquet")
    with_vectors = schema.append(pa.field(VECTOR, pa.list_(pa.float32(), width)))
    with parquet.ParquetWriter(path, with_vectors) as writer:

        def write(rows: pa.RecordBatch | list[dict[str, Any]], vectors: np.ndarray) -> None:
            batch = pa.RecordBatch.from_pylist(rows, schema=schema) if isinstance(rows, list) else rows
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), width)
            writer.write_batch(pa.RecordBatch.from_arrays([*batch.columns, column], schema=with_vectors))

        yield write


def _import_pyarrow(module: str = "") -> Any:
    return import_extra(f"pyarrow{module}", "pyarrow", "parquet")


def _is_text(kind: pa.DataType) -> bool:
    types = _import_pyarrow(".types")
    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def write_npy(file: BinaryIO, blocks: Iterable[np.ndarray], width: int) -> None:
    """Writes blocks of vectors, float32 `[rows, width]`, into an empty file."""

    def write_header(count: int) -> None:  # of constant length, because NumPy leaves room for digits
        header = {"descr": "<f4", "fortran_order": False, "shape": (count, width)}
        np.lib.format.write_array_header_1_0(file, header)

    write_header(0)
    count = 0
    for block in blocks:
        file.write(block.astype("<f4").tobytes())
        count += len(block)
    file.seek(0)
    write_header(count)

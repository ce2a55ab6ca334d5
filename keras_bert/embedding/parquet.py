"""Parquet tables, read some rows at a time, with the vectors as an additional column."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert.data.problems import parquet_cells, reading_parquet
from keras_bert.embedding.json_lines import VECTOR, text_in
from keras_bert.extras import needed

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

_BUFFER = 2**20  # bytes of a column to read at a time, instead of whole row groups
_ROWS = 16384  # rows to check at a time


def count(path: Path, column: str) -> int:
    """The number of rows of a file.

    Raises ImportError if pyarrow is not installed, and ValueError if the file or a row cannot be used.
    """
    return sum(len(texts) for _, texts in _batches(path, column, _ROWS, columns=[column]))


def parts(path: Path, column: str, rows: int) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
    """Yields the rows of a file and their texts, up to `rows` at a time. Raises as `count` does."""
    return _batches(path, column, rows)


@contextlib.contextmanager
def writer(path: Path, source: Path, width: int) -> Iterator[Callable[[pa.RecordBatch, np.ndarray], None]]:
    """Creates the copy `path` of the file `source`; yields a function that writes rows and their vectors."""
    import pyarrow as pa
    from pyarrow import parquet

    with _opened(source) as file:
        schema = file.schema_arrow.append(pa.field(VECTOR, pa.list_(pa.float32(), width)))
    with parquet.ParquetWriter(path, schema) as table:

        def write(rows: pa.RecordBatch, vectors: np.ndarray) -> None:
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), width)
            table.write_batch(pa.RecordBatch.from_arrays([*rows.columns, column], schema=schema))

        yield write


def _batches(
    path: Path, column: str, rows: int, columns: list[str] | None = None
) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
    with _opened(path) as file:
        _check_columns(path, file.schema_arrow, column)
        before = 0
        for batch in file.iter_batches(rows, columns=columns):
            texts = []
            for number, value in enumerate(parquet_cells(batch.column(column), column), start=before + 1):
                try:
                    if isinstance(value, ValueError):
                        raise value
                    texts.append(text_in(value, column))
                except ValueError as error:
                    raise ValueError(f"{path}, row {number}: {error}") from None
            before += len(texts)
            yield batch, texts


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[ParquetFile]:
    parquet = needed("pyarrow.parquet", "pyarrow", "parquet")
    with reading_parquet(path), parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
        yield file


def _check_columns(path: Path, schema: pa.Schema, column: str) -> None:
    """Raises ValueError if the file has not exactly one text column of this name, or has vectors already."""
    names = ", ".join(map(repr, schema.names))
    if VECTOR in schema.names:
        raise ValueError(f"{path}: it already has a column {VECTOR!r}")
    if schema.names.count(column) != 1:
        several = "several columns" if column in schema.names else "no column"
        raise ValueError(f"{path} has {several} {column!r}; its columns are {names}")
    kind = schema.field(column).type
    if not _is_text(kind):
        raise ValueError(f"{path}: the column {column!r} is of {kind}, which is not text")


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)

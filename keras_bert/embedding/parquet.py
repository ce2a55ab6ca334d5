"""Parquet: a table, of which some rows are read at a time; its vectors are one column more."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert.embedding.json_lines import VECTOR, text_in

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

_BUFFER = 2**20  # bytes of a column to read at a time; else a file of one row group would be read whole
_ROWS = 16384  # to look at, at a time


def count(path: Path, column: str) -> int:
    """How many rows a file has.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: a row cannot be used, which one, and why; or the file cannot.
    """
    return sum(len(texts) for _, texts in _batches(path, column, _ROWS, columns=[column]))


def parts(path: Path, column: str, rows: int) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
    """The rows of a file and the texts in them, up to `rows` at a time. Raises as `count` does."""
    return _batches(path, column, rows)


@contextlib.contextmanager
def writer(path: Path, source: Path, width: int) -> Iterator[Callable[[pa.RecordBatch, np.ndarray], None]]:
    """A file to write rows and vectors into.

    Args:
        path: of the new file.
        source: where the rows are from: of which columns.
        width: the length of a vector.
    """
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
            for number, value in enumerate(batch.column(column).to_pylist(), start=before + 1):
                try:
                    texts.append(text_in(value, column))
                except ValueError as error:
                    raise ValueError(f"{path}, row {number}: {error}") from None
            before += len(texts)
            yield batch, texts


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[ParquetFile]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"{path} needs pyarrow: pip install 'keras-bert-models[parquet]' ({error})") from error
    try:
        with parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from None


def _check_columns(path: Path, schema: pa.Schema, column: str) -> None:
    """Raises ValueError unless one column of texts has the name, and none that of the vectors."""
    names = ", ".join(map(repr, schema.names))
    if VECTOR in schema.names:
        raise ValueError(f"{path}: there is a column {VECTOR!r} already")
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

"""JSON lines: each line is copied unchanged, with the vector at the end of its object."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert import files
from keras_bert.data.problems import json_object, one_text

if TYPE_CHECKING:
    import numpy as np

VECTOR = "vector"
_WHITE_SPACE = " \t\r\n"  # in JSON


def count(path: Path, column: str) -> int:
    """The number of rows of a file. Raises ValueError, which names the row, if one cannot be used."""
    return sum(1 for _ in _rows(path, column))


def parts(path: Path, column: str, rows: int) -> Iterator[tuple[list[str], list[str]]]:
    """Yields the lines of a file and their texts, up to `rows` at a time. Raises as `count` does."""
    read = _rows(path, column)
    while part := list(itertools.islice(read, rows)):
        lines, texts = zip(*part, strict=True)
        yield list(lines), list(texts)


@contextlib.contextmanager
def writer(path: Path, source: Path, width: int) -> Iterator[Callable[[list[str], np.ndarray], None]]:
    """Creates the copy `path` of the file `source`; yields a function that writes lines and their vectors."""
    with open(path, "wb") as file:
        yield lambda lines, vectors: file.writelines(
            f"{with_vector(*row)}\n".encode() for row in zip(lines, vectors, strict=True)
        )


def with_vector(line: str, vector: np.ndarray) -> str:
    """Adds a vector to a JSON object that is not empty.

    Example:
        >>> import numpy as np
        >>> with_vector('{"id": 1.50, "text": "caf\\u00e9"}', np.float32([0.5, -1]))
        '{"id": 1.50, "text": "café", "vector": [0.5, -1]}'
    """
    return f'{line[:-1].rstrip()}, "{VECTOR}": [{", ".join(files.decimals(vector))}]}}'


def _rows(path: Path, column: str) -> Iterator[tuple[str, str]]:
    blank = None
    with open(path, "rb") as file:
        for number, raw in enumerate(file, start=1):
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")  # the byte order mark
            try:
                line = raw.decode().strip(_WHITE_SPACE)
                text = _text(line, column) if line else None
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from None
            if text is None:
                blank = blank or number
                continue
            if blank:  # blank lines may only end a file
                raise ValueError(f"{path}, line {blank}: blank")
            yield line, text


def _text(line: str, column: str) -> str:
    row = json_object(line)
    if VECTOR in row:
        raise ValueError(f"it already has a {VECTOR}")
    if column not in row:
        raise ValueError(f"no {column!r}; its keys are {_shown(list(row))}")
    return text_in(row[column], column)


def text_in(value: Any, column: str) -> str:
    """The text in a cell. Raises ValueError if there is none."""
    if not isinstance(value, str):
        raise ValueError(f"{column} is {_shown(value)}, which is not a text")
    return one_text(value, column)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 80 else f"{text[:77]}..."

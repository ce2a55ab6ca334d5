"""Collects the bad rows of a file of examples, and reports them together."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_bert.files import parse_json

SHOWN = 10  # the most bad rows in a message


class Problems:
    """The bad rows of a file or directory; `kind` is the word for rows in messages: "rows", "sentences", "files".

    Example:
        >>> problems = Problems("train.tsv", "rows")
        >>> problems.add("line 17", "4 cells instead of 3")
        >>> problems.settle(total=1000, skip_bad=False)
        Traceback (most recent call last):
        ValueError: train.tsv: 1 of 1,000 rows cannot be used: line 17: 4 cells instead of 3. Fix the file, or leave
        them out with skip_bad
    """

    def __init__(self, path: str | Path, kind: str):
        self._path = path
        self._kind = kind
        self._found: list[str] = []

    def add(self, place: str, fault: str) -> None:
        """Adds a bad row, once, with its place, such as "line 17"."""
        self._found.append(f"{place}: {fault}")

    def settle(self, total: int, skip_bad: bool) -> None:
        """Reports the bad rows when all `total` rows are read: raises ValueError, or warns if `skip_bad`.

        It also raises ValueError if all rows are bad.
        """
        if not self._found:
            return
        shown = "; ".join(self._found[:SHOWN])
        if len(self._found) > SHOWN:
            shown += f"; and {len(self._found) - SHOWN:,} more"
        some = f"{self._path}: {len(self._found):,} of {total:,} {self._kind}"
        if len(self._found) >= total:
            raise ValueError(f"{some} cannot be used, so nothing is left: {shown}")
        if not skip_bad:
            raise ValueError(f"{some} cannot be used: {shown}. Fix the file, or leave them out with skip_bad")
        warnings.warn(f"{some} are left out: {shown}", stacklevel=3)  # at the call of the reader


# -- Checks the texts and the JSON lines in files of examples.


def json_object(line: str) -> dict[str, Any]:
    """The object in a line of JSON lines. Raises ValueError if there is none."""
    try:
        row = parse_json(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}, at character {error.colno}" if line.strip() else "blank") from None
    except ValueError as error:
        raise ValueError(f"not JSON that can be read: {error}") from None
    if not isinstance(row, dict):
        raise ValueError(f"a JSON {type(row).__name__} instead of an object")
    return row


def one_text(value: str, name: str) -> str:
    """Returns `value`. Raises ValueError if it is blank or has half of a surrogate pair."""
    if not value.strip():
        raise ValueError(f"{name} is empty")
    return characters(value, name)


def characters(value: str, name: str) -> str:
    """Returns `value`. Raises ValueError if it has half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON can have it, as \ud83d, but TensorFlow cannot read it
        raise ValueError(f"{name} has half of a surrogate pair, which is not a character") from None
    return value


def whole_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a row, of which every column can be written. Raises ValueError, with the column, if one cannot."""
    for name, value in row.items():
        if isinstance(value, ValueError):
            raise value
        # Half of a surrogate pair may also be deep in a JSON value.
        characters(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), f"{name!a}")
        characters(name, f"the name of column {name!a}")
    return row

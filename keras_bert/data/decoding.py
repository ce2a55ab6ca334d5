"""Checks the texts and the JSON lines in files of examples."""

from __future__ import annotations

import json
from typing import Any


def json_object(line: str) -> dict[str, Any]:
    """The object in a line of JSON lines. Raises ValueError if there is none."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}, at character {error.colno}" if line.strip() else "blank") from None
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deeply") from None
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

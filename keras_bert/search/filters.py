"""Filters of rows: what the cells and values of a filter mean, and the conditions of SQL for them."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

# A number; a text; or as bytes a moment, "true", "false", or "" for null.
Meaning: TypeAlias = int | float | str | bytes

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d)(?::(\d\d)(?::(\d\d)(\.\d{1,9})?)?)?(?:Z|([+-]\d\d):?(\d\d))?)?", re.ASCII
)
_LONGEST = 100  # a longer text means its beginning and its digest, so that long texts are not stored once more
# What a range may be of, by its type in SQLite, which sorts numbers before texts, and texts before bytes.
_KINDS = {
    int: "value < ''",
    float: "value < ''",
    str: "value >= '' AND value < x''",
    bytes: "value >= x'30' AND value < x'3a'",  # the first digit of a year
}
RANGES = (">=", ">", "<=", "<")


def meaning(value: Any) -> Meaning:
    """Returns what a cell or a value of a filter means: the text "7" is the number 7, and "2025-01-02" is a date."""
    if value is None or value != value:  # NaN is null in the index
        return b""
    if isinstance(value, np.generic):
        is_moment = isinstance(value, np.datetime64)  # of which Python cannot hold all
        value = np.datetime_as_string(value, unit="auto") if is_moment else value.item()
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int | float):
        return value if isinstance(value, float) or -(2**63) <= value < 2**63 else str(value)
    text = value if isinstance(value, str) else _as_in_the_index(value)
    if len(text) <= 5 and text.lower() in ("true", "false"):
        return text.lower().encode()
    if _NUMBER.fullmatch(text):
        number = float(text) if "." in text else int(text)
        return number if abs(number) < 2**63 else text
    if moment := _read_moment(text):
        return moment
    if len(text) <= _LONGEST:
        return text
    return text[: _LONGEST - 32] + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _as_in_the_index(value: object) -> str:
    is_container = isinstance(value, list | dict | tuple)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str) if is_container else str(value)


def _read_moment(text: str) -> bytes | None:
    """Reads a date, or a time of it to the nanosecond, as UTC in ISO's format, which sorts by time."""
    if not (match := _MOMENT.fullmatch(text)):
        return None
    day, hour, minute, second, fraction, hours, minutes = match.groups()
    try:
        moment = datetime.datetime.fromisoformat(f"{day}T{hour or '00'}:{minute or '00'}:{second or '00'}")
        if hours:
            moment -= datetime.timedelta(hours=int(hours), minutes=int(f"{hours[0]}{minutes}"))
    except (ValueError, OverflowError):
        return None
    return f"{moment.isoformat()}{(fraction or '').rstrip('.0')}".encode()


def conditions(column: str, values: Any) -> list[tuple[str, list[Any]]]:
    """Reads the filter of a column: conditions of SQL, with their values, any of which its cell must meet.

    A text equals the same text; a value of another type equals each text that means it.
    """
    if not isinstance(values, Mapping):
        return [
            ("value = ? AND text IN ('', ?)", [meaning(each), each])
            if isinstance(each, str)
            else ("value = ?", [meaning(each)])
            for each in _list_values(values)
        ]
    if not values or (unknown := [each for each in values if each not in RANGES]):
        what = f"has {unknown[0]!r}" if values else "is empty"
        raise ValueError(f"the range of {column!r} {what}; expected {', '.join(RANGES)}, such as {{'>=': 2025}}")
    limits = {sign: b"" if isinstance(each, list | tuple) else meaning(each) for sign, each in values.items()}
    for sign, limit in limits.items():
        if limit in (b"", b"true", b"false"):
            raise ValueError(f"{column!r} {sign} {values[sign]!r}: expected a number, a date or a text")
    parts = [f"{_KINDS[type(limit)]} AND value {sign} ?" for sign, limit in limits.items()]
    return [(" AND ".join(parts), list(limits.values()))]


def _list_values(values: Any) -> list[Any]:
    """Lists the alternatives of a filter: a value, or several in any collection."""
    if isinstance(values, np.ndarray):
        return list(values.ravel())
    if isinstance(values, str | bytes | np.generic) or not isinstance(values, Iterable):
        return [values]
    return list(values)

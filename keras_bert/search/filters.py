"""Filters of rows: what the cells and values of a filter mean, and the conditions of SQL for them."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import struct
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from keras_bert.data.examples import check_characters

# A text; or as bytes a number, a moment, "true", "false", or "" for null. SQLite sorts texts before bytes.
Meaning: TypeAlias = str | bytes

_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ Tt](\d\d)(?::(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?"
    r"(?: ?(?:[Zz]|UTC|GMT|([+-])([01]\d|2[0-3])(?::?([0-5]\d)(?::?([0-5]\d))?)?(?: UTC)?))?)?",
    re.ASCII,
)
_LONGEST = 100  # a longer text means its beginning and its digest, so that long texts are not stored once more
KINDS = {  # what a range may be of
    "numbers": "value >= x'6e' AND value < x'6f'",  # "n"
    "dates": "value >= x'30' AND value < x'3a'",  # the first digit of a year
    "texts": "value < x''",
}
RANGES = (">=", ">", "<=", "<")


def meaning(value: Any) -> Meaning:
    """Returns what a cell or a value of a filter means: the text "7" is the number 7, and "2025-01-02" is a date."""
    if not isinstance(value, str):
        if _is_null(value):
            return b""
        if isinstance(value, np.generic):
            is_moment = isinstance(value, np.datetime64)  # of which Python cannot hold all
            value = np.datetime_as_string(value, unit="auto") if is_moment else value.item()
        if isinstance(value, bool):
            return b"true" if value else b"false"
        if isinstance(value, int | float | Decimal):
            return _sortable(_rounded(Decimal(repr(value) if isinstance(value, float) else value)))
    text = value if isinstance(value, str) else _as_in_the_index(value)
    if len(text) <= 5 and text.lower() in ("true", "false"):
        return text.lower().encode()
    if read := _read_number(text) or _read_moment(text):
        return read
    check_characters(text, f"the value {text!a:.60}")
    if len(text) <= _LONGEST:
        return text
    return text[: _LONGEST - 32] + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def term(value: Any) -> tuple[Meaning, str]:
    """Returns what a cell means and, if it is a text that means something else, this text; else ""."""
    means = meaning(value)
    return means, value if isinstance(value, str) and not isinstance(means, str) else ""


def _is_null(value: object) -> bool:
    """Checks for None and NaN, which are null in the index, and pandas's NA."""
    if isinstance(value, Decimal):
        return value.is_nan()
    differs = value != value
    return value is None or type(value).__name__ == "NAType" or (isinstance(differs, bool | np.bool_) and bool(differs))


def _as_in_the_index(value: object) -> str:
    is_container = isinstance(value, list | dict | tuple)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str) if is_container else str(value)


# -- Numbers: whole ones of any size, others as float64.


def _read_number(text: str) -> bytes | None:
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return _sortable(_rounded(Decimal(text)))
    except ArithmeticError:  # an exponent of over 18 digits
        return None


def _rounded(number: Decimal) -> Decimal:
    """Rounds a number with a fraction to float64, as readers of JSON do, unless that gives 0 or infinity."""
    if number == number.to_integral_value():
        return number
    rounded = Decimal(repr(float(number)))
    return rounded if rounded and rounded.is_finite() else number


def _sortable(number: Decimal) -> bytes:
    """Writes a number as bytes that sort as numbers do: its sign, the place of its first digit, its digits."""
    if not number:
        return b"n0"
    if number.is_infinite():
        return b"n2" if number > 0 else b"n"
    digits = bytes(digit + 1 for digit in number.as_tuple().digits).rstrip(b"\1")
    content = struct.pack(">Q", 2**63 + (number.adjusted() if number > 0 else -number.adjusted())) + digits
    if number > 0:
        return b"n1" + content
    return b"n-" + content[:8] + bytes(255 - each for each in digits) + b"\xff"


# -- Dates and times.


def _read_moment(text: str) -> bytes | None:
    """Reads a date, or a time of it, as UTC in ISO's format, which sorts by time."""
    if not (match := _MOMENT.fullmatch(text)):
        return None
    day, hour, minute, second, fraction, sign, *offset = match.groups()
    try:
        moment = datetime.datetime.fromisoformat(f"{day}T{hour or '00'}:{minute or '00'}:{second or '00'}")
        if sign:
            hours, minutes, seconds = (int(each or 0) for each in offset)
            distance = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds)
            moment = moment - distance if sign == "+" else moment + distance
    except (ValueError, OverflowError):
        return None
    fraction = (fraction or "").rstrip("0")
    return f"{moment.isoformat()}{fraction and '.'}{fraction}".encode()


# -- Conditions.


def alternatives(values: Any) -> list[tuple[str, list[Any]]]:
    """Makes the conditions of SQL, with their values, any of which a cell must meet to equal one of some values."""
    # A text equals the same text; a value of another type equals each text that means it.
    return [
        ("value = ? AND text IN ('', ?)", [meaning(each), each])
        if isinstance(each, str)
        else ("value = ?", [meaning(each)])
        for each in list_values(values)
    ]


def limits_of(column: str, limits: Mapping[str, Any]) -> tuple[str, str, list[Any]]:
    """Reads a range, such as `{">=": 2025}`: returns its kind, and the condition of SQL with its values."""
    if not limits or (unknown := [each for each in limits if each not in RANGES]):
        what = f"has {unknown[0]!r}" if limits else "is empty"
        raise ValueError(f"the range of {column!r} {what}; expected {', '.join(RANGES)}, such as {{'>=': 2025}}")
    found = {sign: b"" if isinstance(each, list | tuple) else meaning(each) for sign, each in limits.items()}
    kinds = {}
    for sign, limit in found.items():
        if limit in (b"", b"true", b"false"):
            raise ValueError(f"{column!r} {sign} {limits[sign]!r}: expected a number, a date or a text")
        kinds[sign] = "texts" if isinstance(limit, str) else "numbers" if limit.startswith(b"n") else "dates"
    first, *others = kinds.values()
    if any(each != first for each in others):
        raise ValueError(f"the range of {column!r} has limits of two kinds, {first} and {others[0]}: {dict(limits)}")
    return first, " AND ".join([KINDS[first], *(f"value {sign} ?" for sign in found)]), list(found.values())


def check_comparable(column: str, limits: Mapping[str, Any], kind: str, counts: Mapping[str, int]) -> None:
    """Raises ValueError unless a range can compare with cells of a column: given the numbers of these, by kind."""
    # Beside more numbers or dates, some texts are stopgaps such as "n/a", and some numbers are no dates, or the
    # reverse.
    rivals = {"numbers": ["dates"], "dates": ["numbers"], "texts": ["numbers", "dates"]}[kind]
    if counts[kind] and counts[kind] >= sum(counts[each] for each in rivals):
        return
    present = " and ".join(f"{count:,} {each}" for each, count in counts.items() if count) or "neither"
    sign, limit = next(iter(limits.items()))
    example = "'2025-01-31'" if counts["dates"] > counts["numbers"] else "2025" if counts["numbers"] else "'a text'"
    raise ValueError(
        f"{column!r} {sign} {limit!r} compares {kind}, but the cells of {column!r} are {present}; "
        f"give a limit of their kind, such as {example}"
    )


def list_values(values: Any) -> list[Any]:
    """Lists the alternatives of a filter: a value, or several in any collection."""
    if isinstance(values, np.ndarray):
        return list(values.ravel())
    if isinstance(values, str | bytes | np.generic) or not isinstance(values, Iterable):
        return [values]
    return list(values)

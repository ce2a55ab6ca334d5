"""Parses the labels in the cells of a table."""

from __future__ import annotations

import math
import re
from typing import Any

from keras_bert.data.decoding import characters

KINDS = ("class", "number", "multi_label")


def parse_label(value: Any, kind: str, separator: str = "|") -> str | float | tuple[str, ...]:
    """Parses the label in a cell: a string in CSV and TSV, any JSON value in JSON lines. Raises ValueError if it is
    bad.

    Args:
        value: the cell.
        kind: "class": one name, stripped of white space, or in JSON a whole number, true or false. "number": a finite
            number. "multi_label": any number of names: a string with separators, or a JSON list.
        separator: the string between names.

    Example:
        >>> parse_label(" good", "class"), parse_label("4.5", "number"), parse_label("war|love", "multi_label")
        ('good', 4.5, ('war', 'love'))
    """
    if kind != "multi_label":
        return _number(value) if kind == "number" else _name(value)
    if isinstance(value, str):
        value = value.split(separator) if value.strip() else []
    if not isinstance(value, list):
        raise ValueError(f"label is {value!r:.60}; expected a list of names")
    return tuple(dict.fromkeys(_name(name) for name in value))


def _name(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError("label is empty")
    if not isinstance(value, str):
        raise ValueError(f"label is {value!r:.60}, which is not the name of a class")
    return checked_name(value.strip())


def checked_name(label: str) -> str:
    """Returns a label. Raises ValueError if the tables of labels and measures cannot hold it."""
    if re.search(r"[\t\n\r]", label):
        raise ValueError(f"label is {label!r}, with a tab or a line end, which the tables of measures cannot hold")
    return characters(label, "label")


def _number(value: Any) -> float:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError("label is empty")
    try:
        if isinstance(value, bool) or (isinstance(value, str) and "_" in value):  # float() accepts both
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"label is {value!r:.60}, which is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"label is {value!r:.60}, which is not a finite number")
    return number

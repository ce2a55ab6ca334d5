"""Checks arguments that hold many texts before anything iterates over them. It needs no TensorFlow.

Iteration over a table or a dict yields the names of its columns, over a str its characters, and over a set its items in
any order. Each would pass for texts without an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

_COLUMNS = 5  # names of columns in a message
# Unicode's white space.
SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def check_many(many: object, name: str = "texts", item: str = "text") -> None:
    """Raises TypeError or ValueError unless an argument is an iterable of one dimension, with an order."""
    if isinstance(many, list):
        return
    kind = type(many).__name__
    if isinstance(many, str | bytes):
        raise TypeError(f"{name} is a single {kind}; pass a list: [{item}]")
    columns = list(many) if isinstance(many, Mapping) else columns_of_table(many)
    if columns is not None:
        named = ", ".join(map(repr, columns[:_COLUMNS])) + (", ..." if len(columns) > _COLUMNS else "")
        if not columns:
            raise TypeError(f"{name} is an empty {kind}; pass a list")
        raise TypeError(f"{name} is a {kind} with the columns {named}; pass one column, such as table[{columns[0]!r}]")
    if isinstance(many, set | frozenset):
        raise TypeError(f"{name} is a {kind}, which has no order; pass a list, such as sorted({name})")
    rank = rank_of(many)
    if rank == 0:
        raise TypeError(f"{name} is a {kind} of shape (); pass the {item} itself, such as array.item(), or a list")
    if rank is not None and rank != 1:
        shape = tuple(getattr(many, "shape", ()))
        raise ValueError(f"{name} is a {kind} of shape {shape}; expected one dimension, as of a list")
    if (spec := getattr(many, "element_spec", None)) is not None and rank_of(spec) != 0:
        raise TypeError(f"{name} is a dataset of {spec}; expected single {item}s: use its unbatch() or map(...)")
    try:
        iter(cast("Iterable[object]", many))
    except TypeError:
        raise TypeError(f"{name} is {many!r:.60} ({kind}); expected a {item}, or many: a list") from None


def list_of_str(many: Iterable[str], name: str = "texts", item: str = "text", first: int = 0) -> list[str]:
    """Checks that all items, the first of which has the number `first`, are str. Raises as `check_many`."""
    check_many(many, name, item)
    items = list(many)
    for number, each in enumerate(items, first):
        if not isinstance(each, str):
            as_str = "decode()" if isinstance(each, bytes) else "numpy().decode()" if hasattr(each, "numpy") else None
            advice = f"; pass {item}.{as_str}" if as_str else ""
            raise TypeError(f"{item} {number} (from 0) is {each!r:.60} ({type(each).__name__}), not a str{advice}")
    return items


def check_surrogates(texts: Iterable[str]) -> None:
    """Raises ValueError if a text has a lone surrogate."""
    for row, text in enumerate(texts):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise lone_surrogate(row, error) from None


def lone_surrogate(row: int, error: UnicodeEncodeError) -> ValueError:
    """Makes the error for a text that UTF-8 cannot encode."""
    return ValueError(
        f"text {row} has the lone surrogate {error.object[error.start]!a} at character {error.start}, which UTF-8 "
        f"cannot encode; drop it with text.encode(errors='ignore').decode(): {error.object[:40]!a}"
    )


def columns_of_table(many: object) -> list[str] | None:
    """Lists the columns of a table of pandas, polars, PyArrow or `datasets`; None for anything else."""
    if rank_of(many) != 2:
        return None
    for attribute in ("column_names", "columns"):  # PyArrow's `columns` are the columns themselves
        if (names := getattr(many, attribute, None)) is not None:
            return list(names)
    return None


def rank_of(many: Any) -> int | None:
    """Counts the dimensions of an array, a tensor, a column or a table; None for anything else."""
    try:
        return len(many.shape)
    except (AttributeError, TypeError, ValueError):  # no shape, or the unknown shape of a tensor
        return None

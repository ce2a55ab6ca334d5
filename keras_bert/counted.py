"""Writes a number with its noun, and names with commas between them."""

import itertools
from collections.abc import Collection, Sized


def counted(what: int | Sized, noun: str, plural: str | None = None) -> str:
    """Writes "1 row", or of (2048, "row") "2,048 rows". `what` is a number, or what is counted, such as a list."""
    number = len(what) if isinstance(what, Sized) else what
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def listed(names: Collection[str], most: int = 20) -> str:
    """Writes names with commas between them, of more than `most` the first ones and the number of the others."""
    first = ", ".join(itertools.islice(names, most))
    return first + (f" and {len(names) - most:,} more" if len(names) > most else "")

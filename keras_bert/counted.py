"""Writes a number with its noun."""

from collections.abc import Sized


def counted(what: int | Sized, noun: str, plural: str | None = None) -> str:
    """Writes "1 row", or of (2048, "row") "2,048 rows". `what` is a number, or what is counted, such as a list."""
    number = len(what) if isinstance(what, Sized) else what
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"

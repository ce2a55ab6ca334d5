"""Collects the bad rows of a file of examples, and reports them together."""

from __future__ import annotations

import warnings
from pathlib import Path

SHOWN = 10  # the most bad rows in a message


class Problems:
    """The bad rows of a file or directory; `kind` is the word for rows in messages: "rows", "sentences", "files".

    Example:
        >>> problems = Problems("train.tsv", "rows")
        >>> problems.add("line 17", "4 cells instead of 3")
        >>> problems.settle(total=1000, skip_bad=False)
        Traceback (most recent call last):
        ValueError: train.tsv: 1 of 1,000 rows cannot be used: line 17: 4 cells instead of 3. Fix the file, or leave
        them out with skip_bad=True
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
            raise ValueError(f"{some} cannot be used: {shown}. Fix the file, or leave them out with skip_bad=True")
        warnings.warn(f"{some} are left out: {shown}", stacklevel=3)  # at the call of the reader

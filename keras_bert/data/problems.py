"""What is wrong with a file of examples: gathered while it is read, told at once."""

from __future__ import annotations

import warnings
from pathlib import Path

SHOWN = 10  # of the bad rows, this many by name: enough to see what is the matter


class Problems:
    """The rows of a file that cannot be used.

    Args:
        path: the file or directory, for the message.
        kind: what a row is called in it: "rows", "sentences", "questions", "files".

    Example:
        >>> problems = Problems("train.tsv", "rows")
        >>> problems.add("line 17", "4 cells instead of 3")
        >>> problems.settle(total=1000, skip_bad=False)
        Traceback (most recent call last):
        ValueError: train.tsv: 1 of 1,000 rows cannot be used: line 17: 4 cells instead of 3. Mend the file, or leave
        them out with skip_bad=True
    """

    def __init__(self, path: str | Path, kind: str):
        self._path = path
        self._kind = kind
        self._found: list[str] = []

    def add(self, place: str, what: str) -> None:
        """Counts a row. Once for each: `place` is "line 17", or what else a reader finds it by."""
        self._found.append(f"{place}: {what}")

    def settle(self, total: int, skip_bad: bool) -> None:
        """To be called when all rows are read, before anything else is done.

        Args:
            total: how many rows there are, the bad ones with them.
            skip_bad: whether to do without the bad ones.

        Raises:
            ValueError: some row is bad and `skip_bad` is False, or every row is.

        Warns:
            UserWarning: some are bad and `skip_bad` is True.
        """
        if not self._found:
            return
        shown = "; ".join(self._found[:SHOWN])
        if len(self._found) > SHOWN:
            shown += f"; and {len(self._found) - SHOWN:,} more"
        some = f"{self._path}: {len(self._found):,} of {total:,} {self._kind}"
        if len(self._found) >= total:
            raise ValueError(f"{some} cannot be used, so there is nothing to work on: {shown}")
        if not skip_bad:
            raise ValueError(f"{some} cannot be used: {shown}. Mend the file, or leave them out with skip_bad=True")
        warnings.warn(f"{some} are left out: {shown}", stacklevel=3)  # where the reader was called

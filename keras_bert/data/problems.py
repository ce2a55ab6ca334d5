"""The bad rows of a file of examples, collected while it is read and reported together."""

from __future__ import annotations

import warnings
from pathlib import Path

SHOWN = 10  # the most bad rows that a message names


class Problems:
    """The rows of a file that cannot be used.

    Args:
        path: the file or directory, for the message.
        kind: the name of the rows in it: "rows", "sentences", "questions", "files".

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
        """Adds a bad row; call it once for each. `place` tells where the row is, such as "line 17"."""
        self._found.append(f"{place}: {what}")

    def settle(self, total: int, skip_bad: bool) -> None:
        """Reports the bad rows. Call it when all rows are read, before anything else.

        Args:
            total: the number of rows, bad ones included.
            skip_bad: whether to leave out the bad ones.

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

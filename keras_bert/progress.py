"""Shows how far long work is: a bar on a terminal, a line a minute elsewhere."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm

_SECONDS = 60  # from one line to the next


class _Lines(tqdm):
    """A bar for a log, such as that of a scheduler, where a bar would be one endless line."""

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        if msg is None:  # else the bar is removed at its end
            self.fp.write(f"{self}\n")
            self.fp.flush()
        return False

    def clear(self, nolock: bool = False) -> None:
        """Does nothing: a line stays where other lines are written, as by `tqdm.external_write_mode`."""

    def refresh(self, nolock: bool = False, lock_args: Any = None) -> None:
        if not nolock:  # else other lines were written
            super().refresh(nolock, lock_args)


def progress_bar(total: int | None, unit: str, progress: bool | None = None, initial: int = 0) -> tqdm:
    """Makes a bar on standard error: by default (None) on a terminal, elsewhere a line a minute; False: none."""
    settings: dict[str, Any] = {"total": total, "unit": f" {unit}", "initial": initial}
    if progress is None and not sys.stderr.isatty():
        line = "{n_fmt} of {total_fmt}{unit},{rate_fmt}, {elapsed} elapsed, {remaining} left"
        return _Lines(**settings, delay=_SECONDS, mininterval=_SECONDS, miniters=1, leave=False, bar_format=line)
    return tqdm(**settings, delay=1, disable=progress is False)

"""Shows how far long work is: a bar on a terminal, a line a minute elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from tqdm import tqdm

_SECONDS = 60  # from one line to the next


class _Lines(tqdm):
    """A bar for a log, such as that of a scheduler, where a bar would be one endless line."""

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        if msg is None:  # else the bar is removed at its end
            self.fp.write(f"{' '.join(str(self).split())}\n")
            self.fp.flush()
        return False

    def clear(self, nolock: bool = False) -> None:
        """Does nothing: a line stays where other lines are written, as by `tqdm.external_write_mode`."""

    def refresh(self, nolock: bool = False, lock_args: Any = None) -> None:
        if not nolock:  # else other lines were written
            super().refresh(nolock, lock_args)


class _Within(tqdm):
    """The bar of work that is a step of another bar, which shows it."""

    def __init__(self, total: int | None) -> None:
        super().__init__(total=total, disable=True)

    def update(self, n: float | None = 1) -> bool | None:
        bar, first, size = _steps[-1]
        self.n += n or 0
        return bar.update(max(first + int(size * min(self.n / (self.total or size), 1)) - bar.n, 0))


_steps: list[tuple[tqdm, int, int]] = []  # a bar, its position before the step, and the size of the step


@contextlib.contextmanager
def step(bar: tqdm, size: int) -> Iterator[None]:
    """Advances a bar by `size`, in this block: by bit if the work in it has a bar, the rest at its end."""
    _steps.append((bar, int(bar.n), size))
    try:
        yield
    finally:
        _, first, _ = _steps.pop()
    bar.update(first + size - bar.n)


def on_terminal() -> bool:
    """Checks whether standard error is a terminal that can show a bar."""
    columns = 1  # if their number is unknown
    with contextlib.suppress(OSError, ValueError):
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    return columns > 0 and sys.stderr.isatty()


def progress_bar(
    total: int | None, unit: str, progress: bool | None = None, initial: int = 0, desc: str = "", **settings: Any
) -> tqdm:
    """Makes tqdm's bar on standard error: None: on a terminal, elsewhere a line a minute; False: none."""
    if _steps and progress is not False:
        return _Within(total)
    settings |= {"total": total, "unit": f" {unit}", "initial": initial, "desc": desc and f"{desc}: "}
    if progress is None and not on_terminal():
        count, left = ("{n_fmt}", "") if total is None else ("{n_fmt} of {total_fmt}", ", {remaining} left")
        line = f"{{desc}}{count}{{unit}}, {{rate_noinv_fmt}}, {{elapsed}} elapsed{left}{{postfix}}"
        settings = {"bar_format": line, **settings, "delay": _SECONDS, "mininterval": _SECONDS, "miniters": 0}
        return _Lines(**{**settings, "leave": False})
    return tqdm(**{"delay": 1, "leave": None, **settings}, disable=progress is False)  # None: unless inside another

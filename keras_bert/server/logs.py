"""Keeps the log short, whatever clients do."""

import logging
import time

_SECONDS = 60.0
_MOST = 5  # records of one place in this time


class Repetitions(logging.Filter):
    """Leaves out warnings and errors that repeat themselves, and says so: five a minute from each place in the code."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[tuple[str, int], tuple[float, int]] = {}  # by place: since when, and how many

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        place, now = (record.pathname, record.lineno), time.monotonic()
        start, count = self._counts.get(place, (now, 0))
        note = ""
        if now - start > _SECONDS:
            note = f" ({count - _MOST:,} like it were left out)" if count > _MOST else ""
            start, count = now, 0
        count += 1
        self._counts[place] = start, count
        if count == _MOST:
            note = " (more like it are left out for a minute)"
        record.msg, record.args = f"{record.getMessage()}{note}", ()
        return count <= _MOST

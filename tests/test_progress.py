"""Progress of long work without a terminal: a line a minute, and nothing for short work."""

import io
import sys

import pytest

from keras_bert.progress import progress_bar


@pytest.mark.parametrize(("seconds", "progress", "lines"), [(25, None, 3), (1, None, 0), (25, False, 0)])
def test_a_log_gets_a_line_a_minute(monkeypatch, seconds, progress, lines):
    monkeypatch.setattr(sys, "stderr", log := io.StringIO())  # no terminal
    clock = iter(range(0, 10**6, seconds))
    monkeypatch.setattr("tqdm.std.time", lambda: float(next(clock)))
    with progress_bar(1000, "rows", progress, initial=200) as bar:
        for _ in range(8):
            bar.update(100)
            with bar.external_write_mode():  # as for a warning
                pass
    written = log.getvalue().splitlines(keepends=True)
    assert len(written) == lines
    assert all(line.endswith(" left\n") and " of 1000 rows, " in line for line in written)

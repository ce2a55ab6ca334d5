"""Progress of long work without a terminal: a line a minute, and nothing for short work."""

import io
import os
import pty
import sys

import pytest

from keras_bert.progress import on_terminal, progress_bar, step


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


@pytest.mark.parametrize("of_its_own", [True, False])
def test_a_step_advances_by_bits(of_its_own):
    with progress_bar(100, "texts", False) as bar:
        seen = []
        bar.update = lambda count: (setattr(bar, "n", bar.n + count), seen.append(bar.n))
        for _ in range(2):
            with step(bar, 50), progress_bar(10, "windows", None if of_its_own else False) as windows:
                for _ in range(2):
                    windows.update(5)
    assert seen == ([25, 50, 50, 75, 100, 100] if of_its_own else [50, 100])


def test_a_terminal_without_columns_is_a_log(monkeypatch):
    controller, terminal = pty.openpty()  # of 0 columns
    with open(controller, "wb"), open(terminal, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        assert os.isatty(terminal)
        assert not on_terminal()

"""Processes for tests to start, and to interrupt."""

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from typing import Any


def start_process(command: list[str], **settings: Any) -> subprocess.Popen:
    """Starts a process that heeds SIGINT even where this one ignores it, as a test run in the background may."""
    with _heeding_interrupts():
        return subprocess.Popen(command, **settings)


@contextlib.contextmanager
def _heeding_interrupts() -> Iterator[None]:
    # A signal that has a handler here has the default one in a new process. Not by preexec_fn: that one runs after a
    # fork, which gRPC's threads, once there are some, do not survive.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

"""Processes for tests to start, and to interrupt."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

# Seconds. Not a measure of speed: a process that takes this long hangs.
HANGS = 600
# As in a user's shell: TensorFlow's messages are not silenced, and Keras may be set to another backend.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"} | {
    "KERAS_BACKEND": "jax"
}
PIPES = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def start_command(*arguments: str, **settings: Any) -> subprocess.Popen:
    """Starts `keras-bert` with these arguments, its output in pipes; settings are for `subprocess.Popen`."""
    return start_process(
        [sys.executable, "-m", "keras_bert.cli", *arguments], **PIPES | {"env": ENVIRONMENT} | settings
    )


def start_process(command: list[str], **settings: Any) -> subprocess.Popen:
    """Starts a process that heeds SIGINT even if this one ignores it, as a test run in the background may."""
    with _heeding_interrupts():
        return subprocess.Popen(command, **settings)


@contextlib.contextmanager
def _heeding_interrupts() -> Iterator[None]:
    # A signal with a handler here has the default one in a new process. Not by preexec_fn, which runs after a fork:
    # gRPC's threads, if there are any, do not survive a fork.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def wait_for(condition: Callable[[], object], process: subprocess.Popen) -> None:
    """Waits until the condition holds, while the process runs."""
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


def read_until(pattern: str, terminal: int) -> str:
    """The output of a process on a terminal, up to the pattern.

    Args:
        pattern: a regular expression.
        terminal: the user's end of the terminal.
    """
    shown = ""
    deadline = time.monotonic() + HANGS
    while not re.search(pattern, shown):
        ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"only this came: {shown!r}"
        shown += os.read(terminal, 4096).decode()
    return shown


def shout(text: str) -> Iterator[str]:
    """Work for a process: yields `text` in capitals; "die" kills the process, and an empty text is an error."""
    if text == "die":
        os.write(2, b"the last words")
        os.kill(os.getpid(), signal.SIGKILL)
    if not text:
        raise ValueError("nothing to shout")
    yield text.upper()


def run_python(code: str, *arguments: Any, **variables: str) -> str:
    """The output of a Python program, in a process with this one's module search path."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TF_CPP_MIN_LOG_LEVEL": "2"} | variables
    command = [sys.executable, "-c", code, *map(str, arguments)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout

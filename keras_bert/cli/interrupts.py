"""Ctrl-C ends a command at once: one line on standard error, exit code 130, no incomplete files."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

import click

from keras_bert import files
from keras_bert.processes import KilledError

RESUMABLE = "Interrupted; run the same command to resume."


@contextlib.contextmanager
def end_the_command(
    clean_up: Callable[[], None] = lambda: None, message: str = "Interrupted; no file was written."
) -> Iterator[None]:
    """In this block SIGINT and SIGTERM end the process, with exit code 128 + the signal's number.

    Not by KeyboardInterrupt, which TensorFlow ignores while it is imported or traces a function.

    Args:
        clean_up: called first. Incomplete files of `keras_bert.files` are always removed.
        message: the line on standard error.
    """
    stderr = os.dup(2)  # `quiet.imports` redirects 2 to /dev/null

    def handle(number: int, frame: FrameType | None) -> None:
        clean_up()
        end(number, message, stderr)

    old = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number, handler in old.items():
            if handler is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, handle)
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        os.close(stderr)


@contextlib.contextmanager
def killed_processes() -> Iterator[None]:
    """In this block, the error of `in_processes` for a killed process becomes one line, without logs."""
    try:
        yield
    except KilledError as error:
        raise click.ClickException(str(error).partition("\n")[0]) from error


def end(number: int, message: str, stderr: int = 2) -> NoReturn:
    """Ends the process after a signal, with a line on the file descriptor `stderr`."""
    files.remove_temporary()
    after_progress_bar = "\n" if os.isatty(stderr) else ""
    os.write(stderr, f"{after_progress_bar}{message}\n".encode())
    os._exit(128 + number)

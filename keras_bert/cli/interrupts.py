"""Ctrl-C ends a command at once: one line on standard error, exit code 130, nothing half-written."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from keras_bert import files


@contextlib.contextmanager
def end_the_command(
    clean_up: Callable[[], None] = lambda: None, message: str = "Interrupted; no file was written."
) -> Iterator[None]:
    """In this block SIGINT and SIGTERM call `clean_up` and end the process, with exit code 128 + the signal's number.

    The temporary files of `keras_bert.files` are removed.

    KeyboardInterrupt would not do: TensorFlow swallows it while it is imported or traces a function, and goes on.
    """
    stderr = os.dup(2)  # `quiet.imports` redirects 2 to /dev/null

    def end(number: int, frame: FrameType | None) -> None:
        clean_up()
        files.remove_temporary()
        after_progress_bar = "\n" if os.isatty(stderr) else ""
        os.write(stderr, f"{after_progress_bar}{message}\n".encode())
        os._exit(128 + number)

    old = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number, handler in old.items():
            if handler is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, end)
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        os.close(stderr)

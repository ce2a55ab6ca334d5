"""Ends a run at a signal, between two batches, after its state is saved."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from keras_bert.training.run_files import Position


class Interrupted(KeyboardInterrupt):
    """A run was ended by a signal, after its state was saved.

    Args:
        position: where the run stands.
        number: the signal's number.

    Attributes:
        position, number: as above.
        place: where the run stands, in words, if it is a run of files.
    """

    def __init__(self, position: Position, number: int) -> None:
        super().__init__(position, number)
        self.position = position
        self.number = number
        self.place = ""


@contextlib.contextmanager
def signals_noticed(here: bool) -> Iterator[Callable[[], int]]:
    """In this block the first SIGINT or SIGTERM is only noticed, and the next one has its usual effect.

    Args:
        here: whether to notice signals. Outside of the main thread, signals always have their usual effect.

    Yields:
        A function that returns the number of the noticed signal, or 0.
    """
    noticed = [0]
    old = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in old.items():
            signal.signal(number, handler)

    def notice(number: int, frame: FrameType | None) -> None:
        noticed[0] = number
        restore()

    if not here or threading.current_thread() is not threading.main_thread():
        yield lambda: 0
        return
    for number, handler in old.items():
        if handler is not signal.SIG_IGN and handler is not None:
            signal.signal(number, notice)
    try:
        yield lambda: noticed[0]
    finally:
        restore()

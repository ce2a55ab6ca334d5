"""A function of many items, computed by several processes that end with the one that started them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO

from keras_bert import files

_function: Callable[[Any], Any]  # in a process that was started


def in_processes(
    function: Callable[[Any], Any], items: Iterable[Any], processes: int, directory: Path
) -> Iterator[Any]:
    """Yields `function(item)` of each item, in the order in which they are done.

    When the generator is closed, an error or an interruption leaves it, or this process is killed, the others end at
    once. They see no GPU.

    Args:
        function: can be pickled, as its results can.
        items: small, as each is sent by itself.
        processes: how many.
        directory: where `function` writes, with `files.written_whole`. What was not complete is removed there.

    Raises:
        RuntimeError: a process ended, by a signal for instance, or could not start.
        Exception: whatever `function` raises.
    """
    context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork
    line, held = context.Pipe(duplex=False)  # only this process holds its other end
    start = (line, pickle.dumps(function), directory)
    with tempfile.TemporaryFile() as said, contextlib.ExitStack() as ending:
        try:
            with _as_seen_by_processes(said):
                pool = ending.enter_context(ProcessPoolExecutor(processes, context, initializer=_start, initargs=start))
                ending.enter_context(held)  # closed first
                futures = [pool.submit(_call, item) for item in items]
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool:
            raise RuntimeError(
                "a process ended before its work did; if memory is short, use fewer processes or smaller parts. What "
                f"the processes said last:\n{_last_words(said)}"
            ) from None


def _start(line: Connection, function: bytes, directory: Path) -> None:
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the one that started them decides
    threading.Thread(target=_end_with, args=(line, directory), daemon=True).start()
    _function = pickle.loads(function)  # this program's own, through a pipe; here, so that it ends if its parent does


def _call(item: Any) -> Any:
    return _function(item)


def _end_with(line: Connection, directory: Path) -> None:
    line.poll(None)  # nothing is ever sent: this returns when the other end is closed, by whatever
    for unfinished in files.unfinished_files(directory):
        unfinished.unlink(missing_ok=True)
    os._exit(0)


@contextlib.contextmanager
def _as_seen_by_processes(said: BinaryIO) -> Iterator[None]:
    """What is started in this block has `said` for standard error, because TensorFlow chatters, and no GPU."""
    sys.stderr.flush()
    gpus, stderr = os.environ.get("CUDA_VISIBLE_DEVICES"), os.dup(2)
    try:
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        os.dup2(said.fileno(), 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        del os.environ["CUDA_VISIBLE_DEVICES"]
        if gpus is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = gpus


def _last_words(said: BinaryIO) -> str:
    said.seek(max(0, said.seek(0, os.SEEK_END) - 2000))
    return said.read().decode(errors="replace").strip()

"""Runs a function on many items in several processes, which end when their parent does."""

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
from typing import Any, BinaryIO

from keras_bert import files

_function: Callable[[Any], Any]  # set in each started process


def in_processes(function: Callable[[Any], Any], items: Iterable[Any], processes: int) -> Iterator[Any]:
    """Yields `function(item)` for each item, in order of completion.

    The processes end at once when the generator is closed, fails or is interrupted, or when this process is killed,
    and remove their temporary files (see `keras_bert.files`). They see no GPU.

    Args:
        function: must be picklable, and so must its results.
        items: should be small, as each is sent by itself.
        processes: the number of processes.

    Raises:
        RuntimeError: a process ended, by a signal for instance, or could not start.
        Exception: whatever `function` raises.
    """
    context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork
    line, held = context.Pipe(duplex=False)  # only this process keeps the end `held`
    start = (line, pickle.dumps(function))
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
                "a process ended before its work was done; if memory is short, use fewer processes or smaller parts\n"
                f"Its last output:\n{_last_words(said)}"
            ) from None


def _start(line: Connection, function: bytes) -> None:
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the parent decides
    threading.Thread(target=_end_with, args=(line,), daemon=True).start()
    _function = pickle.loads(function)  # trusted: our own. After the thread's start, so that it ends with its parent


def _call(item: Any) -> Any:
    return _function(item)


def _end_with(line: Connection) -> None:
    line.poll(None)  # nothing is ever sent: this returns when the other end closes for any reason
    files.remove_temporary()
    os._exit(0)


@contextlib.contextmanager
def _as_seen_by_processes(said: BinaryIO) -> Iterator[None]:
    """Processes started in this block see no GPU, and write stderr (TensorFlow logs a lot) to `said`."""
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

"""Runs a function on many items in several processes, which end when their parent ends."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from keras_bert import files

Item = TypeVar("Item")
Result = TypeVar("Result")

_SECONDS_TO_WAIT = 0.1  # for results
# set in each started process
_function: Callable[[Any], Iterable[Any]]
_results: SimpleQueue


class KilledError(RuntimeError):
    """The error for a process that ended before its work was done. Its message ends with the last output."""


def in_processes(
    function: Callable[[Item], Iterable[Result]], items: Iterable[Item], processes: int
) -> Generator[Result, None, None]:
    """Yields what `function(item)` yields, for each item, as it comes. Function and results must be picklable."""
    # The processes, which see no GPU, end at once, and remove their temporary files, when the generator is closed,
    # fails or is interrupted, or when this process is killed. Each item and result is pickled alone: a few hundred
    # bytes. Raises errors of `function`, or KilledError if a process ended, by a signal for instance, or could not
    # start.
    context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork
    child_end, parent_end = context.Pipe(duplex=False)  # only this process holds `parent_end`
    with tempfile.TemporaryFile() as output, tempfile.NamedTemporaryFile() as pickled, contextlib.ExitStack() as stack:
        # Not among the arguments: of a process that dies at once, Python would wait for a reader of more than 64 KiB.
        pickle.dump(function, pickled)
        pickled.flush()
        try:
            with _process_environment(output):  # also of the process that watches over the queues
                results = context.SimpleQueue()
                start = (child_end, results, pickled.name)
                pool = stack.enter_context(ProcessPoolExecutor(processes, context, initializer=_start, initargs=start))
                stack.enter_context(parent_end)  # closes before the pool does, and so ends the processes
                # Not `concurrent.futures.wait`: Ctrl-C while it locks many futures would leave them locked for ever.
                ended: queue.SimpleQueue[Future] = queue.SimpleQueue()
                futures = [pool.submit(_call, item) for item in items]
                for future in futures:
                    future.add_done_callback(ended.put)
            left = len(futures)
            while left:
                done = None
                with contextlib.suppress(queue.Empty):
                    done = ended.get(timeout=_SECONDS_TO_WAIT)
                while not results.empty():  # all results of the item that is done, and maybe others
                    yield results.get()
                if done is not None:
                    left -= 1
                    done.result()
        except BrokenProcessPool:
            raise KilledError(
                "a process ended before its work was done; if memory is short, use fewer processes or smaller parts\n"
                f"The last output of the processes:\n{_last_output(output)}"
            ) from None


def _start(child_end: Connection, results: SimpleQueue, pickled: str) -> None:
    global _function, _results
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process, but the parent ends them
    threading.Thread(target=_exit_with_parent, args=(child_end,), daemon=True).start()
    # Safe: `in_processes` pickled it. Unpickled after the thread's start, so that a hang here ends with the parent.
    _function, _results = pickle.loads(Path(pickled).read_bytes()), results


def _call(item: Any) -> None:
    for result in _function(item):
        _results.put(result)


def _exit_with_parent(child_end: Connection) -> None:
    child_end.poll(None)  # nothing is ever sent: this returns when the other end closes
    files.remove_temporary()
    os._exit(0)


@contextlib.contextmanager
def _process_environment(output: BinaryIO) -> Iterator[None]:
    """Hides GPUs from processes started in a block, and sends their stderr to `output`: TensorFlow logs a lot."""
    sys.stderr.flush()
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        with files.stderr_to(output):
            yield
    finally:
        del os.environ["CUDA_VISIBLE_DEVICES"]
        if gpus is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = gpus


def _last_output(output: BinaryIO) -> str:
    output.seek(max(0, output.seek(0, os.SEEK_END) - 2000))
    return output.read().decode(errors="replace").strip()

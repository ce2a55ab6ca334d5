"""What stays in memory."""

import gc
import re
from collections.abc import Callable
from pathlib import Path


def most_memory() -> int:
    """The most bytes that this process has had; unlike `ru_maxrss`, without those of the one that started it."""
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def graphs_kept(run: Callable[[], None]) -> int:
    """The number of TensorFlow's graphs that stay when all that `run` has made is gone; each holds its weights."""
    run()  # what it makes only once, such as compiled functions of a library
    before = _graphs()
    run()
    return max(_graphs() - before, 0)  # graphs of other tests may go meanwhile


def _graphs() -> int:
    gc.collect()
    return sum(type(each).__name__ == "FuncGraph" for each in gc.get_objects())

"""Timing of things that compete: interleaved rounds, ratios of each round, and what is installed."""

import contextlib
import importlib.metadata
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def versions(names: Iterable[str]) -> str:
    """`a 1.0, b 2.1`, for those of the distributions that are installed."""
    found = []
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(found)


def interleave(jobs: dict[str, Callable[[], float]], rounds: int, pause: float = 0.2) -> dict[str, list[float]]:
    """Runs every job once a round, so that a slow moment of the machine hits all of them alike.

    Args:
        jobs: each does its work and returns a rate, in whatever unit.
        rounds: how often.
        pause: seconds before each job, in which the threads of the one before stop spinning.

    Returns:
        The rates of each job, one a round.
    """
    rates: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(1, rounds + 1):
        print(f"round {number} of {rounds}", flush=True)
        for name, job in jobs.items():
            time.sleep(pause)
            rates[name].append(job())
    return rates


def rate(work: Callable[[], object], amount: float) -> float:
    """`amount` per second."""
    start = time.perf_counter()
    work()
    return amount / (time.perf_counter() - start)


def ratios(rates: list[float], base: list[float]) -> str:
    """`median (min..max)` of the ratios within each round."""
    values = [rate / one for rate, one in zip(rates, base, strict=True)]
    return f"{statistics.median(values):.2f} ({min(values):.2f}..{max(values):.2f})"


class Elsewhere:
    """Work in a process of its own, perhaps of another Python: call it with what to do, and it returns a rate.

    So contestants do not have one another's threads and memory, and may need different versions of a library.

    Args:
        command: of a process that does `answer_calls`.
        wait: whether to wait until it is ready; else `wait()` does, when others have been started that it needs.

    Raises:
        ImportError: it has not got what it needs.
    """

    def __init__(self, command: list[str], wait: bool = True) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if wait:
            self.wait()

    def wait(self) -> None:
        if missing := self._answer():
            raise ImportError(missing)

    def __call__(self, what: str) -> float:
        self.ask(what)
        return self.answer()

    def ask(self, what: str) -> None:
        print(what, file=self._process.stdin, flush=True)

    def answer(self) -> float:
        return float(self._answer())

    def _answer(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self._process.args)} has ended: {self._process.wait()}")
        return line.strip()


def answer_calls(make: Callable[[], Callable[[str], float]]) -> None:
    """The other end of `Elsewhere`, until that one ends.

    Args:
        make: gives what does the work.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed goes to standard error
    try:
        work = make()
    except ImportError as error:
        print(error, file=answers, flush=True)
        return
    print(file=answers, flush=True)
    for line in sys.stdin:
        print(work(line.strip()), file=answers, flush=True)

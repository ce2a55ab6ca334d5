"""What the benchmarks share: their options, their heading and table, and the timing of things that compete."""

import argparse
import contextlib
import csv
import datetime
import importlib.metadata
import importlib.util
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

MINILM = "all-MiniLM-L6-v2"
DATA = Path(__file__).parents[2] / "shared/data"  # beside the checkout; each script that reads it has --data
# A flag of the processor in /proc/cpuinfo -> its name in the heading.
FLAGS = {"avx512f": "AVX512", "avx512_vnni": "AVX512_VNNI", "avx512_bf16": "AVX512_BF16", "amx_tile": "AMX"}


class MissingError(Exception):
    """Something that a benchmark needs is not there: data, a library, or a program."""


def run(main: Callable[[], None]) -> None:
    """Runs a script. With `--small`, one line says what is missing, and the status is 0."""
    try:
        main()
    except (MissingError, ImportError) as error:
        if is_ours(error):
            raise
        if "--small" not in sys.argv:
            sys.exit(str(error))
        print(f"left out: {error}", flush=True)


def options(text: str, **defaults: Any) -> argparse.ArgumentParser:
    """Makes a parser of options of these names.

    Args:
        text: what the script does, and what its options are for.
        defaults: have the type of what is given. A list means one or more; of strings, one or more of these. False
            means a flag.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        several = isinstance(default, list)
        kind = type(default[0] if several else default)
        settings: dict[str, Any] = {"action": "store_true"} if kind is bool else {"type": kind, "default": default}
        if several:
            settings |= {"nargs": "+", "choices": default if kind is str else None}
        parser.add_argument("--" + name.replace("_", "-"), **settings)
    return parser


def one_of(names: Iterable[str]) -> Callable[[str], str]:
    """The type of an argument that may be given several times, or not at all."""

    def check(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of: {', '.join(names)}")
        return text

    return check


def is_ours(error: Exception) -> bool:
    """Whether an import failed by a mistake in this repository."""
    return str(getattr(error, "name", None)).startswith(("keras_bert", "_"))


def parse(parser: argparse.ArgumentParser, **small: object) -> argparse.Namespace:
    """Adds `--small` to the options, and reads them.

    Args:
        parser: with the script's own options.
        small: the defaults of options with `--small`.
    """
    parser.add_argument("--small", action="store_true", help="a short run, which shows that all works")
    if "--small" in sys.argv:
        parser.set_defaults(**small)
    return parser.parse_args()


def need(*paths: Path) -> None:
    """Raises MissingError if a file or folder of the data is not there."""
    for path in paths:
        if not path.exists():
            raise MissingError(f"there is no {path}: say where the data is, --data DIR")


def need_library(module: str) -> None:
    """Raises MissingError if a module, which another process is to import, is not there."""
    if importlib.util.find_spec(module) is None:
        raise MissingError(f"there is no {module}: install it, or the extras that CONTRIBUTING.md names")


def text_files(folder: Path, is_small: bool) -> list[Path]:
    """Returns the .txt files of a folder; if the run is small, the smallest alone."""
    files = sorted(folder.glob("*.txt"))
    if not files:
        raise MissingError(f"there are no .txt files in {folder}: say where texts are, --data FOLDER")
    return [min(files, key=os.path.getsize)] if is_small else files


def stsb_rows(*parts: str) -> list[list[str]]:
    """Returns the rows of parts of the STS benchmark: two sentences and a score."""
    paths = [DATA / f"stsb/stsb-en-{part}.csv" for part in parts]
    need(*paths)
    return [row for path in paths for row in csv.reader(path.read_text("utf-8").splitlines())]


def sentences(count: int, *parts: str) -> list[str]:
    """Returns so many sentences of parts of the STS benchmark, at equal distances."""
    found = [text for row in stsb_rows(*parts) for text in row[:2]]
    return [found[i * len(found) // count] for i in range(min(count, len(found)))]


def heading(libraries: Iterable[str]) -> None:
    """Prints two paragraphs: the command; and date, commit, machine, and versions of the libraries installed.

    Args:
        libraries: names of distributions.
    """
    command = shlex.join(["python", os.path.relpath(sys.argv[0], Path(__file__).parents[1]), *sys.argv[1:]])
    print(f"`{command}`\n", flush=True)
    parts = [f"{datetime.date.today()}", commit(), machine(), f"Python {platform.python_version()}"]
    print("; ".join(filter(None, [*parts, versions(libraries)])), end="\n\n", flush=True)


def table(columns: Iterable[object], rows: Iterable[Iterable[object]]) -> None:
    """Prints a Markdown table between empty lines, each row as soon as it is there.

    Args:
        columns: their names.
        rows: with a cell for each column.
    """
    columns = list(columns)
    print(f"\n{_line(columns)}\n|{'---|' * len(columns)}", flush=True)
    for row in rows:
        print(_line(row), flush=True)
    print(flush=True)


def _line(cells: Iterable[object]) -> str:
    texts = (str(cell).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(texts)} |"


def growth(work: Callable[[], object]) -> int:
    """Bytes by which this process grows at its highest, while it works. Needs Linux."""

    def size(field: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))

    Path("/proc/self/clear_refs").write_text("5")  # the highest so far becomes the present
    before = size("VmRSS")
    work()
    return size("VmHWM") - before


def commit(folder: Path = Path(__file__).parent) -> str:
    """Returns the commit of a folder, with a `+` if tracked files differ from it; "" outside of git."""
    try:
        name, changes = (
            subprocess.run(["git", "-C", str(folder), *what], capture_output=True, text=True, check=True).stdout.strip()
            for what in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return name + ("+" if changes else "")


def machine() -> str:
    """Says the processor, the cores that this process may use, the load before it, and flags of the processor."""
    known = {}
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        known = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in file)}
    flags = known.get("flags", "").split()
    names = [name for flag, name in FLAGS.items() if flag in flags]
    model = known.get("model name") or platform.processor() or platform.machine()
    return ", ".join([model, f"{cores()} cores", f"load {os.getloadavg()[0]:.1f}", *names])


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


def interleave(
    jobs: dict[str, Callable[[], float]], rounds: int, warm: bool = False, pause: float = 0.2
) -> dict[str, list[float]]:
    """Runs every job once a round, so that a slow moment of the machine hits all of them alike.

    Args:
        jobs: each does its work and returns a rate, in whatever unit.
        rounds: how often.
        warm: whether a round comes before that does not count, so that all graphs are there.
        pause: seconds before each job, in which the threads of the one before stop spinning.

    Returns:
        The rates of each job, one a round.
    """
    rates: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(1 - warm, rounds + 1):
        print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
        for name, job in jobs.items():
            time.sleep(pause)
            rates[name].append(job())
    return {name: each[warm:] for name, each in rates.items()}


def race(
    jobs: dict[str, Callable[[], float]],
    rounds: int,
    base: str | Iterable[str] = (),
    digits: int = 0,
    warm: bool = True,
) -> Iterator[list[str]]:
    """Interleaves jobs, and yields a row for each: its name, its median rate, and its ratios to that of `base`.

    Args:
        jobs, rounds, warm: of `interleave`.
        base: the name of a job; or names, of which the fastest counts; by default, the fastest of all.
        digits: of rates, behind the point.
    """
    rates = interleave(jobs, rounds, warm)
    if not base or not isinstance(base, str):
        base = max(base or jobs, key=lambda name: statistics.median(rates[name]))
    for name, each in rates.items():
        yield [name, f"{statistics.median(each):,.{digits}f}", ratios(each, rates[base])]


def rate(work: Callable[[], object], amount: float) -> float:
    """`amount` per second."""
    start = time.perf_counter()
    work()
    return amount / (time.perf_counter() - start)


def ratios(rates: list[float], base: list[float]) -> str:
    """`median (min..max)` of the ratios within each round."""
    values = [rate / one for rate, one in zip(rates, base, strict=True)]
    return f"{statistics.median(values):.2f} ({min(values):.2f}..{max(values):.2f})"


def in_new_process(code: str, *arguments: object, **environment: str) -> str:
    """Runs Python code, which can import these scripts, and returns the last line that it prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=_environment() | environment)
    if done.returncode:
        raise RuntimeError(f"this code failed: {code}\n{done.stderr.strip()}")
    return done.stdout.strip().rpartition("\n")[2]


def _environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}


class Elsewhere:
    """Work in a process of its own, perhaps of another Python: call it with what to do, and it returns a rate.

    So contestants do not have one another's threads and memory, and may need different versions of a library.

    Args:
        module, function, arguments: the function of one of these scripts that gives what does the work, as
            `answer_calls` takes it, and its arguments.
        python: that runs it.
        before: what comes before that in the command.
        wait: whether to wait until it is ready; else `wait()` does, when others have been started that it needs.
        environment: further variables.

    Raises:
        MissingError: it has not got what it needs.
    """

    def __init__(
        self, module: str, function: str, *arguments: object, python: str = sys.executable, before: Iterable[str] = (),
        wait: bool = True, **environment: str,
    ) -> None:  # fmt: skip
        code = f"import _measure, {module}; _measure.answer_calls({module}.{function}, *{arguments!r})"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": _environment() | environment}
        self._process = subprocess.Popen([*before, python, "-c", code], text=True, **pipes)
        if wait:
            self.wait()

    def wait(self) -> None:
        if missing := self._answer():
            raise MissingError(missing)

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


def answer_calls(make: Callable[..., Callable[[str], float]], *arguments: object) -> None:
    """The other end of `Elsewhere`, until that one ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed goes to standard error
    try:
        work = make(*arguments)
    except ImportError as error:
        print(error, file=answers, flush=True)
        return
    print(file=answers, flush=True)
    for line in sys.stdin:
        print(work(line.strip()), file=answers, flush=True)


def present(starts: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Returns what each start gives, and says which are left out, because something that they need is missing."""
    found = {}
    for name, start in starts.items():
        try:
            found[name] = start()
        except (ImportError, MissingError) as error:
            if is_ours(error):
                raise
            print(f"left out: {name} ({error})", file=sys.stderr, flush=True)
    return found

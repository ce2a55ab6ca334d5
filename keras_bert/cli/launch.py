"""Run a training command in several processes of this machine.

COMMAND is finetune, pretrain or distill, with its options; the processes train one model together. They find each
other through the variable TF_CONFIG. Each line of output begins with the number of its process. If a process fails
or is killed, all restart from the last checkpoint. For several machines, see examples/cluster.

\b
Example:
  $ keras-bert launch --workers 2 -- finetune classify --train train.csv --output my-model
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import click

from keras_bert.cli.terminal import Misuse, echo, end_the_command, resumable
from keras_bert.counted import visible
from keras_bert.files import RUN, STATE

_MISUSE = 2  # an exit code: the command would fail again if it were restarted
_SECONDS_TO_END = 10
_PR_SET_PDEATHSIG = 1  # Linux: a process gets a signal when its parent ends
_TRAIN = ("finetune", "pretrain", "distill")


@click.command(context_settings={"ignore_unknown_options": True}, help=__doc__)
@click.option("--workers", type=click.IntRange(1), required=True, help="The number of processes.")
@click.option(
    "--restarts", type=click.IntRange(0), default=3, help="The number of restarts after a process has failed."
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def launch(workers: int, restarts: int, command: tuple[str, ...]) -> None:
    if command[0] not in _TRAIN:
        raise Misuse(f"launch runs {', '.join(_TRAIN)}, not {command[0]}")
    old_state = _identify_state(command)
    for attempt in range(restarts + 1):
        failure = _run(workers, command)
        if old_state is None or _identify_state(command) != old_state:  # else no worker has removed the old run yet
            command = tuple(each for each in command if each != "--overwrite")  # it would remove the new run
        if failure is None:
            return
        number, code = failure
        reason = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        if code == _MISUSE or attempt == restarts:
            echo(f"worker {number} {reason}; all workers ended", err=True)
            sys.exit(code if code > 0 else 128 - code)
        echo(f"worker {number} {reason}; all resume from the last checkpoint", err=True)


def _identify_state(command: tuple[str, ...]) -> tuple[int, int] | None:
    """Tells the states of runs in the command's output apart; None if there is none."""
    words = [word for each in command for word in (each.split("=", 1) if each.startswith("--output=") else [each])]
    try:
        status = Path(dict(itertools.pairwise(words)).get("--output", ""), RUN, STATE).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _run(workers: int, command: tuple[str, ...]) -> tuple[int, int] | None:
    """Runs the command. Returns the number and the exit code of the first worker that failed; None if all succeed."""
    processes: list[subprocess.Popen] = []
    with end_the_command(
        clean_up=lambda: _end(processes), message=resumable("the run", "add --overwrite", ", all workers ended")
    ):
        threads = _start(workers, command, processes)
        failure = _first_failure(processes)
        _end(processes)
    for thread in threads:
        thread.join()
    return failure


def _start(workers: int, command: tuple[str, ...], processes: list[subprocess.Popen]) -> list[threading.Thread]:
    """Starts the processes, and the threads that copy their output to this process's."""
    cluster = {"worker": [f"localhost:{port}" for port in _free_ports(workers)]}
    threads = []
    for number in range(workers):
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": number}})
        process = subprocess.Popen(
            [sys.executable, "-m", "keras_bert.cli", *command],
            env={**os.environ, "TF_CONFIG": config},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C reaches only this process, which ends the workers
            preexec_fn=_end_with_parent,
        )
        processes.append(process)
        for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            threads.append(threading.Thread(target=_copy_lines, args=(f"[{number}] ", source, target), daemon=True))
            threads[-1].start()
    return threads


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("localhost", 0))
        return [each.getsockname()[1] for each in sockets]


def _copy_lines(prefix: str, source: IO[str], target: IO[str]) -> None:
    for line in source:
        target.write(f"{prefix}{visible(line) if target.isatty() else line}")
        target.flush()


def _first_failure(processes: list[subprocess.Popen]) -> tuple[int, int] | None:
    """Waits until a process fails, and returns its number and exit code, or until all succeed, and returns None."""
    while True:
        codes = [process.poll() for process in processes]
        failures = [(number, code) for number, code in enumerate(codes) if code]
        if failures:
            # A killed process, which has a negative code, comes first: its end made the others fail.
            return min(failures, key=lambda each: each[1])
        if all(code == 0 for code in codes):
            return None
        time.sleep(0.1)


def _end(processes: list[subprocess.Popen]) -> None:
    """Terminates the running processes, and kills those that take longer than `_SECONDS_TO_END`."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + _SECONDS_TO_END
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

"""Runs Python programs in processes that begin with TensorFlow imported: its import takes longer than most of them.

One process imports it, and forks for each program. `python` and `keras-bert` in `commands()` are clients, to be found
on PATH: they hand over their arguments, environment, directory and standard streams, pass signals on, and end as the
program ends. A program with other variables that matter to the import runs in a Python of its own, as does one from
standard input.

Tests of what the import itself does, or of what SIGKILL leaves behind, start Python as usual.
"""

import atexit
import contextlib
import functools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OF_THE_IMPORT = ("CUDA_", "JAX_", "KERAS_", "LANG", "LC_", "OMP_", "PYTHON", "TF_", "XLA_")
_LATER = ("TF_CONFIG", "PYTHONPATH")  # the first is read when a strategy is made; the tree is found in any case
_REFUSED = 1000  # in place of an exit code
_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}  # whatever a test changes later


@functools.cache
def commands() -> Path:
    """The directory with `python` and `keras-bert`, which goes when this process ends."""
    directory = Path(tempfile.mkdtemp(prefix="warm-"))
    for name, first in (("python", ""), ("keras-bert", "-m keras_bert.cli")):
        client = f'#!/bin/sh\nexec {sys.executable} -SE {__file__} run {directory}/socket {first} "$@"\n'
        (directory / name).write_text(client)
        (directory / name).chmod(0o755)
    command = [sys.executable, __file__, "serve", str(directory / "socket")]
    # The pipe to it closes when this process ends, however that happens.
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_ENVIRONMENT)
    assert server.stdout.readline() == b"ready\n"
    atexit.register(server.communicate)
    return directory


def _run(address: str, arguments: list[str]) -> None:
    """The client: ends as the program does."""
    if arguments and (arguments[0] in ("-m", "-c") or not arguments[0].startswith("-")):
        ignored = [number for number in _SIGNALS if signal.getsignal(number) == signal.SIG_IGN]
        request = {"arguments": arguments, "environment": dict(os.environ), "cwd": os.getcwd(), "ignored": ignored}
        server = socket.socket(socket.AF_UNIX)
        server.connect(address)
        message = json.dumps(request).encode()
        socket.send_fds(server, [len(message).to_bytes(4, "little")], [0, 1, 2])
        server.sendall(message)
        for number in set(_SIGNALS) - set(ignored):
            signal.signal(number, lambda number, _: server.send(bytes([number])))
        answer = server.recv(4, socket.MSG_WAITALL)
        assert answer, "the process that has imported TensorFlow is gone"
        code = int.from_bytes(answer, "little", signed=True)
        if code < 0:
            with contextlib.suppress(OSError):  # SIGKILL has no handler
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        if code != _REFUSED:
            os._exit(code)
    os.execv(sys.executable, [sys.executable, *arguments])


def _serve(address: str) -> list[str]:
    """The server: returns the arguments of a program in each process that is to run one."""
    import gc

    gc.disable()
    import tensorflow_text  # noqa: F401

    import keras_bert.cli
    import keras_bert.training  # noqa: F401
    from keras_bert import BertClassifier  # noqa: F401  and with it all tasks

    gc.freeze()
    gc.enable()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # the line closes when the tests end
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if listener not in ready:
            shutil.rmtree(os.path.dirname(address))
            os._exit(0)
        client, _ = listener.accept()
        if not os.fork():
            listener.close()
            return _watch(client)
        client.close()


def _watch(client: socket.socket) -> list[str]:
    """Starts a program, and returns its arguments in its process. This one tells the client how the program ends."""
    size, streams, _, _ = socket.recv_fds(client, 4, 3)
    request = json.loads(client.recv(int.from_bytes(size, "little"), socket.MSG_WAITALL))
    if _of_the_import(request["environment"]) != _of_the_import(_ENVIRONMENT):
        client.sendall(_REFUSED.to_bytes(4, "little"))
        os._exit(0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    program = os.fork()
    if not program:
        client.close()
        _become(request, streams)
        return request["arguments"]
    for stream in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(program)
    while True:
        ready, _, _ = select.select([ended, client], [], [])
        if ended in ready:
            _, status = os.waitpid(program, 0)
            client.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "little", signed=True))
            os._exit(0)
        number = client.recv(1)
        os.kill(program, number[0] if number else signal.SIGKILL)


def _of_the_import(environment: dict[str, str]) -> dict[str, str]:
    matter = (name for name in environment if name.startswith(_OF_THE_IMPORT) and name not in _LATER)
    return {"KERAS_BACKEND": "tensorflow"} | {name: environment[name] for name in matter}


def _become(request: dict, streams: list[int]) -> None:
    """Makes this process what a new one would be."""
    import random

    import numpy as np

    for number in _SIGNALS:
        handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in request["ignored"] else handler)
    for stream, given in enumerate(streams):
        os.dup2(given, stream)
        os.close(given)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    tempfile.tempdir = None
    random.seed()
    np.random.seed()
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115


def _be(arguments: list[str]) -> None:
    """Runs a program as `python` does."""
    import runpy

    first, *rest = arguments
    if first == "-m":
        sys.argv, sys.path[0] = rest, os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv, sys.path[0] = arguments, os.path.dirname(os.path.abspath(first))
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    if sys.argv[1] == "run":
        _run(sys.argv[2], sys.argv[3:])
    else:
        _be(_serve(sys.argv[2]))

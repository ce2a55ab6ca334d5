"""Runs `keras-bert ...` and `python FILE ...` of pages and examples in forks of a process that has imported TensorFlow.

The import takes more processor time than most of these programs. Tests of the import, of signals, and of what a killed
process leaves start Python itself.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import re
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path


@functools.cache
def commands() -> Path:
    """Starts that process. Returns a directory with `python` and `keras-bert`, for the front of PATH."""
    folder = Path(tempfile.mkdtemp(prefix="forking-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, first in (("python", ""), ("keras-bert", "-m keras_bert.cli")):
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} -SE {__file__} {folder}/socket {first} "$@"\n')
        (folder / name).chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, __file__, folder / "socket", "--serve"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert process.stdout.readline() == b"ready\n"
    return folder


def _serve(server: socket.socket) -> None:
    """Forks for each program; returns in its process. Ends when standard input closes: then the tests are over."""
    while sys.stdin not in select.select([server, sys.stdin], [], [])[0]:
        client, _ = server.accept()
        if not os.fork():
            request, streams, *_ = socket.recv_fds(client, 2**20, 3)
            if program := os.fork():
                if client in select.select([client, os.pidfd_open(program)], [], [])[0]:
                    os.kill(program, signal.SIGTERM)  # somebody ended the client
                code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
                with contextlib.suppress(OSError):  # or killed it
                    client.send(b"%d" % code)
                os._exit(0)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            sys.argv, folder, environment = json.loads(request)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            tempfile.tempdir = None
            return
        client.close()
    os._exit(0)


if __name__ == "__main__":
    address, *arguments = sys.argv[1:]
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if arguments == ["--serve"]:
        LighterImports = importlib.import_module("keras_bert.extras").LighterImports
        LighterImports.libraries -= {"pandas"}  # Keras's `fit` slices data frames
        sys.meta_path.insert(0, LighterImports)
        for module in ("tensorflow_text", "keras_bert.cli.__main__", "keras_bert.search", "matplotlib.figure"):
            importlib.import_module(module)
        importlib.import_module("keras_bert.training.report").check_installed()  # and what it needs
        del sys.modules["keras_bert.cli.__main__"]  # which `-m` runs
        sys.meta_path.remove(LighterImports)
        gc.freeze()  # else each program's garbage collector would go through all that was imported
        server.bind(address)
        server.listen()
        print("ready", flush=True)
        _serve(server)
        if sys.argv[0] == "-m":
            del sys.argv[0]
            if re.match(os.environ.get("UNTRACED", "$"), " ".join(sys.argv[1:])):
                sys.modules["tensorflow"].config.run_functions_eagerly(True)
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
            runpy.run_path(sys.argv[0], run_name="__main__")
    elif not arguments or arguments[0] == "-c" or os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow":
        os.execv(sys.executable, [sys.executable, *arguments])
    else:
        server.connect(address)
        socket.send_fds(server, [json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode()], [0, 1, 2])
        signal.signal(signal.SIGTERM, lambda *_: server.shutdown(socket.SHUT_WR))
        sys.exit(int(server.recv(8)))

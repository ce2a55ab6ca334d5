"""Runs commands, each in a forked process in which an import of TensorFlow, Keras or PyTorch ends the command.

Reads a JSON list of commands from standard input; writes a JSON list of `[exit code, standard error]`.
"""

import importlib
import io
import json
import os
import sys
import tempfile

from keras_bert.cli import main

HEAVY = ("tensorflow", "tensorflow_text", "keras", "torch")


class _Refused(BaseException):
    """Not an ImportError, which the command would explain."""


class _Refuse:
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in HEAVY:
            raise _Refused(f"{name} is imported")


def _outcome(command: list[str]) -> tuple[int, str]:
    with tempfile.TemporaryFile() as error:
        if not (child := os.fork()):
            os.dup2(error.fileno(), 2)
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            sys.stdin = io.StringIO("a cat\n")
            code = 0
            try:
                main(command, prog_name="keras-bert")
            except SystemExit as end:
                code = end.code
            except BaseException as problem:
                os.write(error.fileno(), f"{type(problem).__name__}: {problem}".encode())
                code = 1
            os._exit(code)
        _, status = os.waitpid(child, 0)
        error.seek(0)
        return os.waitstatus_to_exitcode(status), error.read().decode()


if __name__ == "__main__":
    sys.meta_path.insert(0, _Refuse())
    for name in ("tasks.registry", "search", "embedding"):  # once, not in each process
        importlib.import_module(f"keras_bert.{name}")
    json.dump([_outcome(command) for command in json.load(sys.stdin)], sys.stdout)

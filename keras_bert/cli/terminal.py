"""Keeps a command's terminal quiet: errors and warnings in one line each, no logs, a clean end at Ctrl-C."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

import click
from click.core import ParameterSource

from keras_bert import files
from keras_bert.counted import visible
from keras_bert.extras import needing_tensorflow_text


class Failure(click.ClickException):
    """An error of the system, of files for instance: one line on standard error, exit code 1."""

    def __init__(self, message: str) -> None:
        super().__init__(with_options(message))

    def show(self, file: IO[Any] | None = None) -> None:
        with contextlib.suppress(OSError):  # of a terminal that is gone: the exit code still tells
            super().show(file)

    def format_message(self) -> str:
        return visible(self.message, kept="\t")  # it may quote a file


class Misuse(Failure):
    """An error that the user can correct: one line on standard error, exit code 2."""

    exit_code = 2


@contextlib.contextmanager
def misuse(*error_types: type[Exception]) -> Iterator[None]:
    """Turns ImportError, ValueError and `error_types`, in this block, into Misuse with a one-line message."""
    try:
        with needing_tensorflow_text("this command"):
            yield
    except (ImportError, ValueError, *error_types) as error:
        raise Misuse(one_line(error)) from error


# An argument of Python -> what messages advise with it.
_ADVICE = {
    "skip_bad": r", or leave them out with skip_bad",
    "header": r"; if its first line is an example[^;]*",
    "sheet": r"; choose another with sheet='[^']*'",
    "format": r"; choose the format [^;]*|, or read the file as tsv[^;]*",
}


def without_advice(message: str, arguments: Collection[str] = tuple(_ADVICE)) -> str:
    """Leaves out what messages advise with these arguments, for a command that does not have them as options."""
    for each in _ADVICE.keys() & arguments:
        message = re.sub(_ADVICE[each], "", message)
    return message


def with_options(message: str) -> str:
    """Names the command's options in place of Python's arguments: `skip_bad` or `add=True` become --skip-bad, --add."""
    context = click.get_current_context(silent=True)
    if context is None:
        return message
    parameters = context.command.params
    given = {each.name for each in parameters if "tsv" in getattr(each.type, "choices", ["tsv"])}  # of tables
    message = without_advice(message, _ADVICE.keys() - given)
    for parameter in parameters:
        option = next((name for name in parameter.opts if name.startswith("--")), None)
        if option is not None and parameter.name is not None:
            message = re.sub(rf"\b{parameter.name}=True\b", option, message)
            message = re.sub(rf"\b{parameter.name}='(\w+)'", rf"{option} \1", message)
            if "_" in parameter.name:
                message = re.sub(rf"(?<!['\w]){parameter.name}\b(?!['\w])", option, message)
    return message + _column_advice(message, context)


def _column_advice(message: str, context: click.Context) -> str:
    """Names the option that chooses a column, if a file lacks the one that is the default."""
    lacking = re.search(r"no column '(\w+)'; its columns are (?!.*; did you mean)", message)
    for parameter in context.command.params if lacking else ():
        name = parameter.name or ""
        default = parameter.default if isinstance(parameter.default, str) else name.removesuffix("_column")
        is_default = context.get_parameter_source(name) in (None, ParameterSource.DEFAULT)
        if lacking and name.endswith("_column") and default == lacking[1] and is_default:
            return f"; choose one with {parameter.opts[0]}"
    return ""


def one_line(error: Exception) -> str:
    """Formats an exception's message as one line; an error of the system gets the file's name."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


_ELSEWHERE = ("output", "destination", "directories")  # parameters of commands whose result is no text


def echo(text: str, err: bool = False) -> None:
    """Prints a line of a command's own words, with names from files; `streams.write_lines` writes its results."""
    try:
        click.echo(visible(text, kept="\t"), err=err)
    except OSError as error:
        context = click.get_current_context(silent=True)
        goes_elsewhere = context is not None and any(context.params.get(name) for name in _ELSEWHERE)
        if error.errno != errno.EBADF or not goes_elsewhere:
            raise  # else standard output is closed, and this line only speaks of what the command does


def open_standard_streams() -> None:
    """Takes the places of closed standard streams, which files would get: input and output fail, errors are dropped."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_WRONLY)
            os.set_inheritable(descriptor, descriptor == number)
            if name != "stdin":  # whose readers look whether it is there
                setattr(sys, name, os.fdopen(descriptor, "w", encoding="utf-8", closefd=False))


def drop_unwritten_output() -> None:
    """Drops what standard output could not take. An error has said so; Python would say it again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


@contextlib.contextmanager
def errors_in_one_line(output: str | Path) -> Iterator[None]:
    """Turns errors while a directory is written, in this block, into one line with the directory's name."""
    import tensorflow as tf

    with misuse(OSError):
        try:
            yield
        except tf.errors.OpError as error:  # "{{...}} /path/of/a/hidden/file; No space left on device [Op:SaveV2]"
            reason = error.message.rpartition("; ")[2].partition(" [")[0]
            raise Failure(f"{output}: {reason}") from error
        except OSError as error:
            if error.strerror:  # an error of the system, such as a full disk
                raise Failure(f"{error.filename or output}: {error.strerror}") from error
            raise


@contextlib.contextmanager
def quiet_imports() -> Iterator[None]:
    """Silences the logs of TensorFlow and CUDA, in this block and later, unless TF_CPP_MIN_LOG_LEVEL is 0."""
    # A command imports TensorFlow in such a block, whatever imports it first: see `__main__.py`.
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0":
        yield
        return
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # 2 would show CUDA's errors on machines without a GPU
    for name in ("tensorflow", "absl"):  # the logs of Python code
        logging.getLogger(name).setLevel(logging.ERROR)
    # TensorFlow ignores the log level during its import, so the file descriptor is redirected.
    with open(os.devnull, "wb") as null, files.stderr_to(null):
        yield


@contextlib.contextmanager
def python_warnings() -> Iterator[None]:
    """Shows warnings of this package in one line each, and hides those of other packages, in this block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=UserWarning, module=r"keras_bert\.")
        warnings.showwarning = _show_warning
        yield


def _show_warning(message: Warning | str, *_: object) -> None:
    from tqdm import tqdm

    with tqdm.external_write_mode():  # clears a progress bar first
        echo(f"Warning: {with_options(str(message))}", err=True)


ARGUMENTS = "keras_bert.arguments"  # the key of the command line's words in click's `Context.meta`


def resumable(unfinished: str, advice: str, position: str = "") -> str:
    """Formats the message of an interruption, with the command line that resumes the work."""
    words = click.get_current_context().meta[ARGUMENTS]
    command = shlex.join(["keras-bert", *(word for word in words if word != "--overwrite")])
    return f"Interrupted{position}; {unfinished} is unfinished. To begin anew, {advice}; to resume, run: {command}"


@contextlib.contextmanager
def end_the_command(
    clean_up: Callable[[], None] = lambda: None, message: str = "Interrupted; no file was written."
) -> Iterator[None]:
    """Ends the process at SIGINT or SIGTERM in this block, with exit code 128 + the signal's number."""
    # It ends in the signal handler, because TensorFlow swallows KeyboardInterrupt while it imports or traces.
    stderr = os.dup(2)  # `quiet_imports` redirects 2 to /dev/null

    def handle(number: int, frame: FrameType | None) -> None:
        clean_up()
        end(number, message, stderr)

    old_handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number, handler in old_handlers.items():
            if handler is not signal.SIG_IGN:  # it is ignored under nohup
                signal.signal(number, handle)
        yield
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
        os.close(stderr)


def end(number: int, message: str, stderr: int = 2) -> NoReturn:
    """Ends the process after a signal: removes temporary files, and writes a line to the file descriptor `stderr`."""
    files.remove_temporary()
    after_progress_bar = "\n" if os.isatty(stderr) else ""
    os.write(stderr, f"{after_progress_bar}{message}\n".encode())
    os._exit(128 + number)

"""Keeps logs and foreign warnings out of standard error."""

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator

import click

from keras_bert.cli.errors import visible


@contextlib.contextmanager
def imports() -> Iterator[None]:
    """Silences the logs of TensorFlow and CUDA, in this block and later, unless TF_CPP_MIN_LOG_LEVEL is 0."""
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0":
        yield
        return
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # 2 would show CUDA's errors on machines without a GPU
    for name in ("tensorflow", "absl"):  # the logs of Python code
        logging.getLogger(name).setLevel(logging.ERROR)
    # TensorFlow ignores the log level during its import, so the file descriptor is redirected.
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


@contextlib.contextmanager
def python_warnings() -> Iterator[None]:
    """Shows each warning of this package in one line, and hides those of other packages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=UserWarning, module=r"keras_bert\.")
        warnings.showwarning = _show_warning
        yield


def _show_warning(message: Warning | str, *_: object) -> None:
    from tqdm import tqdm

    with tqdm.external_write_mode():  # clears a progress bar first
        click.echo(f"Warning: {visible(str(message))}", err=True)

"""Keeps standard error for what the user should read."""

import contextlib
import os
import warnings
from collections.abc import Iterator

import click


@contextlib.contextmanager
def imports() -> Iterator[None]:
    """For importing TensorFlow, which logs what CPU and GPU it found. With TF_CPP_MIN_LOG_LEVEL=0 it may."""
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0":
        yield
        return
    # What it logs while it is being imported heeds no level: only the file descriptor helps.
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
    """Shows this package's own warnings in a line each. Other packages' deprecations are for programmers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=UserWarning, module=r"keras_bert\.")
        warnings.showwarning = _show_warning
        yield


def _show_warning(message: Warning | str, *_: object) -> None:
    from tqdm import tqdm

    with tqdm.external_write_mode():  # a progress bar steps aside
        click.echo(f"Warning: {message}", err=True)

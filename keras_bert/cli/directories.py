"""Output directories: checks before the work, and errors that name them."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from keras_bert.cli import quiet
from keras_bert.cli.errors import Misuse, misuse


def check(output: str | Path) -> None:
    """Raises Misuse if this directory cannot be created or written."""
    path = Path(output).absolute()
    try:
        existing = next(each for each in (path, *path.parents) if each.exists())
        tempfile.TemporaryDirectory(dir=existing).cleanup()
    except OSError as error:
        raise Misuse(f"cannot write into {output}: {error.strerror}") from error


@contextlib.contextmanager
def written(output: str | Path) -> Iterator[None]:
    """Around the writing of a directory: errors become one line, with its name."""
    with quiet.imports():
        import tensorflow as tf

    with misuse(OSError):
        try:
            yield
        except tf.errors.OpError as error:  # "{{...}} /path/of/a/hidden/file; No space left on device [Op:SaveV2]"
            reason = error.message.rpartition("; ")[2].partition(" [")[0]
            raise click.ClickException(f"{output}: {reason}") from error
        except OSError as error:
            if error.strerror:  # an error of the system, such as a full disk
                raise click.ClickException(f"{error.filename or output}: {error.strerror}") from error
            raise

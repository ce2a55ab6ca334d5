"""Errors that the user can correct, in one line."""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import click


class Misuse(click.ClickException):
    """An error that the user can correct: one line on standard error, exit code 2."""

    exit_code = 2

    def format_message(self) -> str:
        return visible(self.message)  # it may quote a file


@contextlib.contextmanager
def misuse(*more: type[Exception]) -> Iterator[None]:
    """In this block, ImportError, ValueError and `more` become Misuse, with the message in one line."""
    try:
        yield
    except (ImportError, ValueError, *more) as error:
        raise Misuse(one_line(error)) from error


def one_line(error: Exception) -> str:
    """An exception's message in one line; an error of the system with the file's name."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


def visible(text: str) -> str:
    """A text whose control characters, which a terminal would obey, are spelled out as in JSON; tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        f"\\u{ord(each):04x}" if unicodedata.category(each) == "Cc" and each not in "\t\n" else each for each in text
    )


@contextlib.contextmanager
def written(output: str | Path) -> Iterator[None]:
    """Around the writing of a directory: errors become one line, with its name."""
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

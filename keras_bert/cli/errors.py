"""Errors that the user can correct, in one line."""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Iterator

import click


class Misuse(click.ClickException):
    """An error that the user can correct: one line on standard error, exit code 2."""

    exit_code = 2

    def format_message(self) -> str:
        return visible(self.message)  # it may quote a file


@contextlib.contextmanager
def misuse(*more: type[Exception], **options: str) -> Iterator[None]:
    """In this block, ImportError, ValueError and `more` become Misuse, with the message in one line.

    `options`: a word of the message -> the option to name in its place.
    """
    try:
        yield
    except (ImportError, ValueError, *more) as error:
        message = one_line(error).replace("pass overwrite=True", "use --overwrite")
        for word, option in options.items():
            message = message.replace(word, option)
        raise Misuse(message) from error


def one_line(error: Exception) -> str:
    """An exception's message in one line."""
    return " ".join(str(error).split())


def visible(text: str) -> str:
    """A text whose control characters, which a terminal would obey, are spelled out as in JSON; tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        f"\\u{ord(each):04x}" if unicodedata.category(each) == "Cc" and each not in "\t\n" else each for each in text
    )

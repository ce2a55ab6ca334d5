"""Checks of errors and warnings by what they name: the argument, the value, the way out. Their wording is free."""

import contextlib
import re
import warnings
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def error_names(
    kind: type[BaseException] | tuple[type[BaseException], ...], *words: object
) -> Iterator[pytest.ExceptionInfo]:
    """Expects an error of this kind whose message has all these words and values, in any order."""
    with pytest.raises(kind) as raised:
        yield raised
    assert_names(str(raised.value), *words)


@contextlib.contextmanager
def warning_names(*words: object) -> Iterator[None]:
    """Expects a UserWarning that has all these words and values; other warnings are ignored."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    messages = [str(each.message) for each in caught if issubclass(each.category, UserWarning)]
    assert any(not _missing(message, words) for message in messages), f"no warning names {words}: {messages}"


def assert_names(message: str, *words: object) -> None:
    """Fails if a message lacks one of these words or values, each of them whole."""
    assert words, "name at least one word or value"
    assert not (missing := _missing(message, words)), f"the message does not name {missing}: {message}"


def _missing(message: str, words: tuple[object, ...]) -> list[str]:
    return [word for word in map(str, words) if not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", message)]

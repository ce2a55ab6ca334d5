"""Decodes files of examples: bytes -> text -> lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_text(path: str | Path) -> str:
    """A file's text, without a byte order mark. Line ends are as in the file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not UTF-8 (the message has the first bad line), or has nothing but white space.
    """
    raw = Path(path).read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # In some versions of Python, the codec utf-8-sig counts from behind the mark; this counts from the start.
        start = _first_bad_byte(raw)
        line, before = raw.count(b"\n", 0, start) + 1, raw.rfind(b"\n", 0, start) + 1
        likely = "UTF-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "WINDOWS-1252"
        raise ValueError(
            f"{path}, line {line}, is not UTF-8: bad byte {raw[start]:#04x} at byte {start - before} ({error.reason}); "
            f"convert the file first, for instance with iconv -f {likely} -t UTF-8"
        ) from None
    if not text.strip():
        raise ValueError(f"{path} is empty")
    return text


def _first_bad_byte(raw: bytes) -> int:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    raise AssertionError("called for bytes that are UTF-8")


def lines_of(text: str) -> list[str]:
    """Lines without their ends, `\\n` or `\\r\\n`.

    Not `str.splitlines`, which also splits at characters that may be in the middle of a text.

    Example:
        >>> lines_of("one\\u2028still one\\r\\n\\r\\nthree\\n")
        ['one\\u2028still one', '', 'three']
    """
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def json_object(line: str) -> dict[str, Any]:
    """The object in a line of JSON lines. Raises ValueError if there is none.

    Example:
        >>> json_object('{"text": "I love pizza"}')
        {'text': 'I love pizza'}
    """
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}, at character {error.colno}" if line.strip() else "blank") from None
    except RecursionError:
        raise ValueError("not JSON that can be read: too deep") from None
    if not isinstance(row, dict):
        raise ValueError(f"a JSON {type(row).__name__} instead of an object")
    return row


def one_text(value: str, name: str) -> str:
    """Returns `value`. Raises ValueError, with its `name`, if it is blank or has something that is no character."""
    if not value.strip():
        raise ValueError(f"{name} is empty")
    return characters(value, name)


def characters(value: str, name: str) -> str:
    """Returns `value`. Raises ValueError, with its `name`, if it has something that is no character."""
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON can spell it as \ud83d; TensorFlow could not read it
        raise ValueError(f"{name} has half of a surrogate pair, which is no character") from None
    return value

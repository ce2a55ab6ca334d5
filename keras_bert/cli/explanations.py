"""The output of `tokenize --explain`: coloured texts, and tables of their tokens."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

import click

from keras_bert.cli import streams

if TYPE_CHECKING:
    from keras_bert.text.explanation import ExplainedToken
    from keras_bert.text.tokenizer import Tokenizer

_HEADER = ("position", "type", "id", "token", "bytes", "characters", "text", "changed")
_COLOURS = ("cyan", "yellow")


def write(results: BinaryIO, tokenizer: Tokenizer, chunks: Iterable[list[str]]) -> None:
    """Writes each text (coloured on a terminal) and the table of its tokens."""
    from keras_bert.text.explanation import explain

    between: list[str] = []  # an empty line before each text but the first
    for chunk in chunks:
        for text, tokens in zip(chunk, explain(tokenizer, chunk), strict=True):
            line = _coloured(text, tokens) if results.isatty() else _shown(text)
            streams.write_lines(results, [*between, line, *_table(tokens)])
            between = [""]


def _coloured(text: str, tokens: Sequence[ExplainedToken]) -> str:
    parts, done, colours = [], 0, itertools.cycle(_COLOURS)
    for token in tokens:
        if token.token is None or token.character_span is None:
            continue
        start, end = token.character_span
        start = max(start, done)  # a character may be in several tokens
        if start < end:
            parts += [_shown(text[done:start]), click.style(_shown(text[start:end]), fg="black", bg=next(colours))]
            done = end
    return "".join([*parts, _shown(text[done:])])


def _table(tokens: Sequence[ExplainedToken]) -> Iterator[str]:
    rows = [_HEADER, *map(_row, tokens)]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = (f"{cell}{' ' * (width - _width(cell))}" for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _row(token: ExplainedToken) -> tuple[str, ...]:
    numbers = (token.position, token.type_id, token.id)
    spans = ("" if span is None else f"{span[0]}-{span[1]}" for span in (token.byte_span, token.character_span))
    position, type_id, id_ = ("" if number is None else str(number) for number in numbers)
    bytes_, characters = spans
    changes = ", ".join(map(_shown, token.changes))
    return (position, type_id, id_, _shown(token.token or ""), bytes_, characters, _shown(token.text), changes)


def _shown(text: str) -> str:
    """A text with code points in place of line ends and control characters."""
    return "".join(each if each.isprintable() else f"<U+{ord(each):04X}>" for each in text)


def _width(text: str) -> int:
    """The number of columns of a text in a terminal."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )

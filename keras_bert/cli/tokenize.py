"""Split each text into tokens of the model's vocabulary.

[CLS] and [SEP] are not added. Writes text, the tokens separated by spaces; ids; or JSON lines {"text", "tokens",
"ids", "starts", "ends"}, with the start and end of each token in bytes of UTF-8.

The table of --explain includes [CLS] and [SEP]. It has each token's position and type id in the model's input, its
byte and character ranges in the text, these characters, and the changes made to them. With --text-pair, it is
the table of a pair, whose second text has its own type id in most families.

\b
Examples:
  $ keras-bert tokenize "Unaffable naïveté!"
  una ##ffa ##ble naive ##te !
  $ keras-bert tokenize --format ids "I love pizza" "Italy"
  1045 2293 10733
  3304
  $ keras-bert tokenize --format jsonl "I love pizza" | keras-bert detokenize
  i love pizza
  $ keras-bert tokenize --explain "Cafés?"
  Cafés?
  position  type  id     token  bytes  characters  text   changed
  0         0     101    [CLS]
  1         0     23812  cafes  0-6    0-5         Cafés  C -> c, é -> e
  2         0     1029   ?      6-7    5-6         ?
  3         0     102    [SEP]
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from keras_bert.cli import streams
from keras_bert.cli.options import texts_to, tokenizer_option
from keras_bert.cli.terminal import Misuse, misuse

if TYPE_CHECKING:
    from keras_bert.text.explanation import ExplainedToken
    from keras_bert.text.tokenizer import Tokenizer


_HEADER = ("position", "type", "id", "token", "bytes", "characters", "text", "changed")
_COLOURS = ("cyan", "yellow")


def write(results: BinaryIO, tokenizer: Tokenizer, chunks: Iterable[list[str]], second: Sequence[str] = ()) -> None:
    """Writes each text (coloured on a terminal), and the table of its tokens; `second`, one text, makes it a pair."""
    from keras_bert.text.explanation import explain

    separator: list[str] = []  # an empty line goes before each text except the first
    for chunk in chunks:
        for text, tokens in zip(
            chunk, explain(tokenizer, chunk, *([each] * len(chunk) for each in second)), strict=True
        ):
            texts = [text, *second]
            lines = map(_coloured, texts, explain(tokenizer, texts)) if results.isatty() else map(_escape, texts)
            results.writelines(f"{each}\n".encode() for each in (*separator, *lines))  # `write_lines` escapes colours
            streams.write_lines(results, _table(tokens))
            separator = [""]


def _coloured(text: str, tokens: Sequence[ExplainedToken]) -> str:
    parts, done, colours = [], 0, itertools.cycle(_COLOURS)
    for token in tokens:
        if token.token is None or token.character_span is None:
            continue
        start, end = token.character_span
        start = max(start, done)  # a character may be in several tokens
        if start < end:
            parts += [_escape(text[done:start]), click.style(_escape(text[start:end]), fg="black", bg=next(colours))]
            done = end
    return "".join([*parts, _escape(text[done:])])


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
    changes = ", ".join(map(_escape, token.changes))
    return (position, type_id, id_, _escape(token.token or ""), bytes_, characters, _escape(token.text), changes)


def _escape(text: str) -> str:
    """Replaces line ends and control characters by their code points, such as <U+000A>."""
    return "".join(each if each.isprintable() else f"<U+{ord(each):04X}>" for each in text)


def _width(text: str) -> int:
    """Counts the columns that a text takes in a terminal: 2 for wide characters, 0 for combining ones."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


@click.command(help=__doc__)
@texts_to("text", "ids", "jsonl", preset=tokenizer_option)
@click.option("--explain", is_flag=True, help="Write a table of the tokens of each text, with their characters.")
@click.option("--text-pair", metavar="TEXT", help="With --explain, the second text of a pair with each text.")
def tokenize(
    lines: streams.Lines, results: BinaryIO, preset: Path, output_format: str, explain: bool, text_pair: str | None
) -> None:
    if explain and output_format != "text":
        raise Misuse(f"--explain writes a table, not {output_format}")
    if text_pair is not None and not explain:
        raise Misuse("--text-pair is for --explain; the tokens of a text do not depend on another")
    from keras_bert.text import load_tokenizer

    second = () if text_pair is None else [*streams.open_texts((text_pair,), None).parsed()]
    with misuse(OSError):
        tokenizer = load_tokenizer(preset)
    if explain:
        write(results, tokenizer, lines.chunks(), second)
        return
    for texts in lines.chunks():
        rows = zip(texts, *(ragged.to_list() for ragged in tokenizer.tokenize_with_offsets(texts)), strict=True)
        streams.write_lines(results, (_line(output_format, tokenizer.vocabulary, *row) for row in rows))


def _line(output_format: str, vocabulary: list[str], text: str, ids: list[int], starts: list, ends: list) -> str:
    if output_format == "ids":
        return " ".join(map(str, ids))
    tokens = [vocabulary[i] for i in ids]
    if output_format == "text":
        return " ".join(tokens)
    return streams.json_line(text=text, tokens=tokens, ids=ids, starts=starts, ends=ends)

"""Turn token ids back into text.

Spaces are put where a person would write them; capitals and accents that the model drops are lost. All arguments
together are one text. Each line of --file or of a pipe is a text: ids separated by spaces, or a JSON object with
"ids", as keras-bert tokenize writes them. Writes text, or JSON lines {"ids", "text"}.

\b
Examples:
  $ keras-bert detokenize 14477 20961 3468 15743 2618 999
  unaffable naivete!
  $ keras-bert tokenize --format ids "Don't panic, it's 3.5 km." | keras-bert detokenize
  don't panic, it's 3.5 km.
"""

import functools
import json
from pathlib import Path
from typing import BinaryIO

import click

from keras_bert.cli import streams
from keras_bert.cli.options import texts_to, tokenizer_option
from keras_bert.cli.terminal import misuse


def _as_one_text(ctx: click.Context, parameter: click.Parameter, ids: tuple[str, ...]) -> tuple[str, ...]:
    return (" ".join(ids),) if ids else ()


@click.command(help=__doc__)
@texts_to(
    "text",
    "jsonl",
    preset=tokenizer_option,
    texts=click.argument("text", metavar="[IDS]...", nargs=-1, callback=_as_one_text),
)
def detokenize(lines: streams.Lines, results: BinaryIO, preset: Path, output_format: str) -> None:
    from keras_bert.text import load_tokenizer

    with misuse(OSError):
        tokenizer = load_tokenizer(preset)
    parse = functools.partial(_parse_ids, vocabulary_size=len(tokenizer.vocabulary))
    for rows in lines.chunks(parse):
        texts = [text.decode() for text in tokenizer.detokenize(rows).numpy()]
        if output_format == "jsonl":
            texts = map(lambda ids, text: streams.json_line(ids=ids, text=text), rows, texts)
        streams.write_lines(results, texts)


def _parse_ids(line: str, vocabulary_size: int) -> list[int]:
    try:
        ids = json.loads(line)["ids"] if line.lstrip().startswith("{") else [int(word) for word in line.split()]
        is_well_formed = isinstance(ids, list) and all(type(i) is int for i in ids)
    except (ValueError, KeyError):
        is_well_formed = False
    if not is_well_formed:
        raise ValueError(f'expected ids separated by spaces, or {{"ids": [...]}}, not {line[:60]!r}')
    for i in ids:
        if not 0 <= i < vocabulary_size:
            raise ValueError(f"{i} is not in the vocabulary, which has the ids 0 to {vocabulary_size - 1}")
    return ids

"""Show how the vector of a word depends on its sentence.

The vector of an occurrence of WORD, in any case, is the mean of its tokens' hidden states in the last layer. The
plot shows two principal components, and the word's embedding without context. JSON lines are {"sentence", "start",
"end", "point", "vector"}, and at the end, without context, {"word", "point", "vector"}.

\b
Example:
  $ cat reviews.txt | keras-bert senses is --output is.html
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

import keras_bert
from keras_bert.cli import streams
from keras_bert.cli.options import load_model, overwrite_option, preset_option
from keras_bert.cli.terminal import Misuse, misuse, quiet_imports

if TYPE_CHECKING:
    from keras_bert.visualize.senses import Senses


@click.command(help=__doc__)
@click.argument("word")
@click.option("--file", metavar="FILE", help="Read FILE, with blank lines between paragraphs; - is standard input.")
@preset_option
@click.option("--output", metavar="FILE", help="Write to FILE: a page (.html), a picture (.png) or .jsonl.")
@overwrite_option
def senses(word: str, file: str | None, preset: Path, output: str | None, overwrite: bool) -> None:
    kind = Path(output or "-.jsonl").suffix if output != "-" else ".jsonl"
    if kind not in (".html", ".png", ".jsonl"):
        raise Misuse(f"{output}: senses writes .html, .png and .jsonl")
    lines = streams.open_texts((), file)
    with streams.open_output(output, overwrite) as results:
        with quiet_imports():
            from keras_bert.visualize import senses
            from keras_bert.visualize.senses import find_senses
        encoder = load_model(lambda: keras_bert.BertEncoder.from_preset(preset))
        preprocessor = load_model(lambda: keras_bert.BertPreprocessor.from_preset(preset, sequence_length=None))
        with misuse():
            word_senses = find_senses(encoder, preprocessor, word, _paragraphs(lines.parsed()))
            if kind == ".png":
                results.write(senses.picture(word_senses))
                return
        streams.write_lines(results, [senses.page(word_senses)] if kind == ".html" else _json_lines(word_senses))


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    for has_text, block in itertools.groupby(lines, lambda line: bool(line.strip())):
        if has_text:
            yield " ".join(block)


def _json_lines(senses: Senses) -> Iterator[str]:
    from keras_bert.embedding.vector_files import with_vector

    for each, point, vector in zip(senses.occurrences, senses.points.tolist(), senses.vectors, strict=True):
        line = streams.json_line(sentence=each.sentence, start=each.start, end=each.end, point=point)
        yield with_vector(line, vector)
    yield with_vector(streams.json_line(word=senses.word, point=senses.static_point.tolist()), senses.static)

"""Show how the vector of a word depends on its sentence.

The vector of an occurrence of WORD, in any case, is the mean of its tokens' hidden states in the last layer. The
plot shows two principal components, and the word's embedding without context. JSON lines are {"sentence", "start",
"end", "point", "vector"}, and at the end, without context, {"word", "point", "vector"}. With --label-column, FILE is a
table whose rows have a text and a label, such as the sense of the word. In the plot, each label has a colour.

\b
Example:
  $ cat reviews.txt | keras-bert senses is --output is.html
  is.html: 2 occurrences of is
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

import keras_bert
from keras_bert.cli import streams
from keras_bert.cli.options import overwrite_option, preset_option
from keras_bert.cli.terminal import Misuse, echo, misuse
from keras_bert.counted import counted
from keras_bert.data import read_table

if TYPE_CHECKING:
    from keras_bert.visualize.senses import Senses


@click.command(help=__doc__)
@click.argument("word")
@click.option("--file", metavar="FILE", help="Read FILE, with blank lines between paragraphs; - is standard input.")
@click.option("--label-column", metavar="C", help="Read FILE as a table; this is its column of labels.")
@click.option("--text-column", metavar="C", help="Read FILE as a table; this is its column of texts, by default text.")
@preset_option
@click.option("--output", metavar="FILE", help="Write to FILE: a page (.html), a picture (.png) or .jsonl.")
@overwrite_option
def senses(
    word: str,
    file: str | None,
    label_column: str | None,
    text_column: str | None,
    preset: Path,
    output: str | None,
    overwrite: bool,
) -> None:
    kind = streams.format_of(output, ("jsonl", "html", "png"), must_be_known=output not in (None, "-"))
    paragraphs, labels = _read(file, text_column, label_column)
    with streams.open_output(output, overwrite) as results:
        from keras_bert.visualize import senses, view

        with misuse(OSError):
            if output and kind == "png":
                view.check_path(output)  # raises without matplotlib
            encoder = keras_bert.BertEncoder.from_preset(preset)
            preprocessor = keras_bert.BertPreprocessor.from_preset(preset, sequence_length=None)
        with misuse():
            word_senses = senses.find_senses(encoder, preprocessor, word, paragraphs, labels)
            if kind == "png":
                results.write(senses.picture(word_senses))
            else:
                written = [senses.page(word_senses)] if kind == "html" else _json_lines(word_senses)
                streams.write_lines(results, written)
    if output not in (None, "-"):
        echo(f"{output}: {counted(word_senses.occurrences, 'occurrence')} of {word}")


def _read(
    file: str | None, text_column: str | None, label_column: str | None
) -> tuple[Iterable[str], Sequence[str] | None]:
    if text_column is None and label_column is None:
        return _paragraphs(streams.open_texts((), file).parsed()), None
    if file in (None, "-"):
        raise Misuse("--label-column and --text-column need --file FILE, a table")
    with misuse(OSError):
        return read_table(file, text_column=text_column or "text", label_column=label_column).xy


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    for has_text, block in itertools.groupby(lines, lambda line: bool(line.strip())):
        if has_text:
            yield " ".join(block)


def _json_lines(senses: Senses) -> Iterator[str]:
    from keras_bert.embedding.vector_files import with_vector

    for each, point, vector in zip(senses.occurrences, senses.points.tolist(), senses.vectors, strict=True):
        label = {} if each.label is None else {"label": each.label}
        line = streams.json_line(sentence=each.sentence, start=each.start, end=each.end, **label, point=point)
        yield with_vector(line, vector)
    yield with_vector(streams.json_line(word=senses.word, point=senses.static_point.tolist()), senses.static)

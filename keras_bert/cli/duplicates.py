"""Find pairs of texts that say almost the same.

CORPUS is that of `index`. Writes text, a line for each pair, separated by tabs: the similarity, 1 for equal texts,
both line numbers, and both texts; or JSON lines {"similarity", "first_line", "second_line", "first", "second"},
with whole rows; or CSV or TSV, with JSON in the cells of rows. A repeated text makes one pair, with its first
occurrence.

\b
Example:
  $ keras-bert duplicates reviews.txt --threshold 0.95
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from keras_bert.cli import streams
from keras_bert.cli.options import corpus_options, output_options
from keras_bert.cli.terminal import import_tensorflow, misuse
from keras_bert.data.tables import check_corpus

if TYPE_CHECKING:
    from keras_bert.search.near_duplicates import DuplicatePair


@click.command(help=__doc__)
@click.argument("corpus")
@click.option("--threshold", type=float, metavar="X", help="The lowest similarity; by default a cosine of 0.9.")
@corpus_options
@output_options("text", *streams.ROWS)
def duplicates(
    corpus: str, text_column: str, output_format: str, output: str | None, overwrite: bool, **settings: Any
) -> None:
    from keras_bert.search import near_duplicates

    with streams.open_output(output, overwrite) as results, misuse(FileNotFoundError):
        check_corpus(corpus, text_column)
        import_tensorflow()
        pairs = near_duplicates(corpus, text_column=text_column, **settings)
        streams.RowWriter(results, output_format).write_each(pairs, _line, _row)


def _line(pair: DuplicatePair) -> str:
    texts = (streams.printable_line(row.text) for row in (pair.first, pair.second))
    return "\t".join([f"{pair.similarity:.3f}", str(pair.first.line), str(pair.second.line), *texts])


def _row(pair: DuplicatePair) -> dict[str, object]:
    return {
        "similarity": pair.similarity,
        "first_line": pair.first.line,
        "second_line": pair.second.line,
        "first": pair.first.columns,
        "second": pair.second.columns,
    }

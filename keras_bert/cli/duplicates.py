"""Find pairs of texts that say almost the same.

CORPUS is that of `index`. Writes text, a line for each pair, separated by tabs: the similarity, 1 for equal texts,
both line numbers, and both texts; or JSON lines {"similarity", "first_line", "second_line", "first", "second"},
with whole rows; or CSV or TSV, with JSON in the cells of rows. A repeated text makes one pair, with its first
occurrence.

--groups writes a line for each text that has a duplicate: the number of its group, its line and the text; or {"group",
"line", "row"}. Texts that a chain of pairs links are one group. --cleaned writes the rows of CORPUS without these
duplicates: of each group, the first row.

\b
Examples:
  $ keras-bert duplicates reviews.txt --threshold 0.95
  $ keras-bert embed reviews.csv --text-column review --output vectors
  $ keras-bert duplicates vectors/reviews.csv --vectors --text-column review --cleaned cleaned.csv
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from keras_bert.cli import streams
from keras_bert.cli.options import corpus_options, given_options, output_options
from keras_bert.cli.terminal import Misuse, misuse
from keras_bert.data.table_formats import format_of
from keras_bert.data.tables import check_corpus, read_corpus

if TYPE_CHECKING:
    from keras_bert.data.tables import CorpusRow
    from keras_bert.search.near_duplicates import DuplicatePair


@click.command(help=__doc__)
@click.argument("corpus")
@click.option("--threshold", type=float, metavar="X", help="The lowest similarity; by default a cosine of 0.9.")
@click.option("--vectors", is_flag=True, help="Compare the vectors in CORPUS, which `embed` wrote, without a model.")
@click.option("--groups", is_flag=True, help="Write groups in place of pairs.")
@click.option("--cleaned", metavar="FILE", help="Also write CORPUS without duplicates: text, .jsonl, .csv or .tsv.")
@corpus_options
@output_options("text", *streams.ROWS)
@click.pass_context
def duplicates(
    ctx: click.Context, corpus: str, text_column: str, groups: bool, cleaned: str | None, output_format: str,
    output: str | None, overwrite: bool, **settings: Any,
) -> None:  # fmt: skip
    from keras_bert.search import duplicate_groups, near_duplicates

    given = given_options(ctx)
    if settings["vectors"] and (unused := [given[name] for name in ("preset", "batch_tokens") if name in given]):
        raise Misuse(f"{unused[0]} is for texts that have no vectors yet; leave it or --vectors out")
    with contextlib.ExitStack() as stack:
        results = stack.enter_context(streams.open_output(output, overwrite))
        cleaned_file = stack.enter_context(streams.open_output(cleaned, overwrite)) if cleaned else None
        stack.enter_context(misuse(FileNotFoundError))
        check_corpus(corpus, text_column)
        formats = streams.ROWS if format_of(corpus) else ("text", *streams.ROWS)
        cleaned_format = streams.format_of(cleaned, formats)
        pairs = near_duplicates(corpus, text_column=text_column, **settings)
        writer = streams.RowWriter(results, output_format)
        if not groups and not cleaned:
            writer.write_each(pairs, _line, _row)
            return
        found = list(pairs)
        joined = duplicate_groups(found)
        if groups:
            members = [(number, row) for number, group in enumerate(joined, start=1) for row in group]
            writer.write_each(members, _line_of_member, _row_of_member)
        else:
            writer.write_each(found, _line, _row)
        if cleaned_file is not None:
            left_out = {row.line for group in joined for row in group[1:]}
            rows = [row for row in read_corpus(corpus, text_column, True) if row.line not in left_out]
            _write_rows(cleaned_file, cleaned_format, rows)


def _write_rows(file: BinaryIO, format: str, rows: list[CorpusRow]) -> None:
    """Writes rows as they are in the corpus."""
    if format == "text":
        streams.write_lines(file, (row.text for row in rows))
    else:
        streams.RowWriter(file, format, raw_cells=True).write(row.columns for row in rows)


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


def _line_of_member(member: tuple[int, CorpusRow]) -> str:
    number, row = member
    return f"{number}\t{row.line}\t{streams.printable_line(row.text)}"


def _row_of_member(member: tuple[int, CorpusRow]) -> dict[str, object]:
    number, row = member
    return {"group": number, "line": row.line, "row": row.columns}

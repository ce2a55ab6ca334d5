"""Find the texts closest in meaning to a query.

DIR is the index that `keras-bert index` wrote. Queries come from arguments, a file or a pipe. Writes a line for
each text found: its similarity (1 for the same meaning), a tab, and the text; with several queries, the query comes
first. Or it writes JSON lines {"query", "hits"}, one per query; a hit has `similarity`, `text`, and `row`, the row
of the corpus by column. CSV and TSV have a row for each hit, with the query, and JSON in the cell of `row`. With
--rerank, a hit also has a `score`, which the text output shows. With --hybrid, the order is that of both rankings.

\b
Examples:
  $ keras-bert search reviews-index "I wanted my money back" --top-k 3
  $ keras-bert search reviews-index --file questions.txt --output hits.jsonl
  $ keras-bert search reviews-index "too slow" --where language=en --where language=de --where "year>=2025"
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from keras_bert.cli import options, streams
from keras_bert.cli.terminal import misuse

if TYPE_CHECKING:
    from keras_bert.search.text_index import Hit

_arguments = options.together(
    click.argument("directory", metavar="DIR", callback=options.check_is_first),
    click.argument("text", metavar="[QUERY]...", nargs=-1),
)


@click.command(help=__doc__)
@options.texts_to("text", *streams.ROWS, preset=None, texts=_arguments)
@click.option("--preset", metavar="MODEL", help="The model that made the index, if it has moved.")
@click.option(
    "--where",
    multiple=True,
    callback=options.filter_of,
    metavar="COLUMN=VALUE",
    help="Search only rows with this value, or with a range in quotes: 'year>=2025'. May be repeated: a row then has "
    "one of the values, or is in the range, in each column.",
)
@click.option("--hybrid", is_flag=True, help="Also find texts with the words of the query, such as names.")
@click.option("--top-k", type=click.IntRange(1), default=10, metavar="K", help="Find K texts for each query.")
@click.option(
    "--rerank",
    metavar="MODEL",
    callback=options.find_preset,
    help="Rank the 50 closest texts with a cross-encoder: a directory, or hf://org/name.",
)
def search(
    lines: streams.Lines,
    results: BinaryIO,
    directory: str,
    output_format: str,
    preset: str | None,
    where: dict[str, Any],
    hybrid: bool,
    top_k: int,
    rerank: Path | None,
) -> None:
    from keras_bert.search import TextIndex, database

    with misuse(FileNotFoundError), database.reading(Path(directory)) as (_, settings):
        handle = preset or settings.preset
    options.directory_of(handle)
    from keras_bert.tasks.registry import load_reranker

    with misuse(FileNotFoundError):
        index = TextIndex(directory, preset)
        reranker = None if rerank is None else load_reranker(rerank)
    line, writer = _line if lines.count() == 1 else _line_with_query, streams.RowWriter(results, output_format)
    hits_of = functools.partial(index.search, top_k=top_k, reranker=reranker, where=where or None, hybrid=hybrid)
    for queries, hits_of_queries in lines.answered(hits_of, _check_query):
        found = zip(queries, hits_of_queries, strict=True)
        if output_format == "jsonl":
            writer.write({"query": query, "hits": list(map(streams.rounded, hits))} for query, hits in found)
        else:
            writer.write_each(((query, hit) for query, hits in found for hit in hits), line, _row)


def _check_query(line: str) -> str:
    """Checks a line of the queries. Raises ValueError if it is blank."""
    if not line.strip():
        raise ValueError("query is empty")
    return line


def _line(result: tuple[str, Hit]) -> str:
    _, hit = result
    return f"{hit.get('score', hit['similarity']):.3f}\t{streams.printable_line(hit['text'])}"


def _line_with_query(result: tuple[str, Hit]) -> str:
    return f"{streams.printable_line(result[0])}\t{_line(result)}"


def _row(result: tuple[str, Hit]) -> dict[str, object]:
    query, hit = result
    return {"query": query, **hit}

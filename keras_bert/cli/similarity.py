"""Compare all texts with each other.

The similarity is the cosine of the angle between two vectors: 1 for the same meaning; or the dot product, for
models that were trained for it. Writes text, a table; JSON lines {"first", "second", "similarity"}, CSV or TSV for
every pair; or npy, a float32 matrix with a row and a column for each text. With --top-k or --threshold, text has a
line for each pair: the similarity and both texts, separated by tabs.

\b
Examples:
  $ keras-bert similarity "a cat" "a kitten" "income tax"
           1       2       3
  1   1.000   0.766   0.148  a cat
  2   0.766   1.000   0.105  a kitten
  3   0.148   0.105   1.000  income tax
  $ keras-bert similarity "a cat" "a kitten" "income tax" --top-k 1 --format jsonl
  {"first": "a cat", "second": "a kitten", "similarity": 0.766277}
"""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import click

from keras_bert.cli import streams
from keras_bert.cli.options import check_prompts, prompt_option, texts_to
from keras_bert.cli.terminal import Misuse, echo, misuse

_MOST_TEXTS = 1000  # for more texts, all pairs are written only as a matrix
_LARGE_FILE = 1e9  # bytes: a larger matrix gets a warning


@click.command(help=__doc__)
@texts_to("text", *streams.ROWS, "npy")
@prompt_option
@click.option(
    "--top-k", type=click.IntRange(1), metavar="K", help="Write only the K most similar pairs, the best first."
)
@click.option("--threshold", type=float, metavar="X", help="Write only pairs with a similarity of X or more.")
def similarity(
    lines: streams.Lines,
    results: BinaryIO,
    preset: Path,
    output_format: str,
    prompt: str | None,
    top_k: int | None,
    threshold: float | None,
) -> None:
    writes_pairs = top_k is not None or threshold is not None
    if writes_pairs and output_format == "npy":
        raise Misuse("--top-k and --threshold write pairs, not the matrix of npy; choose --format text or jsonl")
    texts = list(lines.parsed())
    _check_count(len(texts), output_format, writes_pairs)
    check_prompts(preset, prompt)
    from keras_bert.embedding.vector_files import write_npy
    from keras_bert.search.neighbours import similar_pairs
    from keras_bert.tasks.registry import load_to_compare

    with misuse(OSError):
        model = load_to_compare(preset, default_prompt=prompt)
    vectors = model.encode(texts)  # their dot products are similarities
    if writes_pairs or output_format in streams.ROWS:
        similar = similar_pairs(vectors, top_k, -math.inf if threshold is None else threshold)
        pairs = ((texts[first], texts[second], value) for first, second, value in similar)
        streams.RowWriter(results, output_format).write_each(pairs, _line_of_pair, _row_of_pair)
        return
    rows = (vectors @ vector for vector in vectors)  # row by row: the whole matrix may be too large for memory
    if output_format == "npy":
        write_npy(results, (row[None] for row in rows), len(texts))
    else:
        streams.write_lines(results, _table(texts, rows))


def _check_count(count: int, output_format: str, writes_pairs: bool) -> None:
    if count < 2:
        raise Misuse(f"a comparison needs two texts, but there {'is' if count else 'are'} {count}")
    if output_format == "npy" and 4 * count**2 > _LARGE_FILE:
        echo(f"Warning: the matrix of {count:,} texts takes {4 * count**2 / 1e9:.1f} GB", err=True)
    if output_format != "npy" and count > _MOST_TEXTS and not writes_pairs:
        raise Misuse(
            f"{count:,} texts make {count * (count - 1) // 2:,} pairs; choose some with --top-k or --threshold, or "
            "write the matrix with --output FILE.npy"
        )


def _table(texts: list[str], rows: Iterable[Iterable[float]]) -> Iterator[str]:
    yield _table_row("", range(1, len(texts) + 1), "", "8d")
    for number, (text, row) in enumerate(zip(texts, rows, strict=True), start=1):
        yield _table_row(number, row, streams.printable_line(text), "8.3f")


def _table_row(number: int | str, values: Iterable[float], text: str, value_format: str) -> str:
    return f"{number:>4}{''.join(format(value, value_format) for value in values)}  {text}".rstrip()


def _line_of_pair(pair: tuple[str, str, float]) -> str:
    first, second, value = pair
    return f"{value:.3f}\t{streams.printable_line(first)}\t{streams.printable_line(second)}"


def _row_of_pair(pair: tuple[str, str, float]) -> dict[str, str | float]:
    return dict(zip(("first", "second", "similarity"), pair, strict=True))

"""keras-bert similarity: texts -> the similarity of each pair."""

from collections.abc import Iterable
from pathlib import Path

import click

from keras_bert.cli import quiet, streams


@click.command()
@click.argument("text", nargs=-1)
@streams.shared_options("text", "jsonl", "npy")
def similarity(
    text: tuple[str, ...], file: str | None, preset: Path, output_format: str, output: str | None, overwrite: bool
) -> None:
    """Compare each TEXT with each other: the cosine of the angle between their vectors, 1 for the same meaning.

    Writes text, a table; JSON lines {"first", "second", "similarity"} for every pair; or npy, a float32 matrix with a
    row and a column for each text.

    \b
    Example:
      $ keras-bert similarity "a cat" "a kitten" "income tax"
               1       2       3
      1   1.000   0.766   0.148  a cat
      2   0.766   1.000   0.105  a kitten
      3   0.148   0.105   1.000  income tax
    """
    lines = streams.open_texts(text, file)
    with streams.open_output(output, overwrite) as results:
        texts = list(lines.parsed())
        if len(texts) < 2:
            raise streams.Misuse(f"there are not two texts to compare but {len(texts)}; give more")
        with quiet.imports():
            from keras_bert import BertSentenceEncoder
        model = streams.load(BertSentenceEncoder.from_preset, preset)
        vectors = model.encode(texts)  # of length 1: dot products are cosines
        rows = (vectors @ vector for vector in vectors)  # row by row: the whole matrix may be too large for memory
        if output_format == "npy":
            streams.write_npy(results, (row[None] for row in rows), len(texts))
            return
        if output_format == "text":
            streams.write_lines(results, [_table_row("", range(1, len(texts) + 1), "", "8d")])
        for number, (text, row) in enumerate(zip(texts, rows, strict=True), start=1):
            if output_format == "text":
                streams.write_lines(results, [_table_row(number, row, " ".join(text.split()), "8.3f")])
            else:
                pairs = zip(texts[number:], row[number:].tolist(), strict=True)
                streams.write_lines(results, (_pair(text, *pair) for pair in pairs))


def _table_row(number: int | str, values: Iterable[float], text: str, value_format: str) -> str:
    return f"{number:>4}{''.join(format(value, value_format) for value in values)}  {text}".rstrip()


def _pair(first: str, second: str, cosine: float) -> str:
    return streams.json_line(first=first, second=second, similarity=round(cosine, 6))

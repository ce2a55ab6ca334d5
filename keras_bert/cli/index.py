"""keras-bert index: a corpus -> an index to search by meaning."""

from __future__ import annotations

import click

from keras_bert import files
from keras_bert.choices import STORED
from keras_bert.cli.options import batch_tokens_option, handle_option
from keras_bert.cli.terminal import RESUMABLE, end_the_command, misuse, quiet_imports


@click.command()
@click.argument("corpus")
@click.option("--output", required=True, metavar="DIR", help="Write the index into DIR, or update the index there.")
@click.option("--text-column", default="text", metavar="C", help="The column of the texts.")
@handle_option
@click.option(
    "--stored",
    type=click.Choice(STORED),
    help="How vectors are stored; int8 takes a quarter of the memory. By default as in DIR, else float32.",
)
@click.option("--add", is_flag=True, help="Keep the rows of the index in DIR, too.")
@batch_tokens_option
def index(
    corpus: str, output: str, text_column: str, preset: str, stored: str | None, add: bool, batch_tokens: int
) -> None:
    """Index texts for a search by meaning.

    CORPUS is CSV, TSV, JSON lines or Parquet, by its extension, with a column of texts; any other file has one text per
    line. Then `keras-bert search DIR` finds its rows. After an interruption, the same command resumes. If CORPUS has
    changed, it encodes only the new texts.

    \b
    Examples:
      $ keras-bert index reviews.csv --text-column review --output reviews-index
      $ keras-bert index more.csv --text-column review --output reviews-index --add
    """
    with misuse(OSError):
        files.check_writable(output)
    with quiet_imports():
        from keras_bert.search import build_index
    with (
        misuse(FileNotFoundError),
        end_the_command(message=RESUMABLE),
    ):
        counts = build_index(corpus, output, preset, text_column, stored, add, batch_tokens)
    click.echo(f"{output}: {counts['texts']:,} texts, {counts['encoded']:,} encoded now, {counts['cut']:,} of them cut")

"""Index texts for a search by meaning.

CORPUS is {tables} with a column of texts; any other file has one text per line. Then
`keras-bert search DIR` finds its rows. After an interruption, the same command resumes. If CORPUS has changed, it
encodes only the new texts.

\b
Examples:
  $ keras-bert index reviews.csv --text-column review --output reviews-index
  $ keras-bert index more.csv --text-column review --output reviews-index --add --id-column id
  $ keras-bert index --remove id=17 --remove id=18 --output reviews-index
  $ keras-bert index --remove id=@deleted.txt --output reviews-index
"""

from __future__ import annotations

from typing import Any

import click

from keras_bert import files, precisions
from keras_bert.cli.options import corpus_options, filter_of, given_options
from keras_bert.cli.terminal import Misuse, echo, end_the_command, misuse, resumable
from keras_bert.counted import counted
from keras_bert.data.table_formats import TABLES
from keras_bert.data.tables import check_corpus


@click.command(help=str(__doc__).replace("{tables}", TABLES))
@click.argument("corpus", required=False)
@click.option("--output", required=True, metavar="DIR", help="Write the index into DIR, or update the index there.")
@corpus_options
@click.option(
    "--stored",
    type=click.Choice(precisions.INDEXES),
    help="How a search holds vectors: int8 takes a quarter of the memory, binary a thirty-second, and is fastest, but "
    "misses more. By default as in DIR, else float32.",
)
@click.option("--add", is_flag=True, help="Keep the rows of the index in DIR, too.")
@click.option(
    "--id-column", metavar="C", help="With --add, replace the rows of the index that have the same id in this column."
)
@click.option(
    "--remove",
    multiple=True,
    callback=filter_of,
    metavar="COLUMN=VALUE",
    help="Without CORPUS, remove the rows with this value, or with a range in quotes: 'year<2025', from the index in "
    "DIR. COLUMN=@FILE: the values in the lines of FILE, such as ids. May be repeated.",
)
def index(corpus: str | None, output: str, text_column: str, remove: dict[str, Any], **settings: Any) -> None:
    if bool(corpus) == bool(remove):
        raise Misuse("give CORPUS to index, or --remove COLUMN=VALUE")
    given = given_options(click.get_current_context())
    if remove and (others := [option for name, option in given.items() if name not in ("output", "remove")]):
        raise Misuse(f"{others[0]} is for CORPUS, not for --remove; leave it out")
    from keras_bert.search import build_index, remove_rows

    with misuse(OSError):
        files.check_writable(output)
    if not corpus:
        with misuse(FileNotFoundError):
            removed = remove_rows(output, remove)
        echo(f"{output}: rows removed: {removed:,}")
        return
    with misuse(OSError):
        check_corpus(corpus, text_column)
    with misuse(FileNotFoundError), end_the_command(message=resumable(f"the index in {output}", f"remove {output}")):
        counts = build_index(corpus, output, text_column=text_column, **settings)
    encoded, truncated = (f"{counts[name]:,}" for name in ("encoded", "truncated"))
    echo(f"{output}: {counted(counts['texts'], 'text')}, {encoded} encoded now, {truncated} of them truncated")

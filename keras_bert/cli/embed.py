"""Copy files with a vector in each row.

Files may have any size. FILE is {tables}; for Excel, choose --format parquet for the copy. The copy has the same name
and format: all columns, and `vector`, as `encode` computes it. All rows are checked before the first is embedded. After
an interruption, the same command resumes, also within a file.

\b
Example:
  $ keras-bert embed reviews-*.jsonl --text-column review --output vectors
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from keras_bert import files
from keras_bert.cli import options
from keras_bert.cli.terminal import echo, end_the_command, misuse, resumable
from keras_bert.counted import counted
from keras_bert.data.table_formats import TABLES
from keras_bert.data.tables import check_corpus


@click.command(help=str(__doc__).replace("{tables}", TABLES))
@click.argument("inputs", metavar="FILE...", nargs=-1, required=True)
@click.option("--output", required=True, metavar="DIR", help="Write the copies into DIR, or resume there.")
@options.text_column_option
@options.preset_option
@options.prompt_option
@click.option(
    "--processes", type=click.IntRange(1), default=1, help="The number of processes, which divide files and rows."
)
@click.option("--format", type=click.Choice(["parquet"]), help="Write Parquet, whatever the files are.")
@options.skip_bad_option
@options.batch_tokens_option
@options.precision_option
def embed(
    inputs: tuple[str, ...], output: str, text_column: str, preset: Path, format: str | None, **settings: Any
) -> None:
    from keras_bert.embedding.file_embedding import embed_files, names_of_copies

    options.check_prompts(preset, settings["prompt"])
    with misuse(OSError):
        files.check_writable(output)
        for each in inputs:
            check_corpus(each, text_column, must_be_table=True)
        names_of_copies(list(map(Path, inputs)), Path(output), format)
    with misuse(), end_the_command(message=resumable(f"the work in {output}", f"remove {output}")):
        counts = embed_files(inputs, output, preset, text_column, format=format, **settings)
    rows, count = counted(counts["rows"], "row"), counted(counts["files"], "file")
    echo(f"{output}: {rows} in {count}, {counted(counts['truncated'], 'text')} truncated")

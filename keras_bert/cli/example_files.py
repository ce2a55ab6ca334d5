"""Files of examples: options for their columns, and their readers, for the commands that train, measure and predict."""

from __future__ import annotations

from typing import Any

import click

from keras_bert import data
from keras_bert.cli import quiet
from keras_bert.cli.errors import misuse
from keras_bert.cli.options import together
from keras_bert.data import tables

format_options = together(
    click.option(
        "--format",
        type=click.Choice(sorted(set(tables.FORMATS.values()))),
        help="The format of the file; by default that of its extension.",
    ),
    click.option("--no-header", is_flag=True, help="The first line is an example; choose columns by number, from 1."),
)
# The columns of a table, by name, or by number from 1.
text_options = together(
    click.option("--text-column", default="text", show_default=True, metavar="C", help="The column of the texts."),
    click.option("--text-pair-column", metavar="C", help="The column of the second texts, for pairs."),
    format_options,
)
column_options = together(
    text_options,
    click.option(
        "--label-column", metavar="C", help="The column of the labels; by default `label`, in CoNLL files the last."
    ),
)


def read(kind: type | None, path: str, *, no_header: bool = False, **settings: Any) -> Any:
    """`read_examples`, with the values of `column_options`. Raises Misuse if the file cannot be used."""
    with quiet.imports():
        from keras_bert.tasks.table import read_examples
    with misuse(OSError):
        return read_examples(kind, path, header=not no_header, **settings)


def read_columns(path: str, **settings: Any) -> data.ColumnExamples:
    """Texts to compare, see `keras_bert.data.read_columns`. Raises Misuse if the file cannot be used."""
    with misuse(OSError):
        return data.read_columns(path, **settings)


def read_rows(path: str, format: str, header: bool) -> tuple[list[str], list[tuple[int, list[str] | str]]]:
    """The names of a table's columns, or their numbers from 1, and its rows. Raises Misuse if it cannot be read."""
    with misuse(OSError):
        found = tables.read_rows(path, format, header)
    return found.names or [str(number) for number in range(1, found.width + 1)], found.rows

"""Readers of example files, with their column options, for the commands that train and measure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from keras_bert import data
from keras_bert.cli import streams

if TYPE_CHECKING:
    from keras_bert.data import QuestionExamples, TextExamples, WordExamples

_KINDS = {
    "single_label_classification": "class",
    "multi_label_classification": "multi_label",
    "regression": "number",
}
_IN_THE_SHELL = {"skip_bad=True": "--skip-bad", "header=False": "--no-header", "table_format=": "--format "}

COLUMNS = ("text_column", "text_pair_column", "label_column", "no_header", "table_format")


# The columns of a table, by name, or by number from 1.
column_options = streams.together(
    click.option("--text-column", default="text", show_default=True, metavar="C", help="The text's column."),
    click.option("--text-pair-column", metavar="C", help="The second text's, where there are pairs."),
    click.option("--label-column", default="label", show_default=True, metavar="C", help="The label's column."),
    click.option(
        "--format", "table_format", type=click.Choice(["csv", "tsv", "jsonl"]), help="By default as FILE ends."
    ),
    click.option("--no-header", is_flag=True, help="The first line is an example; columns go by number, from 1."),
)


def read(read_file: Callable[..., Any], path: str, skip_bad: bool, **settings: Any) -> Any:
    """The examples that a reader of `keras_bert.data` finds in a file. Raises Misuse if it cannot use the file."""
    try:
        return read_file(path, skip_bad=skip_bad, **settings)
    except OSError as error:
        raise streams.Misuse(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        message = streams.one_line(error)
        for argument, option in _IN_THE_SHELL.items():
            message = message.replace(argument, option)
        raise streams.Misuse(message) from error


def read_texts(
    path: str, problem_type: str, text_column: str, text_pair_column: str | None, label_column: str, no_header: bool,
    table_format: str | None, skip_bad: bool,
) -> TextExamples:  # fmt: skip
    """Texts or pairs with their labels, from a table or from a directory with one directory per class."""
    from pathlib import Path

    if Path(path).is_dir():
        return read(data.read_folders, path, skip_bad)
    told = {"header": not no_header, "table_format": table_format}
    columns = {"text": text_column, "text_pair": text_pair_column, "label": label_column}
    return read(data.read_table, path, skip_bad, label_kind=_KINDS[problem_type], **told, **columns)


def xy(examples: TextExamples | WordExamples | QuestionExamples) -> tuple[Any, Any]:
    """Examples as `fine_tune` and `evaluate` take them."""
    if isinstance(examples, data.TextExamples):
        return (examples.texts if examples.pairs is None else (examples.texts, examples.pairs)), examples.labels
    if isinstance(examples, data.WordExamples):
        return examples.words, examples.tags
    return (examples.questions, examples.contexts), examples.answers

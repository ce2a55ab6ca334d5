"""Files of examples: options for their columns, and their readers, for the commands that train, measure and predict."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from keras_bert import data
from keras_bert.cli.errors import Misuse, one_line
from keras_bert.cli.options import together
from keras_bert.data import rows

_LABEL_KINDS = {
    "single_label_classification": "class",
    "multi_label_classification": "multi_label",
    "regression": "number",
}
PROBLEM_TYPES = tuple(_LABEL_KINDS)
_IN_THE_SHELL = {"skip_bad=True": "--skip-bad", "header=False": "--no-header", "format=": "--format "}

FORMAT = ("no_header", "format", "delimiter")  # the options in `format_options`
COLUMNS = ("text_column", "text_pair_column", "label_column", *FORMAT)

format_options = together(
    click.option(
        "--format",
        type=click.Choice(rows.NAMES),
        help="The format of the file; by default that of its extension.",
    ),
    click.option(
        "--delimiter", metavar="X", help="The character between the cells of a CSV; by default, it is recognised."
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


def reading(options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the readers of tables, from the values of `format_options` and maybe `skip_bad`."""
    return {
        "header": not options["no_header"],
        "format": options["format"],
        "delimiter": options["delimiter"],
        "skip_bad": options.get("skip_bad", False),
    }


def read(kind: type | None, path: str, skip_bad: bool = False, problem_type: str | None = None, **columns: Any) -> Any:
    """The examples in a file.

    Args:
        kind: the class of the examples, in `keras_bert.data`; None: of a model that has no answers to compare.
        path: the file; for texts also a directory with one directory per class.
        skip_bad: leave out the examples that cannot be used.
        problem_type: see `BertClassifier`.
        columns: the values of `column_options`.

    Raises:
        Misuse: the file, or the model, cannot be used.
    """
    if kind is None:
        raise Misuse("this model gives weights of tokens, which cannot be compared with examples")
    with in_the_shell(path):
        return _READERS[kind](path, skip_bad, problem_type, **columns)


def read_columns(path: str, **settings: Any) -> data.ColumnExamples:
    """Texts to compare, see `keras_bert.data.read_columns`. Raises Misuse if the file cannot be used."""
    with in_the_shell(path):
        return data.read_columns(path, **settings)


def has_any(path: str, columns: Sequence[str], options: dict[str, Any]) -> bool:
    """Whether a table has one of these columns, by name or number. Raises Misuse if it cannot be read."""
    with in_the_shell(path):
        found = rows.read_rows(path, options["format"], not options["no_header"], options["delimiter"])
    numbers = () if found.names and found.unit == "row" else map(str, range(1, found.width + 1))
    return not {*columns}.isdisjoint([*(found.names or []), *numbers])


@contextlib.contextmanager
def in_the_shell(path: str) -> Iterator[None]:
    """Raises Misuse, in the words of the command, in place of a reader's errors."""
    try:
        yield
    except OSError as error:
        raise Misuse(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        message = one_line(error)
        for argument, option in _IN_THE_SHELL.items():
            message = message.replace(argument, option)
        raise Misuse(message) from error


def _texts(
    path: str, skip_bad: bool, problem_type: str, no_header: bool, label_column: str | None, **columns: Any
) -> data.TextExamples:
    if Path(path).is_dir():
        return data.read_folders(path, skip_bad=skip_bad)
    columns |= {"label_column": label_column or "label", "label_kind": _LABEL_KINDS[problem_type]}
    return data.read_table(path, header=not no_header, skip_bad=skip_bad, **columns)


def _words(path: str, skip_bad: bool, *_: Any, label_column: str | None = None, **__: Any) -> data.WordExamples:
    try:
        column = -1 if label_column is None else int(label_column)
    except ValueError:
        raise ValueError(f"--label-column {label_column}: choose columns of CoNLL files by number, from 1") from None
    return data.read_conll(path, label_column=column, skip_bad=skip_bad)


def _questions(path: str, skip_bad: bool, *_: Any, **__: Any) -> data.QuestionExamples:
    return data.read_squad(path, skip_bad=skip_bad)


_READERS: dict[type, Callable[..., Any]] = {
    data.TextExamples: _texts,
    data.WordExamples: _words,
    data.QuestionExamples: _questions,
}

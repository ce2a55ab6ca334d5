"""How `keras-bert evaluate` measures sentence encoders."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from keras_bert.cli import example_files, precision, quiet
from keras_bert.cli.errors import Misuse, misuse
from keras_bert.cli.options import together


class Columns(NamedTuple):
    """What to compare: the values of `options`."""

    query: str
    positive: str
    negatives: tuple[str, ...]
    score: str | None
    query_prompt: str | None
    positive_prompt: str | None
    corpus: str | None


_OPTIONS = together(
    click.option("--query-column", metavar="C", help="For sentence encoders, the column of queries or first texts."),
    click.option("--positive-column", metavar="C", help="The column of positives or second texts."),
    click.option("--negative-column", multiple=True, metavar="C", help="A column of negatives; may be repeated."),
    click.option("--score-column", metavar="C", help="The column of similarities: numbers, or 1 and 0."),
    click.option("--query-prompt", metavar="NAME", help="The name of the model's prompt for queries."),
    click.option("--positive-prompt", metavar="NAME", help="The name of the model's prompt for all other texts."),
    click.option("--corpus", metavar="FILE", help="Search the texts of FILE, too, in the column --text-column."),
)


def options(command: Callable) -> Callable:
    """Adds the options; the command gets `columns`, None if there is no query column."""

    @functools.wraps(command)
    def with_columns(
        query_column: str | None,
        positive_column: str | None,
        negative_column: tuple[str, ...],
        score_column: str | None,
        query_prompt: str | None,
        positive_prompt: str | None,
        corpus: str | None,
        **more: Any,
    ) -> Any:
        if (query_column is None) != (positive_column is None):
            raise Misuse("give both --query-column and --positive-column")
        given = (negative_column, score_column, query_prompt, positive_prompt, corpus)
        if query_column is None and any(given):
            raise Misuse("sentence encoders need --query-column and --positive-column")
        if score_column is not None and (negative_column or corpus):
            raise Misuse("--score-column is for pairs, without --negative-column and --corpus")
        columns = None if query_column is None else Columns(query_column, positive_column, *given)
        return command(columns=columns, **more)

    return _OPTIONS(with_columns)


def measured(model: Path, file: str, columns: Columns, options: dict[str, Any]) -> dict[str, float]:
    """The measures of a sentence encoder on the texts in a file.

    Args:
        model: the directory of the encoder.
        file: the examples.
        columns: what to compare.
        options: the other options of `evaluate`.
    """
    rows = {"header": not options["no_header"], "format": options["format"], "skip_bad": options["skip_bad"]}
    texts = [columns.query, columns.positive, *columns.negatives]
    examples = example_files.read_columns(file, text_columns=texts, score_column=columns.score, **rows)
    with quiet.imports():
        from keras_bert import BertSentenceEncoder
        from keras_bert.search.corpus_rows import read_corpus
    prompts = (columns.query_prompt, columns.positive_prompt)
    settings = {} if prompts == (None, None) else {"column_prompts": prompts}
    make = functools.partial(BertSentenceEncoder.from_preset, **settings)
    encoder = precision.load(make, model, options["precision"], options["calibration"])
    x, y = examples.xy
    with misuse(TypeError, FileNotFoundError, text_column="--text-column"):
        corpus = [row.text for row in read_corpus(columns.corpus, options["text_column"])] if columns.corpus else []
        encoder.check_examples(x, y)
        answers = encoder.answers(x)
        measures, details = encoder.measures(answers, y), encoder.details(answers, y, corpus)
    if columns.corpus:  # the measures without it are of an easier search
        measures = {name: value for name, value in measures.items() if name not in details}
    return {**measures, **details}

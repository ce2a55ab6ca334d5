"""keras-bert evaluate: measures a fine-tuned model on the examples in a file."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from keras_bert.cli import streams
from keras_bert.cli.options import (
    check_prompts,
    column_options,
    find_preset,
    load_in_precision,
    precision_options,
    raw_cells_option,
    read_columns,
    read_example_file,
    together,
)
from keras_bert.cli.terminal import Misuse, echo, import_tensorflow, misuse, one_line, quiet_imports
from keras_bert.data.tables import read_corpus

if TYPE_CHECKING:
    from keras_bert.data import Examples
    from keras_bert.tasks.kinds import Score
    from keras_bert.tasks.task import BertTask


class Columns(NamedTuple):
    """The columns, prompts and corpus that a sentence encoder is measured on: the values of `options`."""

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
    """Adds the options of `Columns`. The command gets them as `columns`, None if there is no query column."""

    @functools.wraps(command)
    def with_columns(
        query_column: str | None,
        positive_column: str | None,
        negative_column: tuple[str, ...],
        score_column: str | None,
        query_prompt: str | None,
        positive_prompt: str | None,
        corpus: str | None,
        **other_options: Any,
    ) -> None:
        if (query_column is None) != (positive_column is None):
            raise Misuse("give both --query-column and --positive-column")
        other_columns = (negative_column, score_column, query_prompt, positive_prompt, corpus)
        if query_column is None and any(other_columns):
            raise Misuse("sentence encoders need --query-column and --positive-column")
        if score_column is not None and (negative_column or corpus):
            raise Misuse("--score-column is for pairs, without --negative-column and --corpus")
        columns = None
        if query_column is not None and positive_column is not None:
            columns = Columns(query_column, positive_column, *other_columns)
        command(columns=columns, **other_options)

    return _OPTIONS(with_columns)


def measure_encoder(model: Path, file: str, columns: Columns, options: dict[str, Any]) -> dict[str, float]:
    """Measures a sentence encoder on the texts in a file.

    Args:
        model: the directory of the encoder.
        file: the path of the examples.
        columns: the columns to compare.
        options: the other options of `evaluate`.
    """
    check_prompts(model, columns.query_prompt, columns.positive_prompt)
    reader_options = {name: options[name] for name in ("format", "delimiter", "skip_bad")}
    reader_options["header"] = not options["no_header"]
    texts = [columns.query, columns.positive, *columns.negatives]
    examples = read_columns(file, text_columns=texts, score_column=columns.score, **reader_options)
    with misuse(OSError):
        corpus = [row.text for row in read_corpus(columns.corpus, options["text_column"])] if columns.corpus else []
    with quiet_imports():
        from keras_bert import BertSentenceEncoder
    prompts = (columns.query_prompt, columns.positive_prompt)
    settings = {} if prompts == (None, None) else {"column_prompts": prompts}
    from_preset = functools.partial(BertSentenceEncoder.from_preset, **settings)
    encoder = load_in_precision(from_preset, model, options["precision"], options["calibration"])
    x, y = examples.xy
    with misuse(TypeError):
        encoder.kind.check(encoder.columns(x), y)
        score = encoder.kind_with(corpus).score(encoder.answers(x), y)
    # With a corpus, drops measures of the search without it, which is easier.
    measures = {name: value for name, value in score.measures.items() if not corpus or name not in score.details}
    return {**measures, **score.details}


_WORST_ANSWERS = 100  # the number of worst answers in a report


@click.command()
@click.argument("model", callback=find_preset)
@click.argument("file")
@column_options
@click.option("--skip-bad", is_flag=True, help="Leave out examples that cannot be used, and print their number.")
@click.option("--errors", metavar="FILE", help="Write the wrongly answered examples to FILE: .jsonl, .csv or .tsv.")
@click.option(
    "--report", metavar="FILE", help="Write the measures, the confusion matrix and the worst answers to FILE, as HTML."
)
@click.option("--overwrite", is_flag=True, help="Replace FILE of --errors and of --report if it exists.")
@options
@raw_cells_option
@precision_options
def evaluate(
    model: Path, file: str, errors: str | None, report: str | None, overwrite: bool, calibration: str | None,
    columns: Columns | None, **options: Any,
) -> None:  # fmt: skip
    """Measure a fine-tuned model on examples.

    MODEL is a directory that `finetune` wrote; FILE holds the examples. Writes one measure per line: its name, a tab,
    and the number. Then come macro averages, and precision, recall, F1 and support of each class (or entity type, or
    word label). Support is the number of examples with this label. --report writes a page that needs no network: the
    measures as tables, the confusion matrix, and the 100 worst answers.

    --errors writes a row for each wrongly answered example: its line (or row) in FILE, what the model read, the label,
    the answer and its probability, and all other columns of FILE. A column with one of these names is written as
    `given_label` and so on. For regression, it writes the examples whose error is at least rmse, the largest first.

    A sentence encoder is measured on --query-column and --positive-column: each query searches for its positives among
    all of them, and the texts of --corpus. With --score-column, the correlation of similarities and scores is measured.

    \b
    Examples:
      $ keras-bert evaluate my-model dev.tsv --text-column sentence
      accuracy	0.9151
      $ keras-bert evaluate my-encoder sts.csv --query-column first --positive-column second --score-column score
      spearman	0.8674
      pearson	0.8696
    """
    if columns is not None:
        if errors or report:
            raise Misuse("--errors and --report are for models with labels, not for sentence encoders")
        _print_measures(measure_encoder(model, file, columns, {**options, "calibration": calibration}))
        return
    errors_format = streams.format_of(errors, streams.ROWS)
    if report:
        streams.format_of(report, ["html"])
    column_names = {name: options[name] for name in ("text_column", "text_pair_column", "label_column")}
    reader_options = {"header": not options["no_header"], **{name: options[name] for name in ("format", "delimiter")}}
    from keras_bert.tasks.registry import check_examples, load_task

    with misuse(OSError):
        check_examples(model, file, **column_names, **reader_options)
    with contextlib.ExitStack() as stack:
        errors_file = stack.enter_context(streams.open_output(errors, overwrite)) if errors else None
        report_file = stack.enter_context(streams.open_output(report, overwrite)) if report else None
        import_tensorflow()
        task = load_in_precision(load_task, model, options.pop("precision"), calibration)
        examples = read_example_file(task.EXAMPLES, file, problem_type=task.kind.PROBLEM_TYPE, **options)
        x, y = examples.xy
        try:
            task.kind.check(task.columns(x), y)
            other_columns = examples.rows.other_cells() if examples.rows and errors else []
            answers = task.answers(x)
            score = task.kind.score(answers, y)
            all_measures = {**score.measures, **score.details}
            if errors_file is not None:
                mistakes = (_row(task, examples, i, answers[i], other_columns[i]) for i in score.mistakes)
                streams.RowWriter(errors_file, errors_format).write(mistakes)
            if report_file is not None:
                assert y is not None  # the model was measured with labels
                title = f"{model.resolve().name}: {len(examples):,} examples from {Path(file).name}"
                streams.write_lines(report_file, [_page(title, task, x, y, answers, score)])
        except (ImportError, TypeError, ValueError) as error:
            raise Misuse(one_line(error)) from error
    _print_measures(all_measures)


def _print_measures(measures: dict[str, float]) -> None:
    for name, value in measures.items():
        echo(f"{name}\t{value}" if isinstance(value, int) else f"{name}\t{value:.4f}")


def _page(
    title: str,
    task: BertTask,
    x: Sequence[Any],
    y: Sequence[Any],
    answers: Sequence[Any],
    score: Score,
) -> str:
    from keras_bert.visualize import evaluation_page

    caption = f"{min(_WORST_ANSWERS, len(score.worst)):,} of {len(score.worst):,}, the worst first."
    worst_answers = [
        evaluation_page.ExampleAnswer(_texts_of_example(task, x, i), task.kind.compared(answers[i], y[i]))
        for i in score.worst[:_WORST_ANSWERS]
    ]
    return evaluation_page.page(title, score.measures, score.details, score.confusion, worst_answers, caption)


def _row(
    task: BertTask, examples: Examples, number: int, answer: Any, other_columns: Mapping[str, object]
) -> dict[str, object]:
    """Builds a row of --errors."""
    assert examples.rows is not None  # they are from a file
    assert examples.labels is not None  # the model was measured with labels
    row = {name: places[number] for name, places in examples.rows.places.items()}
    row |= _texts_of_example(task, examples.x, number)
    row |= {"label": examples.labels[number], **task.kind.columns(answer)}
    return {**row, **streams.rename_columns(other_columns, row)}


def _texts_of_example(task: BertTask, x: Sequence[Any], number: int) -> dict[str, Any]:
    """Picks the texts of an example, by the names of the model's inputs."""
    columns = x if isinstance(x, tuple) else (x,)
    return {name: column[number] for name, column in zip(task.text_names, columns, strict=True)}

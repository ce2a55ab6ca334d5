"""keras-bert evaluate: the measures of a fine-tuned model on the examples in a file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from keras_bert.cli import example_files, quiet, streams


@click.command()
@click.argument("model", callback=streams.find_preset)
@click.argument("file")
@example_files.column_options
@click.option("--skip-bad", is_flag=True, help="Leave out examples that cannot be used, and say how many they are.")
@click.option("--errors", metavar="FILE", help="Write the examples that are answered wrongly to FILE, as JSON lines.")
@click.option("--overwrite", is_flag=True, help="Replace FILE of --errors if it exists.")
def evaluate(model: Path, file: str, errors: str | None, overwrite: bool, **options: Any) -> None:
    """Measure a fine-tuned model on examples.

    MODEL is a directory that `finetune` has written; FILE holds the examples. Writes one measure per line: its name, a
    tab, and the number. Those of each class, or kind of entity, follow. --errors writes what the model read, the label,
    and its answer, of each example that is not answered correctly.

    \b
    Example:
      $ keras-bert evaluate my-model dev.tsv --text-column sentence
      accuracy	0.9151
    """
    with quiet.imports():
        from keras_bert.tasks.table import load_task
    task = streams.load(load_task, model)
    examples = example_files.read(task.EXAMPLES, file, **task.example_settings, **options)
    x, y = examples.xy
    with contextlib.ExitStack() as stack:
        wrong = errors and stack.enter_context(streams.open_output(errors, overwrite))
        try:
            task.check_examples(x, y)
            answers = task.answers(x)
            measures = {**task.measures(answers, y), **task.details(answers, y)}
            if errors:
                streams.write_lines(wrong, _lines(task.mistakes(answers, y), task.text_names, x, y, answers))
        except (ImportError, TypeError, ValueError) as error:
            raise streams.Misuse(streams.one_line(error)) from error
    for name, value in measures.items():
        click.echo(f"{name}\t{value:.4f}")


def _lines(numbers: list[int], names: tuple[str, ...], x: Any, y: Any, answers: list[Any]) -> Iterator[str]:
    columns = x if isinstance(x, tuple) else (x,)
    for i in numbers:
        read = {name: column[i] for name, column in zip(names, columns, strict=True)}
        yield streams.json_line(**read, label=y[i], answer=answers[i])

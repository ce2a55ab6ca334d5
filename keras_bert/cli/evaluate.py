"""keras-bert evaluate: the measures of a fine-tuned model on the examples in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from keras_bert.cli import example_files, quiet, streams


@click.command()
@click.argument("model", callback=streams.find_preset)
@click.argument("file")
@example_files.column_options
@click.option("--skip-bad", is_flag=True, help="Leave out examples that cannot be used, and say how many they are.")
def evaluate(model: Path, file: str, **options: Any) -> None:
    """Measure a fine-tuned model on examples.

    MODEL is a directory that `finetune` has written; FILE holds the examples. Writes one measure per line: its name, a
    tab, and the number.

    \b
    Example:
      $ keras-bert evaluate my-model dev.tsv --text-column sentence
      accuracy	0.9151
    """
    with quiet.imports():
        from keras_bert.tasks.table import load_task
        from keras_bert.training import evaluate as measure
    task = streams.load(load_task, model)
    examples = example_files.read(task.EXAMPLES, file, **task.example_settings, **options)
    try:
        measures = measure(task, *examples.xy)
    except (ImportError, ValueError) as error:
        raise streams.Misuse(streams.one_line(error)) from error
    for name, value in measures.items():
        click.echo(f"{name}\t{value:.4f}")

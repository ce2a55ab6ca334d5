"""Fine-tune a model for a task.

Writes the model into DIR, for `predict`, `evaluate`, `export serving` and transformers, and report.md with its
measures. After an interruption, the same command resumes the run. To train a model further, start from it: --preset
my-model --output my-model-2.

\b
Examples:
  $ keras-bert finetune classify --train train.tsv --eval dev.tsv --text-column sentence --output my-model
  $ keras-bert predict my-model "A lovely film"
"""

from __future__ import annotations

from typing import Any

import click

from keras_bert.cli import runs
from keras_bert.cli.options import preset_option
from keras_bert.recipe import FineTuningRecipe
from keras_bert.task_table import FINE_TUNING, Task


@click.group(help=__doc__)
def finetune() -> None:
    pass


def _add_command(task: Task) -> None:
    """Adds the command of a task."""

    @finetune.command(task.command, help=task.help)
    @runs.fine_tuning_options(FineTuningRecipe, task.files, FineTuningRecipe.lacks(str(task.command)))
    @preset_option
    def command(**options: Any) -> None:
        runs.fine_tune(str(task.command), **options)


for _task in FINE_TUNING.values():
    _add_command(_task)

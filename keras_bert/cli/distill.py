"""Distill a teacher into a model with fewer layers.

The teacher is a classifier or a masked language model. The student starts with layers of the teacher: for 6 of 12,
these are 0, 2, 4, 7, 9, 11. After an interruption, the same command resumes the run.

\b
Examples:
  $ keras-bert distill classify --teacher my-model --num-layers 3 --train train.tsv --output small
  $ keras-bert distill pretrain books/ --teacher my-bert --num-layers 6 --steps 10000 --output small
"""

from __future__ import annotations

from typing import Any

import click

from keras_bert.cli import pretrain, runs
from keras_bert.cli.options import find_preset, together
from keras_bert.data.task_files import ClassifyFiles
from keras_bert.recipe import FineTuningWithTeacher, PretrainingWithTeacher


@click.group(help=__doc__)
def distill() -> None:
    pass


_TEACHER = "The model to learn from: a directory, or hf://org/name."
_teaching = together(
    click.option("--teacher", required=True, callback=find_preset, metavar="MODEL", help=_TEACHER),
    click.option("--num-layers", type=click.IntRange(1), required=True, help="The number of layers of the student."),
)


@distill.command()
@_teaching
@runs.fine_tuning_options(
    FineTuningWithTeacher, ClassifyFiles, without=("few_shot", "problem_type", "long_text", "pooling")
)
def classify(**options: Any) -> None:
    """Distill a classifier that `finetune classify` trained.

    \b
    Example:
      $ keras-bert distill classify --teacher my-model --num-layers 3 --train train.csv --eval dev.csv --output small
    """
    runs.fine_tune("classify", **options)


@distill.command("pretrain")
@_teaching
@pretrain.options(PretrainingWithTeacher, objective="sentences")
def masked_language_model(**options: Any) -> None:
    """Distill a masked language model on text: each FILE is UTF-8, or a directory of .txt files.

    \b
    Example:
      $ keras-bert distill pretrain books/ --teacher my-bert --num-layers 6 --steps 10000 --output small
    """
    runs.pretrain(**options)

"""keras-bert distill: a smaller model in a directory, trained on the answers of a larger one."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click

from keras_bert.cli import example_files, fine_tuning, models, pretrain
from keras_bert.cli.errors import Misuse
from keras_bert.cli.options import together
from keras_bert.recipe import FineTuningWithTeacher, PretrainingWithTeacher


@click.group()
def distill() -> None:
    """Distill a teacher into a model with fewer layers.

    The teacher is a classifier or a masked language model. The student starts with layers of the teacher: for 6 of 12,
    these are 0, 2, 4, 7, 9, 11. After an interruption, the same command resumes the run.

    \b
    Examples:
      $ keras-bert distill classify --teacher my-model --num-layers 3 --train train.tsv --output small
      $ keras-bert distill pretrain books/ --teacher my-bert --num-layers 6 --steps 10000 --output small
    """


_TEACHER = "The model to learn from: a directory, or hf://org/name."
_teaching = together(
    click.option("--teacher", required=True, callback=models.find_preset, metavar="MODEL", help=_TEACHER),
    click.option("--num-layers", type=click.IntRange(1), required=True, help="The number of layers of the student."),
)


@distill.command()
@_teaching
@fine_tuning.options(FineTuningWithTeacher)
@example_files.column_options
def classify(teacher: Path, num_layers: int, train: str, validation: str | None, **options: Any) -> None:
    """Distill a classifier that `finetune classify` trained.

    \b
    Example:
      $ keras-bert distill classify --teacher my-model --num-layers 3 --train train.csv --eval dev.csv --output small
    """
    columns = {name: options.pop(name) for name in example_files.COLUMNS}

    @functools.cache
    def model() -> Any:
        from keras_bert.tasks.table import load_task

        found = models.load(functools.partial(load_task, sequence_length=options["sequence_length"]), teacher)
        try:
            found.check_teacher(found)
        except ValueError as error:
            raise Misuse(f"--teacher: {error}") from error
        return found

    def read(path: str) -> Any:
        found, skip_bad = model(), options["skip_bad"]
        return example_files.read(found.EXAMPLES, path, skip_bad, **found.example_settings, **columns)

    def make(learned: Any, preset: Path, sequence_length: int | None) -> Any:
        from keras_bert.training import student_of

        model().targets(learned.xy[1])  # raises if the teacher lacks a label
        return student_of(model(), num_layers), {"teacher": model()}

    settings = {"num_layers": num_layers, **columns}
    fine_tuning.train_on_examples(read, make, train, validation, settings, preset=teacher, **options)


@distill.command("pretrain")
@_teaching
@pretrain.options(PretrainingWithTeacher, objective="sentences")
def of_tokens(teacher: Path, num_layers: int, corpus: tuple[str, ...], **options: Any) -> None:
    """Distill a masked language model on text: each FILE is UTF-8, or a directory of .txt files.

    \b
    Example:
      $ keras-bert distill pretrain books/ --teacher my-bert --num-layers 6 --steps 10000 --output small
    """

    def prepare(sequence_length: int, pairs: bool) -> pretrain.Prepared:
        from keras_bert import formats
        from keras_bert.pretraining import BertPretrainer
        from keras_bert.training import student_of

        with formats.open_checkpoint(teacher) as checkpoint:
            if "masked_lm" not in checkpoint.heads:
                raise ValueError(f"--teacher: {teacher} has no masked language modeling head to learn from")
        model = BertPretrainer.from_preset(teacher, sequence_length=sequence_length, pairs=pairs)
        return pretrain.Prepared(
            model.preprocessor, model.encoder.config, lambda: (student_of(model, num_layers), {"teacher": model})
        )

    pretrain.train_on_text(prepare, corpus, {"teacher": teacher, "num_layers": num_layers}, **options)

"""Distill a teacher into fewer layers or static vectors.

A teacher that is a classifier or a masked language model teaches a student that starts with layers of the teacher: for
6 of 12, these are 0, 2, 4, 7, 9, 11. After an interruption, the same command resumes the run. A sentence encoder
becomes static vectors, a table without layers, in minutes, without training.

\b
Examples:
  $ keras-bert distill classify --teacher my-model --num-layers 3 --train train.tsv --output small
  $ keras-bert distill pretrain books/ --teacher my-bert --num-layers 6 --steps 10000 --output small
  $ keras-bert distill static --teacher all-MiniLM-L6-v2 --output static
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from keras_bert import files
from keras_bert.cli import pretrain, runs
from keras_bert.cli.options import find_preset, together
from keras_bert.cli.terminal import echo, misuse
from keras_bert.data.task_files import ClassifyFiles
from keras_bert.recipe import FineTuningWithTeacher, PretrainingWithTeacher


@click.group(help=__doc__)
def distill() -> None:
    pass


_TEACHER = "The model to learn from: a directory, or hf://org/name."
_teacher_option = click.option("--teacher", required=True, callback=find_preset, metavar="MODEL", help=_TEACHER)
_teaching = together(
    _teacher_option,
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
    runs.pretrain(PretrainingWithTeacher, **options)


@distill.command("static")
@_teacher_option
@click.option("--output", required=True, metavar="DIR", help="Write the model into DIR.")
@click.option("--overwrite", is_flag=True, help="Replace a model in DIR.")
@click.option(
    "--size", type=click.IntRange(1), default=256, show_default=True, help="The number of values of a vector."
)
def static_vectors(teacher: Path, output: str, overwrite: bool, size: int) -> None:
    """Make static vectors of a sentence encoder: a vector for each token, whose mean is that of a text.

    They are faster than a model with layers, and worse. `finetune embed --preset DIR` improves them on pairs of
    texts. model2vec and sentence-transformers read them, too.

    \b
    Example:
      $ keras-bert distill static --teacher all-MiniLM-L6-v2 --output static
    """
    from keras_bert.formats import model_files

    with misuse(OSError):
        files.check_writable(output)
        files.refuse_to_overwrite(Path(output), model_files.present(Path(output), model_files.MODEL), overwrite)
        if teacher.resolve().is_relative_to(Path(output).resolve()):
            raise FileExistsError(f"{teacher} is read, and --overwrite replaces it; choose another output")
    from keras_bert.tasks.registry import load_as
    from keras_bert.training import static_of

    with misuse(OSError):
        student = static_of(load_as("BertSentenceEncoder", teacher), size)
    student.save_preset(output, overwrite)
    tokens, size = student.encoder.config.vocab_size, student.vector_size
    echo(f"{tokens:,} vectors of {size} values in {output}")

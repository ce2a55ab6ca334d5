"""keras-bert distill: a model -> a smaller one in a directory, which has learned what the first one answers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from keras_bert.cli import examples, finetune, pretrain, streams


@click.group()
def distill() -> None:
    """Teach a model with fewer layers what a teacher answers, of classes or of hidden pieces.

    It begins with layers of the teacher: of twelve, six are 0, 2, 4, 7, 9, 11. If a command was interrupted, the same
    one goes on where it was.

    \b
    Examples:
      $ keras-bert distill classify --teacher my-model --layers 3 --train train.tsv --eval dev.tsv --output small-model
      $ keras-bert distill pretrain books/ --teacher my-bert --layers 6 --steps 10000 --output small-bert
    """


def _teaching(command: Callable) -> Callable:
    options = [
        click.option(
            "--teacher",
            required=True,
            callback=streams.find_preset,
            metavar="MODEL",
            help="Whose answers are learned: a directory, or hf://org/name.",
        ),
        click.option("--layers", type=click.IntRange(1), required=True, help="Of the student."),
        click.option("--temperature", type=float, default=2.0, show_default=True, help="Of the answers."),
    ]
    return functools.reduce(lambda inner, option: option(inner), reversed(options), command)


@distill.command()
@_teaching
@finetune.recipe
@examples.column_options
def classify(
    teacher: Path, layers: int, temperature: float, train: str, evaluation: str | None, **options: Any
) -> None:
    """A classifier of texts or pairs, from one that `finetune classify` has made.

    \b
    Example:
      $ keras-bert distill classify --teacher my-model --layers 3 --train train.csv --eval dev.csv --output small-model
    """
    columns = {name: options.pop(name) for name in examples.COLUMNS}

    @functools.cache
    def model() -> Any:
        from keras_bert.tasks import BertClassifier
        from keras_bert.tasks.loading import load_task

        load = functools.partial(load_task, sequence_length=options["sequence_length"])
        found = streams.load(load, teacher)
        if not isinstance(found, BertClassifier):
            raise streams.Misuse(f"--teacher: {teacher} is a {type(found).__name__}; expected a BertClassifier")
        return found

    def read(path: str) -> Any:
        return examples.read_texts(path, model().problem_type, **columns, skip_bad=options["skip_bad"])

    def make(learned: Any, preset: Path, sequence_length: int | None) -> Any:
        from keras_bert.pretraining import student_of

        model().targets(learned.labels)  # a label that the teacher does not know is named now
        return student_of(model(), layers), {"teacher": model(), "temperature": temperature}

    settings = {"layers": layers, "temperature": temperature, **columns}
    finetune.train_on_examples(read, make, train, evaluation, settings, preset=teacher, **options)


@distill.command("pretrain")
@_teaching
@pretrain.recipe(objective="sentences")
def of_pieces(teacher: Path, layers: int, temperature: float, corpus: tuple[str, ...], **options: Any) -> None:
    """A masked language model, from any other one, with text: each FILE is UTF-8, or a directory of .txt files.

    \b
    Example:
      $ keras-bert distill pretrain books/ --teacher my-bert --layers 6 --steps 10000 --output small-bert
    """

    def prepare(sequence_length: int, pairs: bool) -> pretrain.Prepared:
        from keras_bert import checkpoints
        from keras_bert.pretraining import BertPretrainer, student_of

        with checkpoints.open_checkpoint(teacher) as checkpoint:
            if "masked_lm" not in checkpoint.heads:
                raise ValueError(f"--teacher: {teacher} has no masked-language head, whose answers could be learned")
        model = BertPretrainer.from_preset(teacher, sequence_length, pairs=pairs)
        more = {"teacher": model, "temperature": temperature}
        return pretrain.Prepared(model.preprocessor, model.encoder.config, lambda: (student_of(model, layers), more))

    told = {"teacher": teacher, "layers": layers, "temperature": temperature}
    pretrain.train_on_text(prepare, corpus, told, **options)

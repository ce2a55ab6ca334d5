"""keras-bert finetune: examples -> a fine-tuned model in a directory, with a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from keras_bert import data
from keras_bert.cli import example_files, fine_tuning
from keras_bert.cli.finetune_embed import embed
from keras_bert.cli.finetune_rank import rank
from keras_bert.cli.options import preset_option
from keras_bert.recipe import FineTuningRecipe


@click.group(commands=[rank, embed])
def finetune() -> None:
    """Fine-tune a model to classify, tag, answer, rank or embed.

    Writes the model into DIR, for `predict`, `evaluate`, `export serving` and transformers, and report.md with its
    measures. After an interruption, the same command resumes the run. To train a model further, start from it: --preset
    my-model --output my-model-2.

    \b
    Examples:
      $ keras-bert finetune classify --train train.tsv --eval dev.tsv --text-column sentence --output my-model
      $ keras-bert predict my-model "A lovely film"
    """


def _long_text(*choices: str) -> Callable:
    return click.option(
        "--long-text",
        type=click.Choice(choices),
        default=choices[0],
        show_default=True,
        help="How to fit texts that are too long.",
    )


@finetune.command()
@fine_tuning.options(FineTuningRecipe)
@preset_option
@example_files.column_options
@click.option(
    "--problem-type",
    type=click.Choice(example_files.PROBLEM_TYPES),
    default=example_files.PROBLEM_TYPES[0],
    show_default=True,
    help="The kind of labels: one class per text, several, or numbers.",
)
@_long_text("truncate", "head_tail", "windows")
def classify(train: str, validation: str | None, problem_type: str, long_text: str, **options: Any) -> None:
    """Classify texts or pairs: CSV, TSV, JSON lines or Parquet, or a directory with one directory per class.

    \b
    Example:
      $ keras-bert finetune classify --train train.csv --eval dev.csv --output my-model
    """
    columns = {name: options.pop(name) for name in example_files.COLUMNS}

    def read(path: str) -> data.TextExamples:
        return example_files.read(data.TextExamples, path, options["skip_bad"], problem_type, **columns)

    def make(learned: data.TextExamples, preset: Path, **settings: Any) -> Any:
        from keras_bert import BertClassifier

        settings |= {"problem_type": problem_type, "pairs": learned.pairs is not None, "long_text": long_text}
        return BertClassifier.from_preset(preset, labels=learned.label_names, **settings), {}

    settings = {"problem_type": problem_type, "long_text": long_text, **columns}
    fine_tuning.train_on_examples(read, make, train, validation, settings, **options)


@finetune.command()
@fine_tuning.options(FineTuningRecipe, without="class_weight")
@preset_option
@click.option("--label-column", type=int, default=-1, show_default=True, help="The column of the labels; -1: the last.")
@_long_text("truncate", "windows")
def tag(train: str, validation: str | None, label_column: int, long_text: str, **options: Any) -> None:
    """Label words, such as named entities: CoNLL's columns, one word per line, a blank line between sentences.

    \b
    Example:
      $ keras-bert finetune tag --train train.conll --eval dev.conll --output my-tagger
    """

    def read(path: str) -> data.WordExamples:
        return example_files.read(data.WordExamples, path, options["skip_bad"], label_column=label_column)

    def make(learned: data.WordExamples, preset: Path, **settings: Any) -> Any:
        from keras_bert import BertTokenClassifier

        settings |= {"labels": learned.label_names, "long_text": long_text}
        return BertTokenClassifier.from_preset(preset, **settings), {}

    fine_tuning.train_on_examples(
        read, make, train, validation, {"label_column": label_column, "long_text": long_text}, **options
    )


@finetune.command()
@fine_tuning.options(FineTuningRecipe, without="class_weight")
@preset_option
def answer(train: str, validation: str | None, **options: Any) -> None:
    """Answer questions by spans of a text: SQuAD's JSON, version 1.1 or 2.0.

    \b
    Example:
      $ keras-bert finetune answer --train train-v1.1.json --eval dev-v1.1.json --output my-answerer
    """

    def read(path: str) -> data.QuestionExamples:
        return example_files.read(data.QuestionExamples, path, options["skip_bad"])

    def make(learned: data.QuestionExamples, preset: Path, **settings: Any) -> Any:
        from keras_bert import BertQuestionAnswerer

        return BertQuestionAnswerer.from_preset(preset, **settings), {}

    fine_tuning.train_on_examples(read, make, train, validation, {}, **options)

"""keras-bert finetune: fine-tunes a model on examples, and writes it into a directory, with a report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from keras_bert.choices import RANKING_LOSSES, SENTENCE_LOSSES
from keras_bert.cli import runs
from keras_bert.cli.options import column_options, format_options, preset_option
from keras_bert.cli.terminal import Misuse
from keras_bert.data.texts import LABEL_KINDS
from keras_bert.recipe import FineTuningRecipe


@click.group()
def finetune() -> None:
    """Fine-tune a model to classify, tag, answer, rank, choose or embed.

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
@runs.fine_tuning_options(FineTuningRecipe)
@preset_option
@column_options
@click.option(
    "--problem-type",
    type=click.Choice(list(LABEL_KINDS)),
    default="single_label_classification",
    show_default=True,
    help="The kind of labels: one class per text, several, or numbers.",
)
@_long_text("truncate", "head_tail", "windows")
@click.option(
    "--pooling",
    type=click.Choice(("first", "mean", "unit_mean")),
    help="What the head reads: the first token, the mean of all, or this mean scaled to length 1. By default as in the "
    "model's family; with few examples, as the preset's vectors of texts are pooled.",
)
def classify(**options: Any) -> None:
    """Classify texts or pairs: CSV, TSV, JSON lines, Parquet or Excel, or a directory with one directory per class.

    With few examples of each class, the encoder learns from pairs of them, then the head is fitted (--few-shot).

    \b
    Example:
      $ keras-bert finetune classify --train train.csv --eval dev.csv --output my-model
    """
    runs.fine_tune("classify", **options)


@finetune.command()
@runs.fine_tuning_options(FineTuningRecipe, without=("few_shot",))
@preset_option
@click.option("--label-column", type=int, default=-1, show_default=True, help="The column of the labels; -1: the last.")
@_long_text("truncate", "windows")
@click.option("--crf", is_flag=True, help="Label the words of a sentence together, by a conditional random field.")
def tag(**options: Any) -> None:
    """Label words, such as named entities: CoNLL's columns, one word per line, a blank line between sentences.

    \b
    Example:
      $ keras-bert finetune tag --train train.conll --eval dev.conll --output my-tagger
    """
    runs.fine_tune("tag", **options)


@finetune.command()
@runs.fine_tuning_options(FineTuningRecipe, without=("class_weight", "few_shot"))
@preset_option
def answer(**options: Any) -> None:
    """Answer questions by spans of a text: SQuAD's JSON, version 1.1 or 2.0, or its rows as JSON lines or Parquet.

    \b
    Example:
      $ keras-bert finetune answer --train train-v1.1.json --eval dev-v1.1.json --output my-answerer
    """
    runs.fine_tune("answer", **options)


@finetune.command()
@runs.fine_tuning_options(FineTuningRecipe, without=("class_weight", "few_shot"))
@preset_option
@column_options
@click.option(
    "--negative-column",
    "negative_columns",
    multiple=True,
    metavar="C",
    help="A column of texts that answer the query less well, or not; may be repeated. With it, rows are lists.",
)
@click.option(
    "--score-column",
    "score_columns",
    multiple=True,
    metavar="C",
    help="For lists, a column of a better model's scores, or of labels 0, 1, 2 ... Repeat it, first for the text, "
    "then for each negative; or, for margins, only for each negative. By default, only the text is an answer.",
)
@click.option(
    "--loss",
    type=click.Choice(RANKING_LOSSES),
    help="The loss. By default binary_cross_entropy for pairs, margin_mse for lists with scores, else lambda.",
)
def rank(text_pair_column: str | None, **options: Any) -> None:
    """Train a reranker on a table with a query, a text and a label, 1 or 0; or on lists.

    By default, the query is in the column `text`, and the text that may answer it in `text_pair`. A label is 1 for an
    answer, 0 for none, or between. With --negative-column, a row is a list: a query, its answer, and other texts, such
    as those that `mine` finds. `search --rerank` takes the model.

    \b
    Examples:
      $ keras-bert finetune rank --train train.csv --eval dev.csv --output my-reranker
      $ keras-bert finetune rank --train mined.jsonl --text-column query --text-pair-column positive \\
          --negative-column negative --output my-reranker
    """
    options["text_pair_column"] = text_pair_column or "text_pair"
    runs.fine_tune("rank", **options)


@finetune.command()
@runs.fine_tuning_options(FineTuningRecipe, without=("class_weight", "few_shot"))
@preset_option
@click.option("--query-column", default="query", show_default=True, metavar="C", help="The column of the anchors.")
@click.option(
    "--positive-column", default="positive", show_default=True, metavar="C", help="The column of the positives."
)
@click.option(
    "--negative-column", "negative_columns", multiple=True, metavar="C", help="A column of negatives; may be repeated."
)
@click.option(
    "--score-column",
    "score_columns",
    multiple=True,
    metavar="C",
    help="The column of the similarity of query and positive, a number. May be repeated: a column of a "
    "reranker's scores for the positive and for each negative.",
)
@click.option("--query-prompt", metavar="NAME", help="The name of the model's prompt for queries.")
@click.option("--positive-prompt", metavar="NAME", help="The name of the model's prompt for positives and negatives.")
@click.option(
    "--loss",
    type=click.Choice(SENTENCE_LOSSES),
    help="The loss. By default cosent for pairs with scores, margin_mse for more texts with scores, else "
    "multiple_negatives_ranking.",
)
@click.option(
    "--matryoshka-dims",
    callback=lambda *arguments: _parse_numbers(arguments[-1]),
    metavar="N,...",
    help="Train vectors that can be truncated to each of these sizes, such as 384,128.",
)
@click.option(
    "--mini-batch-size",
    type=click.IntRange(1),
    metavar="N",
    help="Compute N texts at a time: a large --batch-size with the memory of a small one.",
)
@format_options
def embed(**options: Any) -> None:
    """Train sentence vectors on pairs, triplets or pairs with scores: CSV, TSV, JSON lines, Parquet or Excel.

    Without scores, a query learns to find its positive among all positives and negatives of a batch, so a large
    --batch-size helps, with --mini-batch-size if memory is short. Equal texts are never each other's negatives. Scores
    of pairs may be any numbers; scores of triplets, such as a reranker's, should be about as large as cosines.
    If --eval has no negatives, pairs are measured.

    \b
    Example:
      $ keras-bert finetune embed --train qa.jsonl --query-column question --positive-column context --output my-encoder
    """
    runs.fine_tune("embed", **options)


@finetune.command()
@runs.fine_tuning_options(FineTuningRecipe, without=("class_weight", "few_shot"))
@preset_option
@click.option("--question-column", default="question", show_default=True, metavar="C", help="The column of questions.")
@click.option(
    *("--choice-column", "choice_columns"),
    multiple=True,
    required=True,
    metavar="C",
    help="A column of choices; repeat it, in the order in which the labels count them.",
)
@click.option(
    *("--label-column",),
    default="label",
    show_default=True,
    metavar="C",
    help="The number of the right choice, from 0.",
)
@format_options
def choose(**options: Any) -> None:
    """Choose the best of several answers: CSV, TSV, JSON lines, Parquet or Excel, with a column for each choice.

    \b
    Example:
      $ keras-bert finetune choose --train swag.csv --question-column sent1 --choice-column ending0 \\
          --choice-column ending1 --choice-column ending2 --choice-column ending3 --output my-chooser
    """
    runs.fine_tune("choose", **options)


def _parse_numbers(text: str | None) -> tuple[int, ...]:
    """Parses positive whole numbers with commas between them. Raises Misuse for anything else."""
    try:
        numbers = tuple(int(each) for each in text.split(",")) if text else ()
    except ValueError:
        numbers = (0,)
    if any(number < 1 for number in numbers):
        raise Misuse(f"--matryoshka-dims is {text}; expected whole numbers with commas, such as 384,128")
    return numbers

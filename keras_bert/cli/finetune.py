"""Fine-tune a model for one of six tasks.

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
from keras_bert.tasks.file_settings import AnswerFiles, ChooseFiles, ClassifyFiles, EmbedFiles, RankFiles, TagFiles


@click.group(help=__doc__)
def finetune() -> None:
    pass


@finetune.command()
@runs.fine_tuning_options(FineTuningRecipe, ClassifyFiles)
@preset_option
def classify(**options: Any) -> None:
    """Classify texts or pairs: CSV, TSV, JSON lines, Parquet or Excel, or a directory with one directory per class.

    With few examples of each class, the encoder learns from pairs of them, then the head is fitted (--few-shot).

    \b
    Example:
      $ keras-bert finetune classify --train train.csv --eval dev.csv --output my-model
    """
    runs.fine_tune("classify", **options)


@finetune.command()
@runs.fine_tuning_options(FineTuningRecipe, TagFiles, without=("few_shot",))
@preset_option
def tag(**options: Any) -> None:
    """Label words, such as named entities: CoNLL's columns, one word per line, a blank line between sentences.

    \b
    Example:
      $ keras-bert finetune tag --train train.conll --eval dev.conll --output my-tagger
    """
    runs.fine_tune("tag", **options)


@finetune.command()
@runs.fine_tuning_options(FineTuningRecipe, AnswerFiles, without=("class_weight", "few_shot"))
@preset_option
def answer(**options: Any) -> None:
    """Answer questions by spans of a text: SQuAD's JSON, version 1.1 or 2.0, or its rows as JSON lines or Parquet.

    \b
    Example:
      $ keras-bert finetune answer --train train-v1.1.json --eval dev-v1.1.json --output my-answerer
    """
    runs.fine_tune("answer", **options)


@finetune.command()
@runs.fine_tuning_options(FineTuningRecipe, RankFiles, without=("class_weight", "few_shot"))
@preset_option
def rank(**options: Any) -> None:
    """Train a reranker on a table with a query, a text and a label, 1 or 0; or on lists.

    By default, the query is in the column `text`, and the text that may answer it in `text_pair`. A label is 1 for an
    answer, 0 for none, or between. With --negative-column, a row is a list: a query, its answer, and other texts, such
    as those that `mine` finds. `search --rerank` takes the model.

    \b
    Examples:
      $ keras-bert finetune rank --train train.csv --eval dev.csv --output my-reranker
      $ keras-bert finetune rank --train mined.jsonl --query-column query --passage-column positive \\
          --negative-column negative --output my-reranker
    """
    runs.fine_tune("rank", **options)


@finetune.command()
@runs.fine_tuning_options(FineTuningRecipe, EmbedFiles, without=("class_weight", "few_shot"))
@preset_option
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
@runs.fine_tuning_options(FineTuningRecipe, ChooseFiles, without=("class_weight", "few_shot"))
@preset_option
def choose(**options: Any) -> None:
    """Choose the best of several answers: CSV, TSV, JSON lines, Parquet or Excel, with a column for each choice.

    \b
    Example:
      $ keras-bert finetune choose --train swag.csv --question-column sent1 --choice-column ending0 \\
          --choice-column ending1 --choice-column ending2 --choice-column ending3 --output my-chooser
    """
    runs.fine_tune("choose", **options)

"""keras-bert finetune embed: columns of texts -> a sentence encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from keras_bert import data
from keras_bert.cli import example_files, fine_tuning
from keras_bert.cli.errors import Misuse
from keras_bert.cli.options import preset_option
from keras_bert.recipe import FineTuningRecipe

# The names of `keras_bert.tasks.sentence_losses.LOSSES`, without its imports, for a quick --help.
LOSSES = (
    *("multiple_negatives_ranking", "cosent", "angle"),
    *("cosine_similarity", "contrastive", "triplet", "margin_mse"),
)


@click.command()
@fine_tuning.options(FineTuningRecipe, without="class_weight")
@preset_option
@click.option("--query-column", default="query", show_default=True, metavar="C", help="The column of the anchors.")
@click.option(
    "--positive-column", default="positive", show_default=True, metavar="C", help="The column of the positives."
)
@click.option("--negative-column", multiple=True, metavar="C", help="A column of negatives; may be repeated.")
@click.option(
    "--score-column",
    multiple=True,
    metavar="C",
    help="The column of the similarity of query and positive, a number. May be repeated: a reranker's "
    "scores of the positive and of each negative.",
)
@click.option("--query-prompt", metavar="NAME", help="The name of the model's prompt for queries.")
@click.option("--positive-prompt", metavar="NAME", help="The name of the model's prompt for positives and negatives.")
@click.option(
    "--loss",
    type=click.Choice(LOSSES),
    help="The loss. By default cosent for scores of pairs, margin_mse for those of more texts, else "
    "multiple_negatives_ranking.",
)
@click.option(
    "--matryoshka-dims",
    metavar="N,...",
    help="Train vectors that can be truncated to each of these sizes, such as 384,128.",
)
@click.option(
    "--mini-batch-size",
    type=click.IntRange(1),
    metavar="N",
    help="Compute N texts at a time: a large --batch-size with the memory of a small one.",
)
@example_files.format_options
def embed(
    train: str,
    validation: str | None,
    query_column: str,
    positive_column: str,
    negative_column: tuple[str, ...],
    score_column: tuple[str, ...],
    query_prompt: str | None,
    positive_prompt: str | None,
    loss: str | None,
    matryoshka_dims: str | None,
    mini_batch_size: int | None,
    **options: Any,
) -> None:
    """Train sentence vectors on pairs, triplets or pairs with scores: CSV, TSV, JSON lines or Parquet.

    Without scores, a query learns to find its positive among all positives and negatives of a batch, so a large
    --batch-size helps, with --mini-batch-size if memory is short. Equal texts are never each other's negatives. Scores
    of pairs may be any numbers; scores of triplets, such as a reranker's, should be about as large as cosines.
    If --eval has no negatives, pairs are measured.

    \b
    Example:
      $ keras-bert finetune embed --train qa.jsonl --query-column question --positive-column context --output my-encoder
    """
    if len(score_column) > 1 and len(score_column) != 1 + len(negative_column):
        raise Misuse(
            f"--score-column is given {len(score_column)} times, but there are {1 + len(negative_column)} texts to "
            "score: --positive-column, and each --negative-column"
        )
    scores = score_column[0] if len(score_column) == 1 else score_column or None
    columns = {"text_columns": [query_column, positive_column, *negative_column], "score_column": scores}
    pairs = {"text_columns": [query_column, positive_column], "score_column": score_column[0] if score_column else None}
    dims = _numbers(matryoshka_dims)
    table = {name: options.pop(name) for name in example_files.FORMAT} | {"skip_bad": options["skip_bad"]}

    def read(path: str) -> data.ColumnExamples:
        rows = example_files.reading(table)
        if negative_column and path != train and not example_files.has_any(path, negative_column, table):
            missing = " and no ".join(map(repr, negative_column))
            click.echo(f"{path} has no {missing}: it measures pairs", err=True)
            return example_files.read_columns(path, **pairs, **rows)
        return example_files.read_columns(path, **columns, **rows)

    def make(learned: data.ColumnExamples, preset: Path, **settings: Any) -> Any:
        from keras_bert import BertSentenceEncoder
        from keras_bert.tasks import sentence_losses

        if query_prompt is not None or positive_prompt is not None:
            settings["column_prompts"] = (query_prompt, positive_prompt)
        of_scores = "margin_mse" if negative_column else "cosent"
        by_default = "multiple_negatives_ranking" if learned.scores is None else of_scores
        chosen = sentence_losses.LOSSES[loss or by_default]()
        if dims:
            chosen = sentence_losses.MatryoshkaLoss(chosen, dims)
        return BertSentenceEncoder.from_preset(preset, **settings), {"loss": chosen, "mini_batch_size": mini_batch_size}

    told = {"query_column": query_column, "positive_column": positive_column, "negative_column": negative_column}
    told |= {"score_column": score_column, "query_prompt": query_prompt, "positive_prompt": positive_prompt}
    settings = {**told, "loss": loss, "matryoshka_dims": matryoshka_dims, "mini_batch_size": mini_batch_size}
    fine_tuning.train_on_examples(read, make, train, validation, settings, **options)


def _numbers(text: str | None) -> list[int]:
    """The whole numbers in a list with commas. Raises Misuse for anything else."""
    try:
        numbers = [int(each) for each in text.split(",")] if text else []
    except ValueError:
        numbers = [0]
    if any(number < 1 for number in numbers):
        raise Misuse(f"--matryoshka-dims is {text}; expected whole numbers with commas, such as 384,128")
    return numbers

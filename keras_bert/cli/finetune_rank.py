"""keras-bert finetune rank: pairs or lists of texts -> a reranker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from keras_bert import data
from keras_bert.cli import example_files, fine_tuning
from keras_bert.cli.errors import Misuse
from keras_bert.cli.options import preset_option
from keras_bert.recipe import FineTuningRecipe

LOSSES = ("binary_cross_entropy", "lambda", "list_net", "margin_mse")  # of `tasks.ranking_losses`, without its imports


@click.command()
@fine_tuning.options(FineTuningRecipe, without="class_weight")
@preset_option
@example_files.column_options
@click.option(
    "--negative-column",
    multiple=True,
    metavar="C",
    help="A column of texts that answer the query less well, or not; may be repeated. Rows are then lists.",
)
@click.option(
    "--score-column",
    multiple=True,
    metavar="C",
    help="For lists, the column of a better model's score of the text, then one for each negative; or only "
    "the margins, one for each negative; or labels 0, 1, 2 ... By default, the text is the answer.",
)
@click.option(
    "--loss",
    type=click.Choice(LOSSES),
    help="The loss. By default binary_cross_entropy for pairs, margin_mse for lists with scores, else lambda.",
)
def rank(
    train: str,
    validation: str | None,
    negative_column: tuple[str, ...],
    score_column: tuple[str, ...],
    loss: str | None,
    **options: Any,
) -> None:
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
    columns = {name: options.pop(name) for name in example_files.COLUMNS}
    columns["text_pair_column"] = columns["text_pair_column"] or "text_pair"
    passages = [columns["text_pair_column"], *negative_column]
    _check_lists(loss, passages, columns["label_column"], score_column)

    def read(path: str) -> data.TextExamples | data.ColumnExamples:
        if not negative_column:
            return example_files.read(data.TextExamples, path, options["skip_bad"], "regression", **columns)
        scores = score_column[0] if len(score_column) == 1 else score_column or None
        rows = example_files.reading({**columns, "skip_bad": options["skip_bad"]})
        texts = [columns["text_column"], *passages]
        return example_files.read_columns(path, text_columns=texts, score_column=scores, **rows)

    def make(learned: data.TextExamples | data.ColumnExamples, preset: Path, **settings: Any) -> Any:
        from keras_bert import BertReranker
        from keras_bert.tasks import ranking_losses

        chosen = ranking_losses.LOSSES[loss]() if loss else None
        return BertReranker.from_preset(preset, **settings), {"loss": chosen}

    told = {**columns, "negative_column": negative_column, "score_column": score_column, "loss": loss}
    fine_tuning.train_on_examples(read, make, train, validation, told, **options)


def _check_lists(loss: str | None, passages: list[str], label_column: str | None, scores: tuple[str, ...]) -> None:
    """Raises Misuse if the options of `rank` for pairs and for lists do not fit."""
    count = len(passages)
    if count == 1:
        if scores or loss not in (None, LOSSES[0]):
            given = "--score-column" if scores else f"--loss {loss}"
            raise Misuse(f"{given} is for lists; name the other texts of a row with --negative-column")
    elif label_column is not None:
        raise Misuse("--label-column is for pairs; the labels of lists are in --score-column, one for each text")
    elif scores and len(scores) not in (count, count - 1):
        raise Misuse(
            f"--score-column is given {len(scores)} times, but there are {count} texts to score: --text-pair-column, "
            "and each --negative-column"
        )

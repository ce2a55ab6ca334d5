"""keras-bert pretrain: pre-trains a model on text, and writes it with a report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from keras_bert.cli import runs
from keras_bert.cli.options import field_options, find_preset, together
from keras_bert.cli.terminal import Misuse
from keras_bert.recipe import PretrainingRecipe, RowsRecipe, SecondPhase


def options(kind: type[PretrainingRecipe], **defaults: str) -> Callable[[Callable], Callable]:
    """Makes the options of a command that trains on text; `defaults` are those of `RowsRecipe`."""
    return together(
        click.argument("corpus", metavar="FILE...", nargs=-1, required=True),
        click.option(
            *("--eval", "--validation", "validation"), metavar="FILE", help="Validation text: a file or a directory."
        ),
        runs.options(field_options(kind), field_options(RowsRecipe, **defaults), field_options(SecondPhase)),
    )


@click.command()
@click.option("--vocab", metavar="PATH", help="With --size: an uncased vocab.txt, or a directory with a tokenizer.")
@click.option("--size", help="New weights: tiny to large, or another size that `summary` knows; or a config.json.")
@click.option(
    "--preset",
    callback=find_preset,
    metavar="MODEL",
    help="Or weights to train further, those of a masked language model.",
)
@options(PretrainingRecipe)
def pretrain(**options: Any) -> None:
    """Pre-train a new BERT on text, or train one further.

    Each FILE is text in UTF-8, or a directory of .txt files. Writes the model into DIR, for `fill`, `finetune`, `export
    encoder` and transformers, and its losses into report.md. After an interruption, the same command resumes the run.

    \b
    Examples:
      $ keras-bert vocab books/ --size 8000 --output vocab.txt
      $ keras-bert pretrain books/ --vocab vocab.txt --size tiny --output my-bert
      $ keras-bert fill my-bert "he looked at [MASK] and said nothing ."
      $ keras-bert pretrain contracts/ --preset my-bert --steps 2000 --output bert-of-contracts
    """
    if (options["size"] is None) == (options["preset"] is None):
        raise Misuse("give --size, for new weights, or --preset, to train a model further; exactly one of them")
    if (options["size"] is None) != (options["vocab"] is None):
        raise Misuse("--vocab is for --size, which needs it; a --preset keeps its vocabulary")
    runs.pretrain(PretrainingRecipe, **options)

"""Write a checkpoint in another format.

DST is a new directory for the encoder, all heads, the vocabulary and the settings of SRC; a warning names what the
format has no place for. SRC is the name of a preset, hf://org/name, or a directory in any format that keras-bert
inspect knows. Weights are copied one by one. After an error, there is no DST.

\b
Examples:
  $ keras-bert convert uncased_L-12_H-768_A-12 bert-base      # Google's files, for transformers
  $ keras-bert convert bert-base bert-base-tf1 --to tf1       # and back
"""

from __future__ import annotations

from pathlib import Path

import click

from keras_bert.cli.options import find_preset
from keras_bert.cli.terminal import echo, errors_in_one_line, misuse, quiet_imports


@click.command(help=__doc__)
@click.argument("source", metavar="SRC", callback=find_preset)
@click.argument("destination", metavar="DST")
@click.option(
    "--to",
    "format",
    default="hugging_face",
    metavar="FORMAT",
    help="The format to write: hugging_face, tf1 (Google's first code) or garden (TF Model Garden).",
)
def convert(source: Path, destination: str, format: str) -> None:
    from keras_bert.convert import check, convert

    with misuse(OSError):
        check(destination, format)
    with quiet_imports():
        import tensorflow  # noqa: F401  for tokenizers and some formats
    with errors_in_one_line(destination):
        done = convert(source, destination, format)
    heads = ", ".join(done.heads) or "no head"
    echo(f"{destination}: {done.config.family} from {done.source_format} to {format}, with {heads}")
    if not done.has_vocabulary:
        echo(f"Warning: neither {source} nor {destination} has a vocabulary", err=True)
    for name in done.unexpected:
        echo(f"Warning: {name} is not a weight of this family, and is left out", err=True)
    for remark in done.remarks:
        echo(f"Warning: {remark}", err=True)
    if done.left_out:
        echo(f"Warning: {format} has no place for {', '.join(done.left_out)}: left out", err=True)

"""Write a checkpoint in another format.

DST is a new directory for the encoder, all heads, the vocabulary and the settings of SRC; a warning names what the
format has no place for. SRC is the name of a preset, hf://org/name, or a directory in any format that keras-bert
inspect knows. Weights are copied one by one. After an error, there is no DST.

With --check, every weight of DST is compared with SRC's, and, if SRC is or has a SavedModel, that is run, too: both
models get the same texts, or the same ids if it takes ids, and the largest difference of each output is printed. If DST
exists, it is only checked. A SavedModel is a program: check only those that you trust.

\b
Examples:
  $ keras-bert convert old_classifier new_classifier --check   # a SavedModel of Keras 2 or transformers, and the proof
  $ keras-bert convert uncased_L-12_H-768_A-12 bert-base      # Google's files, for transformers
  $ keras-bert convert bert-base bert-base-tf1 --to tf1       # and back
"""

from __future__ import annotations

from pathlib import Path

import click

from keras_bert import files
from keras_bert.checkpoint_table import WRITTEN
from keras_bert.cli.options import find_preset
from keras_bert.cli.terminal import Failure, Misuse, echo, errors_in_one_line, misuse
from keras_bert.counted import counted, either
from keras_bert.data.table_formats import check_lines


@click.command(help=__doc__)
@click.argument("source", metavar="SRC", callback=find_preset)
@click.argument("destination", metavar="DST")
@click.option(
    "--to",
    "format",
    default=next(iter(WRITTEN)),
    metavar="FORMAT",
    help=f"The format to write: {either(WRITTEN.values())}.",
)
@click.option("--check", "checks", is_flag=True, help="Compare DST with SRC; convert first, if there is no DST.")
@click.option(
    "--bound",
    type=float,
    default=1e-5,
    help="With --check, exit with code 1 if a difference is larger than this, times the largest value of the output if "
    "that is more than 1. The default fits float32.",
)
@click.option("--texts", metavar="FILE", help="With --check, texts to compare with, one per line.")
def convert(source: Path, destination: str, format: str, checks: bool, bound: float, texts: str | None) -> None:
    from keras_bert.convert import check

    if texts is not None and not checks:
        raise Misuse("--texts is for --check")
    with misuse(OSError):
        if texts is not None:
            check_lines(texts, "texts, one per line")
        lines = None if texts is None else [line.rstrip("\r\n") for line in files.read_lines(texts)]
        if lines == []:
            raise Misuse(f"{texts} has no texts")
        if not checks or files.is_empty_directory(Path(destination)) or not Path(destination).exists():
            check(destination, format)
            _convert(source, destination, format)
    if checks:
        _check(source, destination, bound, lines)


def _convert(source: Path, destination: str, format: str) -> None:
    from keras_bert.convert import convert

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


def _check(source: Path, destination: str, bound: float, texts: list[str] | None) -> None:
    from keras_bert.saved_model import compare

    with misuse(OSError):
        found = compare(source, destination, texts)
    wrong = [each.new for each in (*found.weights, *found.outputs) if not each.is_within(bound)]
    for each in (*found.weights, *found.outputs):
        echo(f"{each.old} -> {each.new}: largest difference {each.largest:.1e}, of values up to {each.scale:.3g}")
    if found.unread:
        echo(f"Warning: no weight was compared: {found.unread}", err=True)
    else:
        echo(f"unused: {', '.join(found.unused) or 'nothing'}; new: {', '.join(found.added) or 'nothing'}")
    missing = f"no counterpart of {', '.join(found.missing)}" if found.missing else ""
    if found.inputs:
        compared = f"{counted(found.outputs, 'output')} compared, for {counted(found.inputs, 'input')}"
        echo(compared + (missing and f"; {missing}"))
    else:
        echo(f"{source} holds weights alone, so nothing was run")
    if wrong:
        raise Failure(f"{destination} differs from {source} by more than the bound, {bound:g}, in {', '.join(wrong)}")
    if missing:
        raise Failure(f"{destination} has {missing} in {source}")

"""The precision that a command computes in, and the texts that find the ranges of int8."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from keras_bert import files
from keras_bert.cli import streams

# Copied from `keras_bert.inference`, which takes too long to import for --help.
PRECISIONS = ("float32", "bfloat16", "int8")
option = click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    default="float32",
    help="The type to compute in. On CPUs, bfloat16 and int8 are faster; answers change a little.",
)
options = streams.together(
    option,
    click.option(
        "--calibration",
        metavar="FILE",
        help="Texts like those that the model will read, one per line, some hundred, for the ranges of int8. By "
        "default a few sentences in English.",
    ),
)


def load(from_preset: Callable[[Path], Any], preset: Path, precision: str, calibration: str | None) -> Any:
    """`from_preset(preset)` in a precision. Raises Misuse if that cannot be had."""
    if calibration is not None and precision != "int8":
        raise streams.Misuse("--calibration is for --precision int8")
    with streams.misuse(OSError):
        texts = None if calibration is None else [line for line in files.read_text(calibration).splitlines() if line]
        if texts == []:
            raise ValueError(f"{calibration} has no texts; write some hundred, one per line")
        model = from_preset(preset)
        if texts is not None:
            model.set_precision(precision, texts)
        elif precision != "float32":
            model.set_precision(precision)
    if precision == "int8" and calibration is None:
        told = "int8: ranges come from a few built-in sentences; --calibration FILE takes them from texts like yours"
        click.echo(told, err=True)
    return model

"""The option for the precision of inference, and the texts to calibrate int8 with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from keras_bert import files
from keras_bert.choices import PRECISIONS
from keras_bert.cli import example_files
from keras_bert.cli.errors import Misuse, misuse
from keras_bert.cli.options import together
from keras_bert.data.tables import FORMATS

option = click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    default="float32",
    help="The precision of inference. On CPUs, bfloat16 and int8 are faster; answers change a little.",
)
options = together(
    option,
    click.option(
        "--calibration",
        metavar="FILE",
        help="Some hundred texts to calibrate int8 with, like those that the model will read: one per line; or a "
        "table with the model's columns, which pairs need. By default, the model's saved ranges are used, or a few "
        "built-in sentences, most of them English.",
    ),
)


def load(from_preset: Callable[[Path], Any], preset: Path, precision: str, calibration: str | None) -> Any:
    """`from_preset(preset)` in a precision. Raises Misuse if that cannot be had."""
    if calibration is not None and precision != "int8":
        raise Misuse("--calibration is for --precision int8")
    with misuse(OSError):
        if calibration is not None:
            files.read_text(calibration)  # raises before the model is loaded
        model = from_preset(preset)
        if calibration is not None:
            model.set_precision(precision, _texts(calibration, model.text_names))
        elif precision != "float32":
            model.set_precision(precision)
    if precision == "int8" and model.encoder.inference.ranges.is_built_in:
        told = "int8: calibrated with a few built-in sentences; use --calibration FILE with texts like yours"
        click.echo(told, err=True)
    return model


def _texts(path: str, names: Sequence[str]) -> list[str] | tuple[list[str], ...]:
    """The texts in a file; for a model of pairs, both columns. Raises ValueError or Misuse."""
    form = FORMATS.get(Path(path).suffix.lower())
    if form is None and len(names) > 1:
        raise ValueError(f"{path}: this model reads {' and '.join(names)}; give a .csv, .tsv or .jsonl of both")
    if form is None:
        columns = [[line for line in files.lines_of(files.read_text(path)) if line.strip()]]
    else:
        found, rows = example_files.read_rows(path, form, header=True)
        if missing := [name for name in names if name not in found]:
            raise ValueError(f"{path} has no column {missing[0]!r}; its columns are {', '.join(map(repr, found))}")
        columns = [[_cell(path, line, cells, found, name) for line, cells in rows] for name in names]
    return tuple(columns) if len(columns) > 1 else columns[0]


def _cell(path: str, line: int, cells: Any, found: Sequence[str], name: str) -> str:
    row = cells if isinstance(cells, dict) else None if isinstance(cells, str) else dict(zip(found, cells, strict=True))
    if row is None or not isinstance(row.get(name), str):
        raise ValueError(f"{path}, line {line}: {cells if row is None else f'it has no string {name!r}'}")
    return row[name]

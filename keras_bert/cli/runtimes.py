"""keras-bert export onnx, openvino and litert: a preset -> a directory for another runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from keras_bert.cli import quiet
from keras_bert.cli.options import together

_PACKAGES = {"export_onnx": "onnxruntime", "export_openvino": "openvino", "export_litert": "ai-edge-litert"}
options = together(
    click.option(
        "--precision",
        type=click.Choice(["float32", "float16", "bfloat16", "int8"]),
        default="float32",
        help="The type to store the weights in: 16 bits halve the size, int8 makes it a quarter.",
    ),
    click.option("--encoder", is_flag=True, help="Export the encoder alone: hidden states instead of answers."),
)


def export(function: str, preset: Path, output: str, encoder: bool, precision: str, **settings: Any) -> None:
    """Calls a function of `keras_bert.runtimes`, and tells how far its answers are from Keras's."""
    with quiet.imports():
        from keras_bert import BertEncoder, BertPreprocessor, runtimes
        from keras_bert.tasks.table import task_of

        write: Callable[..., Any] = getattr(runtimes, function)
    if encoder:
        model, settings["preprocessor"] = BertEncoder.from_preset(preset), BertPreprocessor.from_preset(preset)
    else:
        model = task_of(preset).from_preset(preset)
    differences = write(model, output, precision, **settings)
    for each in differences:
        click.echo(each)
    if not differences:
        click.echo(f"not compared with Keras: pip install {_PACKAGES[function]}", err=True)

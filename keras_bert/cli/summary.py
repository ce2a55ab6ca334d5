"""Show a model's parts, memory and operations.

All numbers are for float32. HANDLE is a preset, or the name of a published size, such as bert-base or
albert-xxlarge. No weights are read. "sum of 12" means that 12 layers have such weights, which are counted
together. A training step needs the weights, their gradients, AdamW's two moments, and the activations, which are an
estimate.

If the model has int8 ranges, or if --precision int8 calibrates it, a last line lists the layers that are not
computed in int8 because they would lose too much.

\b
Example:
  $ keras-bert summary bert-base --batch-size 8
  part                    shapes              parameters
  embeddings/word         30522 x 768         23,440,896
  embeddings/position     512 x 768              393,216
  embeddings/type         2 x 768                  1,536
  embeddings/norm         768 + 768                1,536
  layer/attention/qkv     768 x 2304 + 2304   21,261,312  sum of 12
  layer/attention/output  768 x 768 + 768      7,087,104  sum of 12
  layer/attention_norm    768 + 768               18,432  sum of 12
  layer/intermediate      768 x 3072 + 3072   28,348,416  sum of 12
  layer/output            3072 x 768 + 768    28,320,768  sum of 12
  layer/output_norm       768 + 768               18,432  sum of 12
  pooler                  768 x 768 + 768        590,592
  total                                      109,482,240
  weights        417.6 MiB
  training step  3,110.6 MiB for 8 sequences of 128 tokens
    activations  1,440.0 MiB of these, about
  forward pass   174.6 million operations a token
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_bert.cli.options import directory_of, load_in_precision, precision_options
from keras_bert.cli.terminal import Misuse, echo, misuse
from keras_bert.config import BertConfig
from keras_bert.counted import counted, did_you_mean

if TYPE_CHECKING:
    from keras_bert.encoder.summary import PartSummary
    from keras_bert.inference import Int8Ranges
    from keras_bert.shapes import Shape


@click.command(help=__doc__)
@click.argument("handle", metavar="HANDLE")
@click.option("--batch-size", type=click.IntRange(1), default=32, help="The number of sequences in a training step.")
@click.option(
    "--sequence-length",
    type=click.IntRange(1),
    help="The number of tokens in a sequence; by default 128, or the model's positions if they are fewer.",
)
@precision_options
def summary(handle: str, batch_size: int, sequence_length: int | None, **numeric: Any) -> None:
    preset = _find(handle)
    if preset is None and numeric["precision"] != "float32":
        raise Misuse(f"{handle} is a size, without weights; --precision is for a preset")
    from keras_bert.encoder.summary import summarize

    config, heads = _architecture(preset, handle)
    ranges = preset and _ranges(preset, **numeric)
    with misuse():  # --sequence-length may be too long
        model = summarize(config, heads, batch_size, sequence_length or min(128, config.max_positions))
    rows = [("part", "shapes", "parameters", "")]
    for part in model.parts:
        shapes = " + ".join(" x ".join(map(str, shape)) for shape in part.shapes)
        rows.append((part.name, shapes, f"{part.parameters:,}", _times(part)))
    rows.append(("total", "", f"{model.parameters:,}", ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, shapes, parameters, times in rows:
        line = f"{name:<{widths[0]}}  {shapes:<{widths[1]}}  {parameters:>{widths[2]}}  {times}"
        echo(line.rstrip())
    sequences, tokens = counted(batch_size, "sequence"), counted(model.sequence_length, "token")
    echo(f"weights        {_mebibytes(model.weight_bytes)}")
    echo(f"training step  {_mebibytes(model.training_bytes)} for {sequences} of {tokens}")
    echo(f"  activations  {_mebibytes(model.activation_bytes)} of these, about")
    echo(f"forward pass   {model.flops_per_token / 1e6:,.1f} million operations a token")
    if ranges is not None:
        echo(f"int8           {_layers(config, ranges)}")


def _architecture(preset: Path | None, size: str) -> tuple[BertConfig, dict[str, dict[str, Shape]]]:
    """Reads the configuration of a preset, or of a size, and the shapes of its heads' weights."""
    from keras_bert import formats

    if preset is None:
        return BertConfig.named(size), {}
    with misuse(OSError), formats.open_checkpoint(preset) as checkpoint:
        return checkpoint.config, {head: checkpoint.shapes(head) for head in sorted(checkpoint.heads)}


def _find(handle: str) -> Path | None:
    """Finds the directory of a preset. Returns None for the name of a size."""
    from keras_bert.sizes import SIZES

    if handle in SIZES and not Path(handle).is_dir():
        return None
    try:
        return directory_of(handle)
    except Misuse as error:
        advice = did_you_mean(handle, SIZES) or f"; published sizes are {', '.join(SIZES)}"
        raise Misuse(error.message + advice * ("did you mean" not in error.message)) from None


def _ranges(preset: Path, **numeric: Any) -> Int8Ranges | None:
    """Reads the int8 ranges of a preset; in int8, calibrates if it has none. Returns None without ranges."""
    from keras_bert.inference import read_ranges
    from keras_bert.tasks.registry import task_of

    if numeric["precision"] == "float32":
        with misuse():
            return read_ranges(preset)
    with misuse(OSError):
        task = task_of(preset)
    inference = load_in_precision(task.from_preset, preset, **numeric).encoder.inference
    return None if inference is None else inference.ranges


def _layers(config: BertConfig, ranges: Int8Ranges) -> str:
    left_out = [layer for layer in range(config.num_layers) if config.group_of(layer) in ranges.float_blocks]
    if not left_out:
        return f"all {counted(config.num_layers, 'layer')}"
    numbers = ", ".join(str(layer + 1) for layer in left_out)
    layers = counted(config.num_layers, "layer")
    return f"{config.num_layers - len(left_out)} of {layers}, without {numbers}, which lose too much"


def _times(part: PartSummary) -> str:
    if part.uses == 1:
        return ""
    copies = [f"sum of {part.copies}"] if part.copies > 1 else []
    return ", ".join(copies + ([f"used {part.uses} times"] if part.uses > part.copies else []))


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB"

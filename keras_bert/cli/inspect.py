"""Describe a checkpoint: its format, size, heads and vocabulary.

SRC is the name of a preset, a directory, or hf://org/name. Missing and unexpected weights are also listed.

\b
Example:
  $ keras-bert inspect all-MiniLM-L6-v2
  format      hugging_face, model.safetensors
  family      bert
  size        minilm-l6: 6 layers, 384 wide, 12 heads, feed-forward layers 1536 wide
  positions   512
  parameters  22,713,216 in the encoder
  heads       none
  vocabulary  30,522 tokens, WordPieceTokenizer
  missing     nothing
  unexpected  nothing
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keras_bert.cli.options import find_preset
from keras_bert.cli.terminal import echo, misuse, one_line, quiet_imports

if TYPE_CHECKING:
    from keras_bert.config import BertConfig


@click.command(help=__doc__)
@click.argument("source", metavar="SRC", callback=find_preset)
def inspect(source: Path) -> None:
    with quiet_imports():
        import tensorflow  # noqa: F401  for tokenizers and some formats

        from keras_bert import formats
    with misuse(OSError), formats.open_checkpoint(source) as checkpoint:
        config = checkpoint.config
        parameters = sum(math.prod(shape) for shape in checkpoint.shapes("encoder").values())
    lines = {
        "format": f"{checkpoint.format}, {checkpoint.path.name}",
        "family": config.family,
        "size": _size(config),
        "positions": config.max_positions,
        "parameters": f"{parameters:,} in the encoder",
        "heads": ", ".join(sorted(checkpoint.heads)) or "none",
        "vocabulary": _vocabulary(source),
        "missing": ", ".join(checkpoint.missing) or "nothing",
        "unexpected": ", ".join(checkpoint.unexpected) or "nothing",
    }
    for name, value in lines.items():
        echo(f"{name:<12}{value}")


def _vocabulary(source: Path) -> str:
    """Describes the vocabulary. If it cannot be read, returns the reason: the weights may be of use without it."""
    from keras_bert.text import load_tokenizer

    try:
        tokenizer = load_tokenizer(source)
    except FileNotFoundError:
        return "none"
    except (ValueError, OSError) as error:
        return f"cannot be read: {one_line(error)}"
    return f"{tokenizer.vocabulary_size:,} tokens, {type(tokenizer).__name__}"


def _size(config: BertConfig) -> str:
    """Lists the dimensions, after the name of the published size that has them, if there is one."""
    from keras_bert import BertConfig
    from keras_bert.config import SIZES

    fields = ("family", "num_layers", "hidden_size", "num_heads", "intermediate_size", "embedding_size", "num_groups")
    dimensions = [getattr(config, field) for field in fields]
    names = [name for name in SIZES if dimensions == [getattr(BertConfig.named(name), field) for field in fields]]
    text = (
        f"{config.num_layers} layers, {config.hidden_size} wide, {config.num_heads} heads, "
        f"feed-forward layers {config.intermediate_size} wide"
    )
    if config.embedding_size is not None:
        text += f", embeddings {config.embedding_size} wide"
    if config.num_groups is not None:
        text += f", {config.num_groups} with weights of {'its' if config.num_groups == 1 else 'their'} own"
    return f"{names[0]}: {text}" if names else text

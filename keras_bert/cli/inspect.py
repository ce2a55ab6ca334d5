"""Tell what a path is, and how to go on with it.

PATH is a directory or a file, of this package or of others, also a table or texts; or the name of a preset, or
hf://org/name. Nothing in it is run. Weights that a model lacks are listed as missing, those that it has no place for
as unexpected.

\b
Example:
  $ keras-bert inspect all-MiniLM-L6-v2
  what        a sentence encoder of sentence-transformers
  format      hugging_face, model.safetensors
  family      bert
  size        minilm-l6: 6 layers, 384 wide, 12 heads, feed-forward layers 1536 wide
  positions   512
  parameters  22,713,216 in the encoder
  heads       none
  vocabulary  30,522 tokens, WordPieceTokenizer
  missing     nothing
  unexpected  nothing
  vectors     384 wide, by mean pooling, of length 1
  loads as    BertSentenceEncoder, BertEncoder
  next        keras-bert encode "a text" --preset all-MiniLM-L6-v2
  next        keras-bert export serving --preset all-MiniLM-L6-v2 --output serving
"""

import click

from keras_bert.cli.terminal import echo, misuse


@click.command(help=__doc__)
@click.argument("path")
def inspect(path: str) -> None:
    from keras_bert.inspection import inspect

    with misuse(OSError):
        found = inspect(path)
    for name, text in found.lines():
        echo(f"{name:<12}{text}")

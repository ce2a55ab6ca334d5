"""Show how much the tokens of a text attend to each other.

TEXT and SECOND, if given, are a pair. Layers and heads are numbered from 0.

Writes a page of all layers and heads that works offline in any browser, with lines between the tokens, a heat map
of each head, and an overview; or a picture of all heads, or of the chosen ones.

\b
Example:
  $ keras-bert attention "the cat sat on the mat" "it was asleep" --output attention.html
  attention.html: 6 layers of 12 heads, 12 tokens
"""

from __future__ import annotations

from pathlib import Path

import click

import keras_bert
from keras_bert.cli import streams
from keras_bert.cli.options import overwrite_option, preset_option
from keras_bert.cli.terminal import echo, misuse
from keras_bert.counted import counted


@click.command(help=__doc__)
@click.argument("text")
@click.argument("second", required=False)
@preset_option
@click.option("--output", "-o", required=True, metavar="FILE", help="Write to FILE: .html or .png (needs matplotlib).")
@overwrite_option
@click.option("--layer", type=click.IntRange(0), help="The layer to show first; in a picture, the only one.")
@click.option("--head", type=click.IntRange(0), help="The head to show first; in a picture, the only one.")
def attention(
    text: str, second: str | None, preset: Path, output: str, overwrite: bool, layer: int | None, head: int | None
) -> None:
    texts = list(streams.open_texts((text,) if second is None else (text, second), None).parsed())
    streams.format_of(output, ("html", "png"), must_be_known=True)
    with streams.open_output(output, overwrite) as results:
        from keras_bert.visualize import view

        with misuse(OSError):
            view.check_path(output)
            preprocessor = keras_bert.BertPreprocessor.from_preset(preset)
            encoder = keras_bert.BertEncoder.from_preset(preset)
        with misuse():
            found = view.attention(encoder, preprocessor, *texts)
            results.write(found.rendered(output, layer, head))
    layers, heads, tokens = found.weights.weights.shape[:3]
    echo(f"{output}: {counted(layers, 'layer')} of {counted(heads, 'head')}, {counted(tokens, 'token')}")

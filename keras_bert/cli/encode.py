"""keras-bert encode: texts -> a sentence vector for each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from keras_bert import files
from keras_bert.cli import quiet, streams

if TYPE_CHECKING:
    import numpy as np


@click.command()
@click.argument("text", nargs=-1)
@streams.shared_options("jsonl", "npy", "text")
@streams.batch_tokens_option
def encode(
    text: tuple[str, ...],
    file: str | None,
    preset: Path,
    output_format: str,
    output: str | None,
    overwrite: bool,
    batch_tokens: int | None,
) -> None:
    """Turn each text into one vector that represents its meaning.

    A vector has length 1. Writes JSON lines {"text": ..., "vector": [...]}; npy, a float32 array with a row for each
    text; or text, one vector per line. Inputs can have any size: they are read and written in chunks.

    \b
    Examples:
      $ keras-bert encode --file reviews.txt --output reviews.npy
      $ cat reviews.txt | keras-bert encode --output reviews.jsonl
    """
    lines = streams.open_texts(text, file)
    with streams.open_output(output, overwrite) as results:
        with quiet.imports():
            from keras_bert import BertSentenceEncoder
            from keras_bert.embedding.json_lines import with_vector
            from keras_bert.embedding.npy import write_npy
        model = streams.load(BertSentenceEncoder.from_preset, preset)
        encoded = streams.encoded(model, lines, batch_tokens)
        if output_format == "npy":
            write_npy(results, (vectors for _, vectors in encoded), model.encoder.config.hidden_size)
            return

        def json_line(text: str, vector: np.ndarray) -> str:
            return with_vector(streams.json_line(text=text), vector)

        line = {"jsonl": json_line, "text": _text_line}[output_format]
        for texts, vectors in encoded:
            streams.write_lines(results, map(line, texts, vectors))


def _text_line(text: str, vector: np.ndarray) -> str:
    return " ".join(files.decimals(vector))

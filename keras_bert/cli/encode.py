"""Turn each text into one vector that represents its meaning.

Vectors have length 1, except in models without normalization. Writes JSON lines {"text": ..., "vector": [...]};
npy, a float32 array with a row for each text; or text, one vector per line. Inputs of any size are read and written
in chunks.

\b
Examples:
  $ keras-bert encode --file reviews.txt --output reviews.npy
  $ cat reviews.txt | keras-bert encode --output reviews.jsonl
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from keras_bert import files
from keras_bert.cli import streams
from keras_bert.cli.options import (
    batch_tokens_option,
    check_prompts,
    encode_chunks,
    load_in_precision,
    precision_options,
    prompt_option,
    texts_to,
)
from keras_bert.cli.terminal import quiet_imports

if TYPE_CHECKING:
    import numpy as np


@click.command(help=__doc__)
@texts_to("jsonl", "npy", "text")
@prompt_option
@batch_tokens_option
@precision_options
def encode(
    lines: streams.Lines,
    results: BinaryIO,
    preset: Path,
    output_format: str,
    prompt: str | None,
    batch_tokens: int,
    **numeric: Any,
) -> None:
    check_prompts(preset, prompt)
    with quiet_imports():
        from keras_bert import BertSentenceEncoder
        from keras_bert.embedding.vector_files import with_vector, write_npy
    from_preset = functools.partial(BertSentenceEncoder.from_preset, default_prompt=prompt)
    model = load_in_precision(from_preset, preset, **numeric)
    vectors_of_chunks = encode_chunks(model, lines, batch_tokens)
    if output_format == "npy":
        write_npy(results, (vectors for _, vectors in vectors_of_chunks), model.vector_size)
        return

    def line(text: str, vector: np.ndarray) -> str:
        if output_format == "text":
            return " ".join(files.decimals(vector))
        return with_vector(streams.json_line(text=text), vector)

    for texts, vectors in vectors_of_chunks:
        streams.write_lines(results, map(line, texts, vectors))

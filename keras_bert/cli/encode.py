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
from typing import Any, BinaryIO

import click

from keras_bert import files
from keras_bert.cli import streams
from keras_bert.cli.options import (
    batch_tokens_option,
    check_prompts,
    import_engine,
    load_in_precision,
    precision_options,
    prompt_option,
    texts_to,
)


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
    from keras_bert.embedding.vector_files import with_vector, write_npy
    from keras_bert.tasks.registry import load_as

    import_engine(preset)
    from_preset = functools.partial(load_as, "BertSentenceEncoder", default_prompt=prompt)
    model = load_in_precision(from_preset, preset, **numeric)
    encoded = lines.answered(lambda texts: model.encode(texts, batch_tokens))
    if output_format == "npy":
        write_npy(results, (vectors for _, vectors in encoded), model.vector_size)
    for texts, vectors in encoded:
        if output_format == "text":
            streams.write_lines(results, (" ".join(files.decimals(vector)) for vector in vectors))
        else:
            texts_as_json = (streams.json_line(text=text) for text in texts)
            streams.write_lines(results, map(with_vector, texts_as_json, vectors))

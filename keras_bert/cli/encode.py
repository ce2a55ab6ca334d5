"""Turn each text into one vector that represents its meaning.

Vectors have length 1, except in models without normalization. Writes JSON lines {"text": ..., "vector": [...]};
npy, a float32 array with a row for each text; or text, one vector per line. Inputs of any size are read and written
in chunks. Of a multi-vector encoder (ColBERT), JSON lines have a vector for each token, {"text": ..., "embeddings":
[[...], ...]}; --prompt is query or document.

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
from keras_bert.cli import options, streams
from keras_bert.cli.terminal import Misuse, misuse


@click.command(help=__doc__)
@options.texts_to("jsonl", "npy", "text")
@options.prompt_option
@options.batch_tokens_option
@options.precision_options
def encode(
    lines: streams.Lines, results: BinaryIO, preset: Path, output_format: str, prompt: str | None, batch_tokens: int,
    **numeric: Any,
) -> None:  # fmt: skip
    from keras_bert.answers.token_vectors import KINDS
    from keras_bert.embedding.vector_files import with_vector, write_npy
    from keras_bert.engines.loading import task_of
    from keras_bert.tasks.registry import load_as

    with misuse(OSError):
        task = task_of(preset, [of_tokens := "BertMultiVectorEncoder"])
    if task == of_tokens:
        kind = prompt or "document"
        if output_format != "jsonl":
            raise Misuse(f"{preset} has a vector for each token, which only jsonl holds, not {output_format}")
        if kind not in KINDS:
            raise Misuse(f"--prompt is {kind}; of {preset} it is {' or '.join(KINDS)}")
        model = options.load_in_precision(functools.partial(load_as, of_tokens), preset, **numeric)
        for texts, found in lines.answered(lambda texts: model.encode(texts, batch_tokens, kind=kind)):
            rows = zip(texts, found, strict=True)
            streams.write_lines(
                results, (streams.json_line(text=text, embeddings=vectors.tolist()) for text, vectors in rows)
            )
        return
    options.check_prompts(preset, prompt)
    from_preset = functools.partial(load_as, "BertSentenceEncoder", default_prompt=prompt)
    model = options.load_in_precision(from_preset, preset, **numeric)
    encoded = lines.answered(lambda texts: model.encode(texts, batch_tokens))
    if output_format == "npy":
        write_npy(results, (vectors for _, vectors in encoded), model.vector_size)
    for texts, vectors in encoded:
        if output_format == "text":
            streams.write_lines(results, (" ".join(files.decimals(vector)) for vector in vectors))
        else:
            texts_as_json = (streams.json_line(text=text) for text in texts)
            streams.write_lines(results, map(with_vector, texts_as_json, vectors))

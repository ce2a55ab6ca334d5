"""Write a checkpoint in another format.

DST is a new directory for the encoder, all heads and the vocabulary of SRC. SRC is the name of a preset,
hf://org/name, or a directory in any format that keras-bert inspect knows. Weights are copied one by one. After an
error, there is no DST.

\b
Examples:
  $ keras-bert convert uncased_L-12_H-768_A-12 bert-base      # Google's files, for transformers
  $ keras-bert convert bert-base bert-base-tf1 --to tf1       # and back
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keras_bert import files
from keras_bert.cli.options import find_preset, tokenizer_of
from keras_bert.cli.terminal import Misuse, echo, errors_in_one_line, misuse, quiet_imports

if TYPE_CHECKING:
    import numpy as np
    from tqdm import tqdm

    from keras_bert.formats.checkpoint import LazyWeights


@click.command(help=__doc__)
@click.argument("source", metavar="SRC", callback=find_preset)
@click.argument("destination", metavar="DST")
@click.option(
    "--to",
    "format",
    default="hugging_face",
    metavar="FORMAT",
    help="The format to write: hugging_face, tf1 (Google's first code) or garden (TF Model Garden).",
)
def convert(source: Path, destination: str, format: str) -> None:
    path = Path(destination)
    if path.exists() and not files.is_empty_directory(path):
        raise Misuse(f"{destination} exists; choose another name")
    with misuse(OSError):
        files.check_writable(destination)
    from keras_bert import formats

    with misuse():
        formats.check_format(format)
    with quiet_imports():
        import tensorflow  # noqa: F401  for tokenizers and some formats
        from tqdm import tqdm

        from keras_bert.formats import Preset, cross_encoder, hugging_face, sentence_transformers, sparse_encoder

    with ExitStack() as stack:
        stack.enter_context(errors_in_one_line(destination))
        preset = stack.enter_context(Preset.open(source))
        checkpoint = preset.checkpoint
        parts = {part: checkpoint.weights(part) for part in ("encoder", *sorted(checkpoint.heads))}
        total = sum(map(len, parts.values()))
        bar = stack.enter_context(tqdm(total=total, unit=" weights", delay=1, disable=None))
        unfinished = stack.enter_context(files.directory_written_whole(path, "", overwrite=False))
        counted = {part: _CountedWeights(weights, bar) for part, weights in parts.items()}
        scores, sparse = preset.once(cross_encoder.read), preset.once(sparse_encoder.read)
        is_cross_encoder = scores.is_declared and format == "hugging_face"
        settings = hugging_face.task_settings(preset)
        settings |= cross_encoder.entries(scores.activation) if is_cross_encoder else {}
        formats.write(unfinished, checkpoint.config, counted, format, settings=settings)
        tokenizer = tokenizer_of(preset)
        if tokenizer is not None:
            tokenizer.save_preset(unfinished)
        if is_cross_encoder and tokenizer is not None and scores.max_length:
            cross_encoder.write_length(unfinished, scores.max_length)
        elif sparse.is_declared and format == "hugging_face":
            table = None
            if sparse.query_table and tokenizer is not None:
                table = sparse_encoder.read_query_weights(preset, tokenizer.vocabulary_size)
                tokenizer.save_preset(unfinished / sparse_encoder.QUERIES)
            sparse_encoder.write(unfinished, sparse, table)
        elif not is_cross_encoder and (source / sentence_transformers.MODULES).is_file() and format == "hugging_face":
            settings, dense = preset.sentence_settings, preset.once(sentence_transformers.read_dense_weights)
            sentence_transformers.write(unfinished, checkpoint.config.hidden_size, settings, dense)
    heads = ", ".join(sorted(checkpoint.heads)) or "no head"
    echo(f"{destination}: {checkpoint.config.family} from {checkpoint.format} to {format}, with {heads}")
    if tokenizer is None:
        echo(f"Warning: neither {source} nor {destination} has a vocabulary", err=True)
    for name in checkpoint.unexpected:
        echo(f"Warning: {name} is not a weight of this family, and is left out", err=True)


class _CountedWeights(Mapping):
    """Weights that update a progress bar when they are read."""

    def __init__(self, weights: LazyWeights, bar: tqdm) -> None:
        self.shapes = weights.shapes
        self._weights = weights
        self._bar = bar

    def __getitem__(self, name: str) -> np.ndarray:
        self._bar.update()
        return self._weights[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

"""Write vectors of texts for TensorBoard's Embedding Projector.

The projector shows them as points in space. DIR gets vectors.tsv, metadata.tsv (the texts) and
projector_config.pbtxt. Inputs of any size are read and written in chunks.

\b
Example:
  $ keras-bert project --file reviews.txt --output projector
  5 texts; to see them: tensorboard --logdir projector
"""

from __future__ import annotations

from pathlib import Path

import click

from keras_bert import files
from keras_bert.cli import options, streams
from keras_bert.cli.terminal import echo, misuse
from keras_bert.counted import counted


@click.command(help=__doc__)
@options.file_option
@options.preset_option
@click.option("--output", required=True, metavar="DIR", help="Write into DIR; after an error, nothing is written.")
@click.option("--overwrite", is_flag=True, help="Replace DIR if this command wrote it.")
@options.prompt_option
@options.batch_tokens_option
def project(
    file: str | None, preset: Path, output: str, overwrite: bool, prompt: str | None, batch_tokens: int
) -> None:
    lines = streams.open_texts((), file)
    options.check_prompts(preset, prompt)
    from keras_bert.embedding.projector import CONFIG, write_projector
    from keras_bert.tasks.registry import load_as

    with misuse(OSError):
        files.check_writable(output)
        files.refuse_to_replace(Path(output), CONFIG, overwrite)
        model = load_as("BertSentenceEncoder", preset, default_prompt=prompt)
    vectors = lines.answered(lambda texts: model.encode(texts, batch_tokens))
    with misuse(FileExistsError):
        count = write_projector(output, vectors, overwrite)
    echo(f"{counted(count, 'text')}; to see them: tensorboard --logdir {output}")

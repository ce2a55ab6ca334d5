"""keras-bert project: texts -> files of vectors for TensorBoard's Embedding Projector."""

from __future__ import annotations

from pathlib import Path

import click

from keras_bert.cli import quiet, streams


@click.command()
@click.option("--file", metavar="FILE", help="Read texts from FILE, one a line; - is standard input.")
@streams.preset_option
@click.option("--output", required=True, metavar="DIR", help="Write into DIR, all of it or nothing.")
@click.option("--overwrite", is_flag=True, help="Replace DIR if this command wrote it.")
@streams.batch_tokens_option
def project(file: str | None, preset: Path, output: str, overwrite: bool, batch_tokens: int | None) -> None:
    """Write the vectors of texts for TensorBoard's Embedding Projector, which shows them as points in space.

    DIR gets vectors.tsv, metadata.tsv (the texts) and projector_config.pbtxt. Inputs can have any size: they are read
    and written in chunks.

    \b
    Example:
      $ keras-bert project --file reviews.txt --output projector
      5 texts; to see them: tensorboard --logdir projector
    """
    lines = streams.open_texts((), file)
    with quiet.imports():
        from keras_bert import BertSentenceEncoder
        from keras_bert.embedding.projector import write_projector
    model = streams.load(BertSentenceEncoder.from_preset, preset)

    try:
        count = write_projector(output, streams.encoded(model, lines, batch_tokens), overwrite)
    except (FileExistsError, ValueError) as error:
        raise streams.Misuse(streams.one_line(error).replace("pass overwrite=True", "use --overwrite")) from error
    click.echo(f"{count:,} {'text' if count == 1 else 'texts'}; to see them: tensorboard --logdir {output}")

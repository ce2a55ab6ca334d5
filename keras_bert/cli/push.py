"""keras-bert push: publishes a model on the Hugging Face Hub."""

from __future__ import annotations

import itertools
from pathlib import Path

import click

from keras_bert.cli.terminal import echo, misuse
from keras_bert.counted import counted


@click.command()
@click.argument("directory", metavar="DIR")
@click.argument("repository", metavar="ORG/NAME")
@click.option("--public", is_flag=True, help="Make a new repository public; by default it is private.")
@click.option("--dry-run", is_flag=True, help="List the files that would go, and send none.")
def push(directory: str, repository: str, public: bool, dry_run: bool) -> None:
    """Publish a model on the Hugging Face Hub.

    The files of the model in DIR go to the repository ORG/NAME, with its card README.md and its report. The state of a
    run, in DIR/training, and other files stay. Links to files outside of DIR are refused. Run `hf auth login` first.

    \b
    Example:
      $ keras-bert push my-model me/my-model --dry-run
      README.md	1,204 bytes
      config.json	1,045 bytes
      ...
    """
    with misuse(OSError):
        from keras_bert.publishing import push_to_hub

        sent = push_to_hub(directory, repository, private=not public, dry_run=dry_run)
    for name in sent.files:
        echo(f"{name}\t{(Path(directory) / name).stat().st_size:,} bytes")
    for folder, names in itertools.groupby(sent.left_out, lambda name: name.partition("/")[0]):
        count = counted(list(names), "file")
        echo(f"left out: {folder}" + (f"/, {count}" if (Path(directory) / folder).is_dir() else ""), err=True)
    echo(f"nothing was sent to {repository}" if sent.url is None else sent.url, err=True)

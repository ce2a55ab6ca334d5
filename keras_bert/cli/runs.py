"""What the commands that train share: a directory in which a run can go on, and what is told of it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_bert.cli import streams

if TYPE_CHECKING:
    import tensorflow as tf

RUN = "training"  # the run's files, inside of the model's directory
INTERRUPTED = "Interrupted; the same command goes on with what was done."


strategy_option = click.option(
    "--strategy",
    type=click.Choice(["auto", "one", "mirrored", "multi_worker", "tpu"]),
    default="auto",
    show_default=True,
    help="Which devices train: see `launch` for several processes.",
)


def devices(kind: str) -> tf.distribute.Strategy:
    """What trains. Says so if they are several."""
    from keras_bert.training.strategy import choose

    try:
        found, told = choose(kind)
    except ValueError as error:
        raise streams.Misuse(streams.one_line(error)) from error
    if found.num_replicas_in_sync > 1:
        click.echo(f"training on {told}", err=True)
    return found


@contextlib.contextmanager
def among_others() -> Iterator[None]:
    """Where several processes train, a line in place of TensorFlow's traceback when one of the others has ended."""
    import tensorflow as tf

    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError) as error:
        raise click.ClickException(
            "another process of this run has ended; from its last checkpoint, all go on"
        ) from error


def check_output(directory: Path) -> None:
    """Raises Misuse unless `--output` is new, empty, or what a run was written into."""
    if directory.exists() and not (directory / RUN).is_dir() and (not directory.is_dir() or any(directory.iterdir())):
        raise streams.Misuse(f"{directory} exists and is no run of this command; choose another --output")


def told_each_epoch(trainers: tf.distribute.Strategy, name: Callable[[int], str]) -> list[Any]:
    """Callbacks that write a line of measures an epoch, on standard error; none on a terminal: a progress bar does it.

    Of several processes, the chief tells.

    Args:
        trainers: what trains.
        name: what an epoch, from 0, is called.
    """
    import keras

    from keras_bert.training import workers

    if sys.stderr.isatty() or not workers.is_chief(trainers):
        return []

    def tell(epoch: int, logs: dict[str, float]) -> None:
        # Keras has the evaluation's behind the training's, in whose place they come.
        measures = {measure.removeprefix("val_"): value for measure, value in logs.items()}
        click.echo(f"{name(epoch)}: {', '.join(f'{each} {value:.4f}' for each, value in measures.items())}", err=True)

    return [keras.callbacks.LambdaCallback(on_epoch_end=tell)]

"""A training run from its start to its end: the output directory, interruptions, lines of progress, measures."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_bert import files
from keras_bert.cli import interrupts, output_directories
from keras_bert.cli.errors import Misuse, one_line
from keras_bert.cli.output_directories import RUN

if TYPE_CHECKING:
    import tensorflow as tf

    from keras_bert.training.run_files import FinishedError

_ADVICE = "choose another --output, or start again with --overwrite"


@contextlib.contextmanager
def resumable(after: Callable[[int, int, int], str], overwrite: bool) -> Iterator[None]:
    """Around a run: an interruption, and the end of another process of the run, each give one line.

    Args:
        after: finished epochs, finished steps of the next one, all steps of it -> where the run stands.
        overwrite: whether the command begins anew, as it would again.
    """
    import tensorflow as tf

    from keras_bert.training.interruption import Interrupted

    try:
        with interrupts.end_the_command(message=interrupts.RESUMABLE):
            yield
    except Interrupted as error:
        epoch, step, batches, _ = error.position
        told = interrupts.RESUMABLE.replace("Interrupted", f"Interrupted after {after(epoch, step, batches)}")
        interrupts.end(error.number, told.replace("command", "command without --overwrite") if overwrite else told)
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError) as error:
        raise click.ClickException(
            "another process of this run has ended; all resume from its last checkpoint"
        ) from error


def begin(
    directory: Path, trainers: tf.distribute.Strategy, epochs: int, after: Callable[[int, int, int], str],
    settings: Mapping[str, Any], overwrite: bool,
) -> None:  # fmt: skip
    """Says where the run in `directory` stands, if one was begun there.

    Args:
        directory: of the model.
        trainers: the strategy of the run.
        epochs: all epochs of the run.
        after: see `resumable`.
        settings: some of those that the run must have.
        overwrite: whether the run will be removed.

    Raises:
        Misuse: the run has other settings, its state is damaged, or is missing beside a model.
    """
    from keras_bert.formats import hugging_face
    from keras_bert.training import run_files, workers

    if overwrite:
        return
    try:
        found = run_files.position(directory / RUN, settings)
    except ValueError as error:
        raise _misuse(error, directory) from error
    if found is None and (directory / hugging_face.CONFIG).exists():
        raise Misuse(f"{directory} holds a model, but no state of its run in {directory / RUN}; {_ADVICE}")
    if not workers.is_chief(trainers):
        return
    if found is None:
        if (directory / RUN).is_dir() and any((directory / RUN).iterdir()):
            click.echo(f"the run in {directory} has no saved state; its training begins", err=True)
        return
    epoch, step, batches, stopped = found
    place = after(epoch, step, batches)
    if stopped or epoch >= epochs:
        click.echo(f"the run in {directory} is finished, after {place}; nothing is trained", err=True)
    else:
        click.echo(f"resuming the run in {directory} after {place}", err=True)


@contextlib.contextmanager
def finishing(directory: Path, trainers: tf.distribute.Strategy) -> Iterator[Callable[[Mapping[str, float]], None]]:
    """Around a run, also one that was finished before: tells its measures, and its errors in the words of the command.

    The block gets a function to call with the measures when the model and its report are written: the directory is
    then the model, without the run's state.

    Args:
        directory: of the model.
        trainers: the strategy of the run; of several processes, only the chief tells the measures.

    Raises:
        Misuse: for an ImportError or a ValueError of the run, and for a finished run whose model is missing.
    """
    from keras_bert.training import report, run_files, workers

    measures: dict[str, float] = {}

    def finish(of_run: Mapping[str, float]) -> None:
        measures.update({name: float(value) for name, value in of_run.items()})
        run_files.seal(directory / RUN, measures)
        files.remove_left_over(directory)

    try:
        yield finish
    except run_files.FinishedError as error:
        _check_model(directory, error)
        measures.update(error.measures)
    except (ImportError, ValueError) as error:
        raise _misuse(error, directory) from error
    if workers.is_chief(trainers):
        for name, value, baseline in report.with_baselines(measures):
            beside = "" if baseline is None else f"\t(by frequency alone: {baseline:.4f})"
            click.echo(f"{name}\t{value:.4f}{beside}")


def _check_model(directory: Path, finished: FinishedError) -> None:
    from keras_bert.formats import hugging_face

    for name in hugging_face.FILES:
        if not (directory / name).is_file():
            raise Misuse(f"{directory} holds a finished run, but {name} is missing; {_ADVICE}") from finished


def _misuse(error: Exception, directory: Path) -> Misuse:
    """An error of a run, in the words of the command."""
    from keras_bert.training import run_files

    message = one_line(error).replace(run_files.ADVICE, _ADVICE)
    command = click.get_current_context().command
    if isinstance(error, run_files.AnotherRunError) and error.is_finished and _has_preset(command):
        message += f"; to train its model further, use --preset {directory} and another --output"
    return Misuse(message)


def _has_preset(command: click.Command) -> bool:
    return any(option.name == "preset" for option in command.params)


def check_output(directory: Path, overwrite: bool) -> None:
    """Raises Misuse unless `--output` is new, empty, or the directory of a run; or has only what may be removed."""
    if overwrite and directory.is_dir():
        output_directories.check_overwriting(directory)
    elif directory.exists() and not (directory / RUN).is_dir() and (not directory.is_dir() or any(directory.iterdir())):
        advice = _ADVICE if (directory / "config.json").is_file() else "choose another --output"
        raise Misuse(f"{directory} exists and is not a run of this command; {advice}")
    output_directories.check(directory)


def told_each_epoch(trainers: tf.distribute.Strategy, name: Callable[[int], str]) -> list[Any]:
    """Callbacks that write a line of measures per epoch on standard error; none on a terminal with its progress bar.

    Of several processes, only the chief writes.

    Args:
        trainers: the strategy of the run.
        name: the number of finished epochs -> a name.
    """
    import keras

    from keras_bert.training import workers

    if sys.stderr.isatty() or not workers.is_chief(trainers):
        return []

    def tell(epoch: int, logs: dict[str, float]) -> None:
        # Validation measures come after those of training, and replace them.
        measures = {measure.removeprefix("val_"): value for measure, value in logs.items()}
        click.echo(
            f"{name(epoch + 1)}: {', '.join(f'{each} {value:.4f}' for each, value in measures.items())}", err=True
        )

    return [keras.callbacks.LambdaCallback(on_epoch_end=tell)]

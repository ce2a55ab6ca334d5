"""The common parts of the commands that train: options, devices, the output directory, lines of progress."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_bert import files
from keras_bert.cli import directories, interrupts, overwriting, streams
from keras_bert.cli.overwriting import RUN
from keras_bert.recipe import type_of

if TYPE_CHECKING:
    import tensorflow as tf

    from keras_bert.training.run_files import FinishedError

INTERRUPTED = "Interrupted; run the same command to resume."
_ADVICE = "choose another --output, or start again with --overwrite"

strategy_option = click.option(
    "--strategy",
    type=click.Choice(["auto", "one", "mirrored", "multi_worker", "tpu"]),
    default="auto",
    show_default=True,
    help="The devices to train on; see `launch` for several processes.",
)
dtype_option = click.option(
    "--dtype",
    type=click.Choice(["float32", "mixed_bfloat16", "mixed_float16"]),
    default="float32",
    show_default=True,
    help="The dtype policy of training; the weights stay float32.",
)


def recipe_options(kind: type, without: str = "", name: str = "recipe") -> Callable[[Callable], Callable]:
    """An option for each field of a recipe, except `without`. The command gets the checked recipe as `name`."""
    fields = [field for field in dataclasses.fields(kind) if field.name != without]

    def add_to(command: Callable) -> Callable:
        @functools.wraps(command)
        def with_recipe(**options: Any) -> Any:
            try:
                recipe = kind(**{field.name: options.pop(field.name) for field in fields})
            except ValueError as error:
                raise streams.Misuse(str(error)) from error
            return command(**{name: recipe}, **options)

        return streams.together(*map(_option, fields))(with_recipe)

    return add_to


def _option(field: dataclasses.Field) -> Callable[[Callable], Callable]:
    settings: dict[str, Any] = {"type": type_of(field), "help": field.metadata["help"]}
    if settings["type"] is Mapping:
        help = f"{settings['help']}  [may be repeated]"
        settings = {"multiple": True, "callback": _weights, "metavar": "LABEL=NUMBER", "help": help}
    if field.default is dataclasses.MISSING:
        settings["required"] = True
    elif field.default is not None:
        settings |= {"default": field.default, "show_default": True}
    name = field.metadata["option"] or field.name
    return click.option(f"--{name.replace('_', '-')}", field.name, **settings)


def _weights(_: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    weights = {}
    for each in given:
        label, _, number = each.rpartition("=")
        try:
            weights[label] = float(number)
        except ValueError:
            raise streams.Misuse(f"{option.opts[0]} {each}: expected LABEL=NUMBER, such as positive=2.5") from None
    return weights


def devices(kind: str) -> tf.distribute.Strategy:
    """The strategy to train with. Prints a line if it has several devices."""
    from keras_bert.training.strategy import choose

    try:
        found, told = choose(kind)
    except ValueError as error:
        raise streams.Misuse(streams.one_line(error)) from error
    if found.num_replicas_in_sync > 1:
        click.echo(f"training on {told}", err=True)
    return found


@contextlib.contextmanager
def computing_with(dtype: str) -> Iterator[None]:
    """Inside this block, models are made with this dtype policy, the value of `--dtype`."""
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(dtype)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


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
        with interrupts.end_the_command(message=INTERRUPTED):
            yield
    except Interrupted as error:
        epoch, step, batches, _ = error.position
        told = INTERRUPTED.replace("Interrupted", f"Interrupted after {after(epoch, step, batches)}")
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
        raise misuse(error, directory) from error
    if found is None and (directory / hugging_face.CONFIG).exists():
        raise streams.Misuse(f"{directory} holds a model, but no state of its run in {directory / RUN}; {_ADVICE}")
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


def finish(directory: Path, measures: Mapping[str, float]) -> None:
    """Call it when the model and its report are written: the directory is then the model, without the run's state."""
    from keras_bert.training import run_files

    run_files.seal(directory / RUN, {name: float(value) for name, value in measures.items()})
    files.remove_left_over(directory)


def measures_of(finished: FinishedError, directory: Path) -> dict[str, float]:
    """The measures of a finished run. Raises Misuse if its model is not there any more."""
    from keras_bert.formats import hugging_face

    for name in hugging_face.FILES:
        if not (directory / name).is_file():
            raise streams.Misuse(f"{directory} holds a finished run, but {name} is missing; {_ADVICE}") from finished
    return finished.measures


def tell_measures(measures: Mapping[str, float]) -> None:
    """Writes a line for each measure of a run on standard output."""
    for name, value in measures.items():
        click.echo(f"{name}\t{value:.4f}")


def misuse(error: Exception, directory: Path) -> streams.Misuse:
    """An error of a run, in the words of the command."""
    from keras_bert.training import run_files, state

    message = streams.one_line(error).replace(state.ADVICE, _ADVICE)
    command = click.get_current_context().command
    if isinstance(error, run_files.AnotherRunError) and error.is_finished and _has_preset(command):
        message += f"; to train its model further, use --preset {directory} and another --output"
    return streams.Misuse(message)


def _has_preset(command: click.Command) -> bool:
    return any(option.name == "preset" for option in command.params)


def check_output(directory: Path, overwrite: bool) -> None:
    """Raises Misuse unless `--output` is new, empty, or the directory of a run; or has only what may be removed."""
    if overwrite and directory.is_dir():
        overwriting.check(directory)
    elif directory.exists() and not (directory / RUN).is_dir() and (not directory.is_dir() or any(directory.iterdir())):
        advice = _ADVICE if (directory / "config.json").is_file() else "choose another --output"
        raise streams.Misuse(f"{directory} exists and is not a run of this command; {advice}")
    directories.check(directory)


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

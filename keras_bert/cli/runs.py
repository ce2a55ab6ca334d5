"""Training runs of the command: their options, the checks before them, and their output and errors."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import click

from keras_bert import files, precisions
from keras_bert.choices import STRATEGIES
from keras_bert.cli import terminal
from keras_bert.cli.options import check_prompts, field_options, together
from keras_bert.data.table_formats import check_lines, text_files
from keras_bert.recipe import FineTuningWithTeacher, PretrainingRecipe, RowsRecipe, SecondPhase
from keras_bert.task_table import FINE_TUNING

_FILE_ERRORS = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


def options(*recipes: Callable[[Callable], Callable]) -> Callable[[Callable], Callable]:
    """Combines the options of all training runs with those of `recipes`."""
    return together(
        click.option("--output", required=True, metavar="DIR", help="Write the model into DIR, or resume its run."),
        click.option("--overwrite", is_flag=True, help="Remove the run or the model in DIR first, and start again."),
        *recipes,
        click.option(
            "--dtype",
            type=click.Choice(precisions.TRAINING),
            default=precisions.TRAINING[0],
            help="The dtype policy of training; the weights stay float32.",
        ),
        click.option(
            "--strategy",
            type=click.Choice(STRATEGIES),
            default=STRATEGIES[0],
            help="The devices to train on; see `launch` for several processes.",
        ),
    )


def fine_tuning_options(recipe: type, examples: type, without: Collection[str] = ()) -> Callable[[Callable], Callable]:
    """Combines the options of all commands that fine-tune with those of a recipe, and of a task's files."""
    return together(
        click.option("--train", required=True, metavar="FILE", help="The examples to train on."),
        click.option(
            *("--eval", "--validation", "validation"),
            metavar="FILE",
            help="Examples to measure each epoch on; the best epoch is kept.",
        ),
        options(field_options(recipe, without), field_options(examples, without)),
    )


def fine_tune(task: str, *, train: str, validation: str | None, **options: Any) -> None:
    """Fine-tunes a model for a task. Checks options and opens files before it imports TensorFlow."""
    from keras_bert.tasks.registry import Job

    fields = FINE_TUNING[task].files.__dataclass_fields__ | FineTuningWithTeacher.__dataclass_fields__
    settings = {name: options.pop(name) for name in list(options) if name in fields}
    with terminal.misuse(OSError):
        job = Job(task, train, validation, settings)
        _ = job.opened
        files.check_run(options["output"], options["overwrite"])
    if "preset" in options:
        check_prompts(options["preset"], settings.get("query_prompt"), settings.get("positive_prompt"))
    _run("fine_tuning_run", "fine_tune_job", job, **options)


def pretrain(recipe: type[PretrainingRecipe], corpus: tuple[str, ...], **options: Any) -> None:
    """Pre-trains a model. Checks options and files before it imports TensorFlow."""
    from keras_bert.sizes import published_size

    vocab, size, validation = (options.get(name) for name in ("vocab", "size", "validation"))
    with terminal.misuse(OSError):
        for kind in (recipe, RowsRecipe, SecondPhase):
            kind(**{name: options[name] for name in kind.__dataclass_fields__})
        for path in filter(None, (*corpus, validation)):
            text_files(Path(path))
        if vocab is not None:
            Path(vocab).stat()
            check_lines(vocab, "a vocabulary, one token per line")
        if size is not None and not published_size(size):
            from keras_bert.formats import read_config

            read_config(size)
        files.check_run(options["output"], options["overwrite"])
    _run("pretraining_run", "pretrain_files", corpus, **options)


def _run(module: str, function: str, *arguments: Any, overwrite: bool, **settings: Any) -> None:
    """Calls a function of `keras_bert.training`, and prints its measures, or what stopped it in one line."""
    import tensorflow as tf

    from keras_bert.training.loop import Interrupted

    runs = importlib.import_module(f"keras_bert.training.{module}")

    unfinished = functools.partial(terminal.resumable, f"the run in {settings['output']}", "add --overwrite")
    log = functools.partial(terminal.echo, err=True)
    try:
        with terminal.end_the_command(message=unfinished()), terminal.misuse(*_FILE_ERRORS):
            measures = getattr(runs, function)(*arguments, overwrite=overwrite, log=log, **settings)
    except Interrupted as error:
        terminal.end(error.number, unfinished(f" after {error.place}"))
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError) as error:
        raise terminal.Failure("another process of this run has ended; all resume from its last checkpoint") from error
    echo_with_baselines(measures)


def echo_with_baselines(measures: Mapping[str, float]) -> None:
    """Prints a measure a line, with its baseline if there is one."""
    from keras_bert.answers.tables import with_baselines

    for name, value, baseline in with_baselines(measures):
        suffix = "" if baseline is None else f"\t(baseline: {baseline:.4f})"
        terminal.echo(f"{name}\t{value}{suffix}" if isinstance(value, int) else f"{name}\t{value:.4f}{suffix}")

"""What all commands that fine-tune have in common: their options, and the run from examples to a directory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from keras_bert.cli import output_directories, quiet, runs, training_options
from keras_bert.cli.errors import Misuse
from keras_bert.cli.options import together
from keras_bert.recipe import EPOCHS, FineTuningRecipe


def options(kind: type[FineTuningRecipe], without: str = "") -> Callable[[Callable], Callable]:
    """The options of every command that fine-tunes; see `training_options.recipe_options`."""
    return together(
        click.option("--train", required=True, metavar="FILE", help="The examples to train on."),
        click.option(
            "--eval", "validation", metavar="FILE", help="Examples to measure each epoch on; the best epoch is kept."
        ),
        click.option(
            "--output", required=True, metavar="DIR", help="Write the model into DIR, or resume the run in it."
        ),
        output_directories.option,
        training_options.recipe_options(kind, without),
        click.option(
            "--sequence-length",
            type=click.IntRange(3),
            help="The length of a row in tokens; by default, as long as the texts need.",
        ),
        training_options.dtype_option,
        training_options.strategy_option,
        click.option(
            "--skip-bad", is_flag=True, help="Leave out examples that cannot be used, and print their number."
        ),
    )


def train_on_examples(
    read: Callable[[str], Any], make: Callable[..., Any], train: str, evaluated: str | None, settings: dict[str, Any],
    output: str, overwrite: bool, preset: Path, sequence_length: int | None, dtype: str, strategy: str, skip_bad: bool,
    recipe: FineTuningRecipe,
) -> None:  # fmt: skip
    """Fine-tunes a model on files of examples and writes it into a directory.

    Args:
        read: a file -> examples.
        make: training examples, the preset, `sequence_length=` -> a model, and further arguments for `fine_tune`.
        train, evaluated: the files.
        settings: further settings for the report.
        output, ...: see `options`.
    """
    directory = Path(output)
    runs.check_output(directory, overwrite)
    if recipe.batch_size and recipe.batch_tokens:
        raise Misuse("--batch-size and --batch-tokens are both given; give only one of them")
    if evaluated is not None and recipe.validation_split is not None:
        raise Misuse("--eval and --eval-split are both given; give only one of them")
    with quiet.imports():
        import keras

        from keras_bert import training
        from keras_bert.tasks import columns
        from keras_bert.tasks.storable import UntrainedWarning
        from keras_bert.training import report, workers
        from keras_bert.training.batches import hold_out

    def after(epoch: int, step: int = 0, batches: int = 0) -> str:
        if not step:
            return f"epoch {epoch} of {recipe.epochs}"
        return f"epoch {epoch + 1} of {recipe.epochs}, step {step:,} of {batches:,}"

    with runs.resumable(after, overwrite), training_options.computing_with(dtype):
        devices = training_options.devices(strategy)
        with devices.scope():  # `read` may load the teacher, for its kind of labels
            learned = read(train)
            given = to_measure = None if evaluated is None else read(evaluated).xy
        with runs.finishing(directory, devices) as finish:
            learned.check_can_be_learned(train)
            count = len(learned)
            if recipe.validation_split is not None:
                _, to_measure = hold_out(learned.xy, recipe.validation_split, recipe.seed)
                count -= columns.count_of(to_measure[0])
            by_default, recipe = recipe.epochs is None, recipe.for_examples(count)
            runs.begin(directory, devices, recipe.epochs, after, vars(recipe), overwrite)
            report.check_installed()
            keras.utils.set_random_seed(recipe.seed)
            with devices.scope(), warnings.catch_warnings():
                warnings.simplefilter("ignore", UntrainedWarning)  # it is trained now
                model, more = make(learned, preset, sequence_length=sequence_length)
            measured = None if to_measure is None else columns.count_of(to_measure[0])
            click.echo(_about(len(learned), measured, train, evaluated), err=True)
            if by_default and recipe.epochs > EPOCHS:
                message = f"{recipe.epochs} epochs, as there are few examples; --epochs sets another number"
                click.echo(message, err=True)
            with workers.chief_first(devices):
                if overwrite and workers.is_chief(devices):
                    output_directories.clear(directory)
            lines = runs.told_each_epoch(devices, after)
            more |= {"callbacks": lines, **vars(recipe)}
            history = training.fine_tune(model, learned.xy, given, directory / output_directories.RUN, **more)
            if not workers.is_chief(devices):
                return
            model.save_preset(directory, overwrite=True)
            measures, confusion = {}, None
            if to_measure is not None:
                x, y = to_measure
                answers = model.answers(x)
                measures, confusion = model.measures(answers, y), model.confusion(answers, y)
            told = {"train": train, "eval": evaluated, "preset": preset, "sequence_length": sequence_length}
            told |= {**settings, **vars(recipe), "dtype": dtype}
            report.write_report(directory, told, history, measures, confusion)
            finish(measures)


def _about(learned: int, measured: int | None, train: str, validation: str | None) -> str:
    told = f"{learned:,} examples from {train}"
    if measured is None:
        return told
    held_out, source = (" of them held out", "") if validation is None else ("", f" from {validation}")
    return f"{told}, {measured:,}{held_out} to measure with{source}"

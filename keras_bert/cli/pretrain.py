"""keras-bert pretrain: text -> a pre-trained model and a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from keras_bert.cli import interrupts, output_directories, quiet, runs, training_options
from keras_bert.cli.options import together
from keras_bert.recipe import PretrainingRecipe, SecondPhase

if TYPE_CHECKING:
    from keras_bert.config import BertConfig
    from keras_bert.pretraining import BertPretrainer
    from keras_bert.text import BertPreprocessor

# Copied from `keras_bert.pretraining`, which takes too long to import for --help.
OBJECTIVES = ("next_sentence", "sentence_order", "sentences")
LAYOUTS = ("prose", "sentences")
MASKED_UNITS = ("token", "word", "span")
_RECORDS, _VALIDATION, _THEN = "records", "validation", "then"  # in the run's directory
_PANELS = {
    "training loss": ["loss"],
    "validation loss": ["masked_lm_loss", "next_sentence_loss"],
    "validation accuracy": ["masked_lm_accuracy", "next_sentence_accuracy"],
}


def options(kind: type[PretrainingRecipe], objective: str) -> Callable[[Callable], Callable]:
    """The options of a command that trains on text, with its default objective."""
    number = click.IntRange(1)
    return together(
        click.argument("corpus", metavar="FILE...", nargs=-1, required=True),
        click.option("--output", required=True, metavar="DIR", help="Write the model into DIR, or resume its run."),
        output_directories.option,
        click.option("--eval", "validation", metavar="FILE", help="Validation text: a file or a directory."),
        training_options.recipe_options(kind),
        click.option(
            "--objective",
            type=click.Choice(OBJECTIVES),
            default=objective,
            help="The objective besides masked tokens: whether the second segment follows the first, or whether both "
            "are in order. sentences: only masked tokens, in rows of whole sentences.",
        ),
        click.option(
            "--layout",
            type=click.Choice(LAYOUTS),
            default=LAYOUTS[0],
            help="Blank lines separate paragraphs (prose), or documents with one sentence per line (sentences).",
        ),
        click.option("--sequence-length", type=click.IntRange(5), default=128, help="The number of tokens in a row."),
        click.option(
            "--masked-unit", type=click.Choice(MASKED_UNITS), default=MASKED_UNITS[0], help="The unit of masking."
        ),
        click.option("--static-masking", is_flag=True, help="Mask the same tokens in each epoch, unlike RoBERTa."),
        click.option(
            "--copies", type=number, default=1, help="The number of times to use each text, with other pairs and masks."
        ),
        click.option("--pack", is_flag=True, help="Pack several short documents into a row (--objective sentences)."),
        click.option(
            "--processes", type=number, default=1, help="The number of processes that write training examples."
        ),
        training_options.recipe_options(SecondPhase, name="second"),
        training_options.dtype_option,
        training_options.strategy_option,
    )


@click.command()
@click.option("--vocab", required=True, metavar="PATH", help="An uncased vocab.txt, or a directory with a tokenizer.")
@click.option("--size", required=True, help="tiny, mini, small, medium, base, large, or a config.json.")
@options(PretrainingRecipe, objective=OBJECTIVES[0])
def pretrain(corpus: tuple[str, ...], vocab: str, size: str, **options: Any) -> None:
    """Pre-train your own BERT on text.

    Each FILE is text in UTF-8, or a directory of .txt files. Writes the model into DIR, for `fill`, `finetune`, `export
    encoder` and transformers, and its losses into report.md. After an interruption, the same command resumes the run.

    \b
    Example:
      $ keras-bert vocab books/ --size 8000 --output vocab.txt
      $ keras-bert pretrain books/ --vocab vocab.txt --size tiny --objective sentences --sequence-length 32 \\
          --steps 10000 --output my-bert
      $ keras-bert fill my-bert "he looked at [MASK] and said nothing ."
    """

    def prepare(sequence_length: int, pairs: bool) -> Prepared:
        from keras_bert.encoder import BertEncoder
        from keras_bert.pretraining import BertPretrainer
        from keras_bert.pretraining.pretrainer import config_of, read_vocabulary
        from keras_bert.text import BertPreprocessor

        tokenizer = read_vocabulary(vocab)
        config = config_of(size, tokenizer, pairs)
        preprocessor = BertPreprocessor(tokenizer, sequence_length, max_sequence_length=config.max_positions)
        return Prepared(preprocessor, config, lambda: (BertPretrainer(BertEncoder(config), preprocessor, pairs), {}))

    train_on_text(prepare, corpus, {"vocab": vocab, "size": size}, **options)


class Prepared(NamedTuple):
    """What a command prepares before records are written."""

    preprocessor: BertPreprocessor
    config: BertConfig
    make: Callable[[], tuple[BertPretrainer, dict[str, Any]]]  # the model, and arguments for `pretrain`


def train_on_text(
    prepare: Callable[[int, bool], Prepared], corpus: tuple[str, ...], told: dict[str, Any], recipe: PretrainingRecipe,
    second: SecondPhase, output: str, overwrite: bool, validation: str | None, objective: str, layout: str,
    sequence_length: int, masked_unit: str, static_masking: bool, copies: int, pack: bool, processes: int, dtype: str,
    strategy: str,
) -> None:  # fmt: skip
    """Trains a model on text and writes it into a directory.

    Args:
        prepare: sequence length, whether sequences are pairs -> a `Prepared`.
        corpus: files and directories.
        told: more settings for the report.
        recipe, ...: see `options`.
    """
    directory = Path(output)
    run = directory / output_directories.RUN
    runs.check_output(directory, overwrite)
    with quiet.imports():
        import keras

        from keras_bert import training
        from keras_bert.pretraining import MaskedLMMasking, write_records
        from keras_bert.pretraining.corpus import check_documents
        from keras_bert.text import BertPreprocessor
        from keras_bert.text.learning_corpus import text_files
        from keras_bert.training import Phase, report, workers

    # The model is measured after each of these steps.
    ends = [
        first + min(done + recipe.measure_every, steps)
        for first, steps in ((0, recipe.steps), (recipe.steps, second.then_steps or 0))
        for done in range(0, steps, recipe.measure_every)
    ]

    def after(epoch: int, step: int = 0, batches: int = 0) -> str:
        return f"step {(ends[min(epoch, len(ends)) - 1] if epoch else 0) + step:,} of {ends[-1]:,}"

    def phase(folder: Path, preprocessor: BertPreprocessor, steps: int, batch_size: int) -> tuple[Phase, dict]:
        predictions = max(1, round(0.15 * preprocessor.sequence_length))
        given = {**settings, "predictions": predictions, "pack": pack, "processes": processes}
        with interrupts.killed_processes():
            counts = write_records(learned, folder / _RECORDS, preprocessor, copies=copies, **given)
            click.echo(f"{_about(counts, learned, copies)}, in rows of {preprocessor.sequence_length} tokens", err=True)
            if measured_on:
                measured = write_records(measured_on, folder / _VALIDATION, preprocessor, **given)
                click.echo(f"validation: {_about(measured, measured_on)}", err=True)
        masking = MaskedLMMasking(preprocessor.tokenizer, predictions, masked_unit=masked_unit)
        measured = folder / _VALIDATION if measured_on else None
        return Phase(folder / _RECORDS, steps, batch_size, None if static_masking else masking, measured), counts

    settings = {"objective": objective, "layout": layout, "masked_unit": masked_unit, "seed": recipe.seed}
    with runs.resumable(after, overwrite), training_options.computing_with(dtype):
        devices = training_options.devices(strategy)
        steps = [recipe.steps, *([] if second.then_steps is None else [second.then_steps])]
        told_before = {**vars(recipe), "steps": steps}
        if recipe.learning_rate is None:
            del told_before["learning_rate"]  # the size of the model decides it
        del told_before["batch_size"]  # of both phases
        runs.begin(directory, devices, len(ends), after, told_before, overwrite)
        with runs.finishing(directory, devices) as finish:
            learned = [path for each in corpus for path in text_files(Path(each))]
            measured_on = [] if validation is None else text_files(Path(validation))
            keras.utils.set_random_seed(recipe.seed)  # a teacher may get a new head
            with devices.scope():
                preprocessor, config, make = prepare(sequence_length, objective != "sentences")
            for paths in filter(None, (learned, measured_on)):
                check_documents(paths, layout, objective)
            longer, then = None, None
            if second.then_steps is not None:  # checks its length before any work
                longer = BertPreprocessor(
                    preprocessor.tokenizer, second.then_length, max_sequence_length=config.max_positions
                )
            with workers.chief_first(devices):
                if overwrite and workers.is_chief(devices):
                    output_directories.clear(directory)
                first, counts = phase(run, preprocessor, recipe.steps, recipe.batch_size)
                if longer is not None:
                    then, _ = phase(run / _THEN, longer, second.then_steps, second.then_batch_size)
            keras.utils.set_random_seed(recipe.seed)
            with devices.scope():
                model, more = make()
            if recipe.learning_rate is None:
                recipe = recipe.for_width(config.hidden_size, trained="teacher" in more)
                if workers.is_chief(devices):
                    reason = "it starts from its teacher" if "teacher" in more else f"it is {config.hidden_size} wide"
                    click.echo(f"learning rate {recipe.learning_rate:g} for this model, as {reason}", err=True)
            lines = runs.told_each_epoch(devices, after)
            more |= {"callbacks": lines, **vars(recipe), **first._asdict()}
            history = training.pretrain(model, directory=run, then=then, **more)
            if not workers.is_chief(devices):
                return
            model.save_preset(directory, overwrite=True)
            by_step = [{"step": ends[each.pop("epoch") - 1], **each} for each in history]
            measures = history[-1]
            told = {"text": " ".join(corpus), "eval": validation, **told, **settings, **vars(recipe), "pack": pack}
            told |= {"sequence_length": sequence_length, "static_masking": static_masking}
            if then is not None:
                told |= vars(second)
            told |= {"copies": copies, "dtype": dtype, **counts}
            report.write_report(directory, told, by_step, measures, panels=_PANELS)
            finish(measures)


def _about(counts: dict[str, int], paths: list[Path], copies: int = 1) -> str:
    named = str(paths[0]) if len(paths) == 1 else f"{len(paths):,} files"
    text = ", ".join(f"{counts[name] // copies:,} {name}" for name in ("documents", "sentences", "tokens"))
    return f"{counts['examples']:,} examples of {text}, from {named}"

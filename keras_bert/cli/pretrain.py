"""keras-bert pretrain: text -> a pre-trained model in a directory, with a report."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from keras_bert.cli import quiet, runs, streams
from keras_bert.recipe import PretrainingRecipe, SecondPhase

if TYPE_CHECKING:
    from keras_bert.config import BertConfig
    from keras_bert.pretraining import BertPretrainer
    from keras_bert.text import BertPreprocessor
    from keras_bert.text.tokenizer import Tokenizer

# The same as in `keras_bert.pretraining`, which is too slow to import for --help.
OBJECTIVES = ("next_sentence", "sentence_order", "sentences")
LAYOUTS = ("prose", "sentences")
MASKED_UNITS = ("token", "word", "span")
_SIZES = ("tiny", "mini", "small", "medium", "base", "large")
_RECORDS, _VALIDATION, _THEN = "records", "validation", "then"  # in the run's directory
_PANELS = {
    "training loss": ["loss"],
    "loss of the validation text": ["masked_lm_loss", "next_sentence_loss"],
    "accuracy on the validation text": ["masked_lm_accuracy", "next_sentence_accuracy"],
}


def options(kind: type[PretrainingRecipe], objective: str) -> Callable[[Callable], Callable]:
    """The options of a command that trains on text, with its default objective."""
    option = functools.partial(click.option, show_default=True)
    return streams.together(
        click.argument("corpus", metavar="FILE...", nargs=-1, required=True),
        option("--output", required=True, metavar="DIR", help="Write the model into DIR, or resume the run in it."),
        option("--eval", "validation", metavar="FILE", help="Text to measure the model on; a file or a directory."),
        runs.recipe_options(kind),
        option(
            "--objective",
            type=click.Choice(OBJECTIVES),
            default=objective,
            help="Beside masked tokens, predict whether the second segment follows the first, or whether the two are "
            "in order; sentences: predict masked tokens only, in rows full of sentences.",
        ),
        option(
            "--layout",
            type=click.Choice(LAYOUTS),
            default=LAYOUTS[0],
            help="prose: blank lines separate paragraphs; sentences: one sentence per line, blank lines separate "
            "documents.",
        ),
        option("--sequence-length", type=click.IntRange(5), default=128, help="Tokens per row."),
        option(
            "--masked-unit",
            type=click.Choice(MASKED_UNITS),
            default=MASKED_UNITS[0],
            help="The unit that is masked as a whole.",
        ),
        option(
            "--static-masking",
            is_flag=True,
            help="Mask the same tokens each time a row is seen; by default others, as RoBERTa does.",
        ),
        option(
            "--copies",
            type=click.IntRange(1),
            default=1,
            help="Times that each text is used, with other pairs and masks.",
        ),
        option("--pack", is_flag=True, help="Put several short documents into one row; with --objective sentences."),
        option(
            "--processes",
            type=click.IntRange(1),
            default=1,
            help="Number of processes that make examples of the text; the examples stay the same.",
        ),
        runs.recipe_options(SecondPhase, name="second"),
        runs.dtype_option,
        runs.strategy_option,
    )


@click.command()
@click.option("--vocab", required=True, metavar="PATH", help="An uncased vocab.txt, or a directory with a tokenizer.")
@click.option(
    "--size", required=True, metavar="SIZE", help=f"The size of the model: {', '.join(_SIZES)}, or a config.json."
)
@options(PretrainingRecipe, objective=OBJECTIVES[0])
def pretrain(corpus: tuple[str, ...], vocab: str, size: str, **options: Any) -> None:
    """Pre-train a BERT of your own on text.

    Each FILE is text in UTF-8, or a directory of .txt files. Writes the model into DIR, for `fill`, `finetune`, `export
    encoder` and transformers, and report.md with its losses. After an interruption, the same command resumes the run.

    \b
    Example:
      $ keras-bert vocab books/ --size 8000 --output vocab.txt
      $ keras-bert pretrain books/ --vocab vocab.txt --size tiny --steps 10000 --output my-bert
      $ keras-bert fill my-bert "It was a dark and [MASK] night."
    """

    def prepare(sequence_length: int, pairs: bool) -> Prepared:
        from keras_bert.encoder import BertEncoder
        from keras_bert.pretraining import BertPretrainer
        from keras_bert.text import BertPreprocessor

        tokenizer = _tokenizer(Path(vocab))
        config = _config(size, tokenizer)
        preprocessor = BertPreprocessor(tokenizer, sequence_length, max_sequence_length=config.max_positions)
        return Prepared(preprocessor, config, lambda: (BertPretrainer(BertEncoder(config), preprocessor, pairs), {}))

    train_on_text(prepare, corpus, {"vocab": vocab, "size": size}, **options)


class Prepared(NamedTuple):
    """The parts that a command prepares before it writes records.

    Attributes:
        preprocessor: packs the records.
        config: of the model.
        make: returns the model, and arguments for `pretrain`.
    """

    preprocessor: BertPreprocessor
    config: BertConfig
    make: Callable[[], tuple[BertPretrainer, dict[str, Any]]]


def train_on_text(
    prepare: Callable[[int, bool], Prepared], corpus: tuple[str, ...], told: dict[str, Any], recipe: PretrainingRecipe,
    second: SecondPhase, output: str, validation: str | None, objective: str, layout: str, sequence_length: int,
    masked_unit: str, static_masking: bool, copies: int, pack: bool, processes: int, dtype: str, strategy: str,
) -> None:  # fmt: skip
    """Trains a model on text and writes it into a directory.

    Args:
        prepare: the length of the sequences, and whether they are pairs -> a `Prepared`.
        corpus: files and directories.
        told: further settings for the report.
        recipe, ...: see `options`.
    """
    directory = Path(output)
    run = directory / runs.RUN
    runs.check_output(directory)
    with quiet.imports():
        import keras

        from keras_bert import training
        from keras_bert.pretraining import MaskedLMMasking, write_records
        from keras_bert.text import BertPreprocessor
        from keras_bert.text.learning_corpus import text_files
        from keras_bert.training import Phase, report, workers

    # Steps are measured, and the state is told, after each of these.
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
        counts = write_records(learned, folder / _RECORDS, preprocessor, copies=copies, **given)
        click.echo(f"{_about(counts, learned, copies)}, in rows of {preprocessor.sequence_length} tokens", err=True)
        if measured_on:
            measured = write_records(measured_on, folder / _VALIDATION, preprocessor, **given)
            click.echo(f"to measure with: {_about(measured, measured_on)}", err=True)
        masking = MaskedLMMasking(preprocessor.tokenizer, predictions, masked_unit=masked_unit)
        measured = folder / _VALIDATION if measured_on else None
        return Phase(folder / _RECORDS, steps, batch_size, None if static_masking else masking, measured), counts

    settings = {"objective": objective, "layout": layout, "masked_unit": masked_unit, "seed": recipe.seed}
    with runs.resumable(after), runs.computing_with(dtype):
        devices = runs.devices(strategy)
        runs.tell_position(directory, devices, len(ends), after)
        try:
            learned = [path for each in corpus for path in text_files(Path(each))]
            measured_on = [] if validation is None else text_files(Path(validation))
            with devices.scope():
                preprocessor, config, make = prepare(sequence_length, objective != "sentences")
            _check_objective(objective, layout, config, learned, measured_on)
            longer, then = None, None
            if second.then_steps is not None:  # checks its length before any work
                longer = BertPreprocessor(
                    preprocessor.tokenizer, second.then_length, max_sequence_length=config.max_positions
                )
            with workers.chief_first(devices):
                first, counts = phase(run, preprocessor, recipe.steps, recipe.batch_size)
                if longer is not None:
                    then, _ = phase(run / _THEN, longer, second.then_steps, second.then_batch_size)
            keras.utils.set_random_seed(recipe.seed)
            with devices.scope():
                model, more = make()
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
        except (ImportError, ValueError) as error:
            raise streams.Misuse(streams.one_line(error)) from error
    for name, value in measures.items():
        click.echo(f"{name}\t{value:.4f}")


def _tokenizer(path: Path) -> Tokenizer:
    from keras_bert.text import WordPieceTokenizer
    from keras_bert.text.loading import load_tokenizer

    if path.is_dir():
        return load_tokenizer(path)
    tokenizer = WordPieceTokenizer(path)
    special = set(tokenizer.special_tokens.values())
    for token in tokenizer.vocabulary:
        if token != token.lower() and token not in special and not token.startswith("[unused"):
            raise ValueError(
                f"{path} has capitals, such as {token!r}, and by itself is read as an uncased vocabulary; give a "
                "directory that says so in its tokenizer_config.json, as `keras-bert vocab --cased` writes it"
            )
    return tokenizer


def _config(size: str, tokenizer: Tokenizer) -> BertConfig:
    from keras_bert.config import BertConfig
    from keras_bert.formats import read_config

    tokens, padding = tokenizer.vocabulary_size, tokenizer.pad_token_id
    if size in _SIZES:
        return BertConfig.named(f"bert-{size}", vocab_size=tokens, pad_token_id=padding)
    if not size.endswith(".json"):
        raise ValueError(f"there is no size {size!r}; there are {', '.join(_SIZES)}, or give a CONFIG.json")
    config = read_config(size)
    try:
        config.check_vocabulary(tokens)
    except ValueError as error:
        raise ValueError(f"{size}: {error}") from None
    if config.pad_token_id != padding:
        raise ValueError(f"{size}: pad_token_id is {config.pad_token_id}, but it is {padding} in the vocabulary")
    return config


def _check_objective(
    objective: str, layout: str, config: BertConfig, learned: list[Path], validation: list[Path]
) -> None:
    """Raises ValueError if the model has no head for the objective, or a text has too few documents for it."""
    from keras_bert.formats import FAMILIES
    from keras_bert.pretraining.corpus import is_one_document

    if objective != "sentences" and "next_sentence" not in FAMILIES[config.family].heads:
        raise ValueError(f"{config.family} has no head for pairs; choose --objective sentences")
    if objective != "next_sentence":
        return
    for paths in filter(None, (learned, validation)):
        if is_one_document(paths, layout):
            raise ValueError(
                f"{', '.join(map(str, paths))}: there is only one document, but next_sentence takes sentences from "
                "others; add text, put blank lines between its documents, with --layout sentences, or choose "
                "--objective sentence_order"
            )


def _about(counts: dict[str, int], paths: list[Path], copies: int = 1) -> str:
    named = str(paths[0]) if len(paths) == 1 else f"{len(paths):,} files"
    text = ", ".join(f"{counts[name] // copies:,} {name}" for name in ("documents", "sentences", "tokens"))
    return f"{counts['examples']:,} examples of {text}, from {named}"

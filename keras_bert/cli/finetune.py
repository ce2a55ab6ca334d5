"""keras-bert finetune: examples -> a fine-tuned model in a directory, with a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from keras_bert import data
from keras_bert.cli import example_files, overwriting, quiet, runs, streams
from keras_bert.recipe import EPOCHS, FineTuningRecipe

# The names of `keras_bert.tasks.sentence_losses.LOSSES`, without its imports, for a quick --help.
LOSSES = (
    *("multiple_negatives_ranking", "cosent", "angle"),
    *("cosine_similarity", "contrastive", "triplet", "margin_mse"),
)
RANKING_LOSSES = ("binary_cross_entropy", "lambda", "list_net", "margin_mse")  # of `tasks.ranking_losses`


def options(kind: type[FineTuningRecipe], without: str = "") -> Callable[[Callable], Callable]:
    """The options of every command that fine-tunes; see `runs.recipe_options`."""
    return streams.together(
        click.option("--train", required=True, metavar="FILE", help="The examples to train on."),
        click.option(
            "--eval", "validation", metavar="FILE", help="The examples to measure each epoch on; the best one is kept."
        ),
        click.option(
            "--output", required=True, metavar="DIR", help="Write the model into DIR, or resume the run in it."
        ),
        overwriting.option,
        runs.recipe_options(kind, without),
        click.option(
            "--sequence-length",
            type=click.IntRange(3),
            help="The length of a row in tokens; by default what the texts need.",
        ),
        runs.dtype_option,
        runs.strategy_option,
        click.option(
            "--skip-bad", is_flag=True, help="Leave out examples that cannot be used, and say how many they are."
        ),
    )


def _long_text(*choices: str) -> Callable:
    return click.option(
        "--long-text",
        type=click.Choice(choices),
        default=choices[0],
        show_default=True,
        help="How to shorten texts that are too long.",
    )


@click.group()
def finetune() -> None:
    """Fine-tune a model to classify, tag, answer, rank or embed.

    Writes the model into DIR, for `predict`, `evaluate`, `export serving` and transformers, and report.md with its
    measures. After an interruption, the same command resumes the run. To train a model further, begin with it: --preset
    my-model --output my-model-2.

    \b
    Examples:
      $ keras-bert finetune classify --train train.tsv --eval dev.tsv --text-column sentence --output my-model
      $ keras-bert predict my-model "A lovely film"
    """


@finetune.command()
@options(FineTuningRecipe)
@streams.preset_option
@example_files.column_options
@click.option(
    "--problem-type",
    type=click.Choice(example_files.PROBLEM_TYPES),
    default=example_files.PROBLEM_TYPES[0],
    show_default=True,
    help="The kind of the labels: one class for each text, several, or numbers.",
)
@_long_text("truncate", "head_tail", "windows")
def classify(train: str, validation: str | None, problem_type: str, long_text: str, **options: Any) -> None:
    """Classify texts or pairs: CSV, TSV, JSON lines or Parquet, or a directory with one directory per class.

    \b
    Example:
      $ keras-bert finetune classify --train train.csv --eval dev.csv --output my-model
    """
    columns = {name: options.pop(name) for name in example_files.COLUMNS}

    def read(path: str) -> data.TextExamples:
        return example_files.read(data.TextExamples, path, options["skip_bad"], problem_type, **columns)

    def make(learned: data.TextExamples, preset: Path, **settings: Any) -> Any:
        from keras_bert import BertClassifier

        settings |= {"problem_type": problem_type, "pairs": learned.pairs is not None, "long_text": long_text}
        return BertClassifier.from_preset(preset, labels=learned.label_names, **settings), {}

    settings = {"problem_type": problem_type, "long_text": long_text, **columns}
    train_on_examples(read, make, train, validation, settings, **options)


@finetune.command()
@options(FineTuningRecipe, without="class_weight")
@streams.preset_option
@click.option("--label-column", type=int, default=-1, show_default=True, help="The column of the labels; -1: the last.")
@_long_text("truncate", "windows")
def tag(train: str, validation: str | None, label_column: int, long_text: str, **options: Any) -> None:
    """Label words, such as named entities: CoNLL's columns, one word per line, a blank line between sentences.

    \b
    Example:
      $ keras-bert finetune tag --train train.conll --eval dev.conll --output my-tagger
    """

    def read(path: str) -> data.WordExamples:
        return example_files.read(data.WordExamples, path, options["skip_bad"], label_column=label_column)

    def make(learned: data.WordExamples, preset: Path, **settings: Any) -> Any:
        from keras_bert import BertTokenClassifier

        settings |= {"labels": learned.label_names, "long_text": long_text}
        return BertTokenClassifier.from_preset(preset, **settings), {}

    train_on_examples(read, make, train, validation, {"label_column": label_column, "long_text": long_text}, **options)


@finetune.command()
@options(FineTuningRecipe, without="class_weight")
@streams.preset_option
def answer(train: str, validation: str | None, **options: Any) -> None:
    """Answer questions by spans of a text: SQuAD's JSON, version 1.1 or 2.0.

    \b
    Example:
      $ keras-bert finetune answer --train train-v1.1.json --eval dev-v1.1.json --output my-answerer
    """

    def read(path: str) -> data.QuestionExamples:
        return example_files.read(data.QuestionExamples, path, options["skip_bad"])

    def make(learned: data.QuestionExamples, preset: Path, **settings: Any) -> Any:
        from keras_bert import BertQuestionAnswerer

        return BertQuestionAnswerer.from_preset(preset, **settings), {}

    train_on_examples(read, make, train, validation, {}, **options)


@finetune.command()
@options(FineTuningRecipe, without="class_weight")
@streams.preset_option
@example_files.column_options
@click.option(
    "--negative-column",
    multiple=True,
    metavar="C",
    help="A column of texts that do not answer the query, or less well; may be repeated. Rows are then lists.",
)
@click.option(
    "--score-column",
    multiple=True,
    metavar="C",
    help="For lists, the column of the text's score by a better model, then that of each negative; or the margins "
    "alone, one for each negative. Or of labels 0, 1, 2 ... By default the text is the answer.",
)
@click.option(
    "--loss",
    type=click.Choice(RANKING_LOSSES),
    help="The loss. By default binary_cross_entropy for pairs, margin_mse for lists with scores, else lambda.",
)
def rank(
    train: str,
    validation: str | None,
    negative_column: tuple[str, ...],
    score_column: tuple[str, ...],
    loss: str | None,
    **options: Any,
) -> None:
    """Score how well texts answer queries: a table with a query, a text and a label, 1 or 0; or with lists.

    The query is in `text`, the text that may answer it in `text_pair`, if no other columns are named. A label is 1 for
    an answer, 0 for none, or between. With --negative-column, a row is a list: a query, its answer, and other texts,
    such as those that `mine` finds. `search --rerank` takes the model.

    \b
    Examples:
      $ keras-bert finetune rank --train train.csv --eval dev.csv --output my-reranker
      $ keras-bert finetune rank --train mined.jsonl --text-column query --text-pair-column positive \\
          --negative-column negative --output my-reranker
    """
    columns = {name: options.pop(name) for name in example_files.COLUMNS}
    columns["text_pair_column"] = columns["text_pair_column"] or "text_pair"
    passages = [columns["text_pair_column"], *negative_column]
    _check_lists(loss, passages, columns["label_column"], score_column)

    def read(path: str) -> data.TextExamples | data.ColumnExamples:
        if not negative_column:
            return example_files.read(data.TextExamples, path, options["skip_bad"], "regression", **columns)
        scores = score_column[0] if len(score_column) == 1 else score_column or None
        rows = {"header": not columns["no_header"], "format": columns["format"], "skip_bad": options["skip_bad"]}
        texts = [columns["text_column"], *passages]
        return example_files.read_columns(path, text_columns=texts, score_column=scores, **rows)

    def make(learned: data.TextExamples | data.ColumnExamples, preset: Path, **settings: Any) -> Any:
        from keras_bert import BertReranker
        from keras_bert.tasks import ranking_losses

        chosen = ranking_losses.LOSSES[loss]() if loss else None
        return BertReranker.from_preset(preset, **settings), {"loss": chosen}

    told = {**columns, "negative_column": negative_column, "score_column": score_column, "loss": loss}
    train_on_examples(read, make, train, validation, told, **options)


def _check_lists(loss: str | None, passages: list[str], label_column: str | None, scores: tuple[str, ...]) -> None:
    """Raises Misuse if the options of `rank` for pairs and for lists do not fit."""
    count = len(passages)
    if count == 1:
        if scores or loss not in (None, RANKING_LOSSES[0]):
            given = "--score-column" if scores else f"--loss {loss}"
            raise streams.Misuse(f"{given} is for lists: name the other texts of a row by --negative-column")
    elif label_column is not None:
        raise streams.Misuse(
            "--label-column is for pairs; the labels of lists are in --score-column, one for each text"
        )
    elif scores and len(scores) not in (count, count - 1):
        raise streams.Misuse(
            f"--score-column is given {len(scores)} times, but there are {count} texts to score: --text-pair-column, "
            "and each --negative-column"
        )


@finetune.command()
@options(FineTuningRecipe, without="class_weight")
@streams.preset_option
@click.option("--query-column", default="query", show_default=True, metavar="C", help="The column of the anchors.")
@click.option(
    "--positive-column", default="positive", show_default=True, metavar="C", help="The column of what fits them."
)
@click.option(
    "--negative-column", multiple=True, metavar="C", help="A column of what does not fit them; may be repeated."
)
@click.option(
    "--score-column",
    multiple=True,
    metavar="C",
    help="The column of how alike query and positive are, as a number. May be repeated: a reranker's scores of the "
    "positive and of each negative.",
)
@click.option("--query-prompt", metavar="NAME", help="The name of the model's prompt for queries.")
@click.option("--positive-prompt", metavar="NAME", help="The name of the model's prompt for positives and negatives.")
@click.option(
    "--loss",
    type=click.Choice(LOSSES),
    help="The loss. By default cosent for scores of pairs, margin_mse for those of more texts, else "
    "multiple_negatives_ranking.",
)
@click.option(
    "--matryoshka-dims",
    metavar="N,...",
    help="Train vectors that can be cut to each of these numbers of values, such as 384,128.",
)
@click.option(
    "--mini-batch-size",
    type=click.IntRange(1),
    metavar="N",
    help="Compute N texts at a time: a large --batch-size in the memory of a small one.",
)
@example_files.format_options
def embed(
    train: str,
    validation: str | None,
    query_column: str,
    positive_column: str,
    negative_column: tuple[str, ...],
    score_column: tuple[str, ...],
    query_prompt: str | None,
    positive_prompt: str | None,
    loss: str | None,
    matryoshka_dims: str | None,
    mini_batch_size: int | None,
    no_header: bool,
    format: str | None,
    **options: Any,
) -> None:
    """Sentence vectors: pairs, triplets or pairs with scores, as CSV, TSV, JSON lines or Parquet.

    Without scores, a query learns to find its positive among all positives and negatives of a batch, so a large
    --batch-size helps, with --mini-batch-size where memory is short; equal texts are never each other's negatives.
    Scores of pairs can be any numbers; those of triplets, of a reranker for instance, should have the size of cosines.

    \b
    Example:
      $ keras-bert finetune embed --train qa.jsonl --query-column question --positive-column context --output my-encoder
    """
    if len(score_column) > 1 and len(score_column) != 1 + len(negative_column):
        raise streams.Misuse(
            f"--score-column is given {len(score_column)} times, but there are {1 + len(negative_column)} texts to "
            "score: --positive-column, and each --negative-column"
        )
    scores = score_column[0] if len(score_column) == 1 else score_column or None
    columns = {"text_columns": [query_column, positive_column, *negative_column], "score_column": scores}
    dims = _numbers(matryoshka_dims)

    def read(path: str) -> data.ColumnExamples:
        rows = {"header": not no_header, "format": format, "skip_bad": options["skip_bad"]}
        return example_files.read_columns(path, **columns, **rows)

    def make(learned: data.ColumnExamples, preset: Path, **settings: Any) -> Any:
        from keras_bert import BertSentenceEncoder
        from keras_bert.tasks import sentence_losses

        if query_prompt is not None or positive_prompt is not None:
            settings["column_prompts"] = (query_prompt, positive_prompt)
        of_scores = "margin_mse" if negative_column else "cosent"
        by_default = "multiple_negatives_ranking" if learned.scores is None else of_scores
        chosen = sentence_losses.LOSSES[loss or by_default]()
        if dims:
            chosen = sentence_losses.MatryoshkaLoss(chosen, dims)
        return BertSentenceEncoder.from_preset(preset, **settings), {"loss": chosen, "mini_batch_size": mini_batch_size}

    told = {"query_column": query_column, "positive_column": positive_column, "negative_column": negative_column}
    told |= {"score_column": score_column, "query_prompt": query_prompt, "positive_prompt": positive_prompt}
    settings = {**told, "loss": loss, "matryoshka_dims": matryoshka_dims, "mini_batch_size": mini_batch_size}
    train_on_examples(read, make, train, validation, settings, **options)


def _numbers(text: str | None) -> list[int]:
    """The whole numbers in a list with commas. Raises Misuse if they are none."""
    try:
        numbers = [int(each) for each in text.split(",")] if text else []
    except ValueError:
        numbers = [0]
    if any(number < 1 for number in numbers):
        raise streams.Misuse(f"--matryoshka-dims is {text}; expected whole numbers with commas, such as 384,128")
    return numbers


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
        raise streams.Misuse("--batch-size and --batch-tokens are given: one of the two says what a batch is")
    if evaluated is not None and recipe.validation_split is not None:
        raise streams.Misuse("--eval and --eval-split are given: one of the two says what to measure with")
    with quiet.imports():
        import keras

        from keras_bert import training
        from keras_bert.tasks import columns
        from keras_bert.training import report, run_files, workers
        from keras_bert.training.held_out import hold_out

    def after(epoch: int, step: int = 0, batches: int = 0) -> str:
        if not step:
            return f"epoch {epoch} of {recipe.epochs}"
        return f"epoch {epoch + 1} of {recipe.epochs}, step {step:,} of {batches:,}"

    with runs.resumable(after, overwrite), runs.computing_with(dtype):
        devices = runs.devices(strategy)
        with devices.scope():  # `read` may load the teacher, for its kind of labels
            learned = read(train)
            given = to_measure = None if evaluated is None else read(evaluated).xy
        try:
            learned.check_can_be_learned(train)
            count = len(learned)
            if recipe.validation_split is not None:
                _, to_measure = hold_out(learned.xy, recipe.validation_split, recipe.seed)
                count -= columns.count_of(to_measure[0])
            by_default, recipe = recipe.epochs is None, recipe.for_examples(count)
            runs.begin(directory, devices, recipe.epochs, after, vars(recipe), overwrite)
            report.check_installed()
            keras.utils.set_random_seed(recipe.seed)
            with devices.scope():
                model, more = make(learned, preset, sequence_length=sequence_length)
            measured = None if to_measure is None else columns.count_of(to_measure[0])
            click.echo(_about(len(learned), measured, train, evaluated), err=True)
            if by_default and recipe.epochs > EPOCHS:
                message = f"{recipe.epochs} epochs, as there are few examples; --epochs sets another number"
                click.echo(message, err=True)
            with workers.chief_first(devices):
                if overwrite and workers.is_chief(devices):
                    overwriting.clear(directory)
            lines = runs.told_each_epoch(devices, after)
            more |= {"callbacks": lines, **vars(recipe)}
            history = training.fine_tune(model, learned.xy, given, directory / overwriting.RUN, **more)
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
            runs.finish(directory, measures)
        except run_files.FinishedError as error:
            measures = runs.measures_of(error, directory)
        except (ImportError, ValueError) as error:
            raise runs.misuse(error, directory) from error
    if workers.is_chief(devices):
        runs.tell_measures(measures)


def _about(learned: int, measured: int | None, train: str, validation: str | None) -> str:
    told = f"{learned:,} examples from {train}"
    if measured is None:
        return told
    held_out, source = (" of them held out", "") if validation is None else ("", f" from {validation}")
    return f"{told}, {measured:,}{held_out} to measure with{source}"

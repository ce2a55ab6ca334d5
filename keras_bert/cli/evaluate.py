"""Measure a model on examples, or on text.

MODEL is a directory that `finetune` wrote; FILE holds the examples. Writes one measure per line: its name, a tab,
and the number. Then come macro averages, and precision, recall, F1 and support of each class (or entity type, or
word label). Support is the number of examples with this label. --report writes a page that needs no network: the
measures as tables, the confusion matrix, and the 100 worst answers.

--errors writes a row for each wrongly answered example: its line (or row) in FILE, what the model read, the label,
the answer and its probability, and all other columns of FILE. A column with one of these names is written as
`given_label` and so on. Of a tagger, it writes a row for each wrong entity. For regression, it writes the examples
whose error is at least rmse, the largest first.

What encodes texts is measured on --query-column and --positive-column: each query searches for its positives among
all of them, and the texts of --corpus. With --score-column, the correlation of similarities and scores is measured.

On a directory in BEIR's layout, the queries search the whole corpus: nDCG@10, MRR@10, recall@100 and MAP@100, by
trec_eval. The model makes an index, which --index keeps; --hybrid and --rerank search as `search` does.

A masked language model is measured on text, as `pretrain --eval` does: FILE is text in UTF-8, or a directory of .txt
files. The masks are the same in every call. Each measure has its baseline: the best model that ignores the text.

\b
Examples:
  $ keras-bert evaluate my-model dev.tsv --text-column sentence
  accuracy	0.9151	(baseline: 0.5092)
  $ keras-bert evaluate my-encoder sts.csv --query-column first --positive-column second --score-column score
  spearman	0.8674
  pearson	0.8696
  $ keras-bert evaluate my-bert held-out.txt
  masked_lm_accuracy	0.3357	(baseline: 0.0538)
  ...
  $ keras-bert evaluate all-MiniLM-L6-v2 shop --index shop-index
  ndcg@10	1.0000
  ...
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from keras_bert.cli import gates, options, runs, streams
from keras_bert.cli.terminal import Misuse, echo, misuse, one_line
from keras_bert.counted import counted, either
from keras_bert.data.beir import is_retrieval_data, read_beir
from keras_bert.data.table_formats import text_files
from keras_bert.data.tables import read_corpus
from keras_bert.data.task_files import ClassifyFiles, EmbedFiles
from keras_bert.recipe import RowsRecipe

if TYPE_CHECKING:
    from keras_bert.answers import Score
    from keras_bert.data.examples import Rows
    from keras_bert.tasks.base.task import BertTask

_COLUMNS = ("query_column", "positive_column", "negative_columns", "score_columns", "query_prompt", "positive_prompt")
_encoder_options = options.together(
    options.field_options(EmbedFiles, only=_COLUMNS, query_column=None, positive_column=None),
    click.option("--corpus", metavar="FILE", help="Search the texts of FILE, too, in the column --text-column."),
)

_SEARCH = ("split", "index", "hybrid", "rerank")
_search_options = options.together(
    click.option("--split", default="test", metavar="NAME", help="In BEIR's layout, the judgements: qrels/NAME.tsv."),
    click.option("--index", metavar="DIR", help="In BEIR's layout, keep the index of the corpus in DIR, or use it."),
    click.option("--hybrid", is_flag=True, help="In BEIR's layout, also find documents with the words of the query."),
    click.option(
        "--rerank",
        metavar="MODEL",
        callback=options.find_preset,
        help="In BEIR's layout, rank the 100 best documents with a cross-encoder: a directory, or hf://org/name.",
    ),
)

_TEXT = ("objective", "layout", "sequence_length", "masked_unit")
_text_options = options.field_options(RowsRecipe, only=_TEXT, objective=None, sequence_length=None)


class _Measured(NamedTuple):
    kind: str  # the model's class
    score: Score
    examples: int | None = None  # their number; None for text


def _measure_text(model: Path, file: str, settings: Mapping[str, Any], given: Mapping[str, str]) -> _Measured:
    """Measures a masked language model; `given` are the options on the command line, by parameter."""
    for name, option in given.items():
        if name not in (*_TEXT, "precision", "calibration", "output", "overwrite", "requirements"):
            raise Misuse(f"{option} is for examples, but {model} is a masked language model, measured on text")
    rows = {name: settings[name] for name in _TEXT if name in given}
    with misuse(OSError):
        RowsRecipe(**rows)
        text_files(Path(file))
    from keras_bert.answers import Score
    from keras_bert.pretraining import BertPretrainer
    from keras_bert.training import evaluate_text

    length = rows.pop("sequence_length", None)
    pairs = False if rows.get("objective") == "sentences" else None
    from_preset = functools.partial(BertPretrainer.from_preset, sequence_length=length, pairs=pairs)
    pretrainer = options.load_in_precision(from_preset, model, settings["precision"], settings["calibration"])
    names = [f"{head}_{measure}" for head in pretrainer.heads for measure in ("accuracy", "loss")]
    names.append("masked_lm_perplexity")
    gates.check_names(settings["requirements"], [*names, *(f"{name}_baseline" for name in names)])
    with misuse(OSError):
        return _Measured("BertMaskedLM", Score(evaluate_text(pretrainer, file, **rows)))


def _encoder_files(settings: dict[str, Any]) -> EmbedFiles | None:
    """Takes the settings of sentence encoders out of others; returns None if they name no columns of texts."""
    given = {name: settings.pop(name) for name in _COLUMNS}
    if (given["query_column"] is None) != (given["positive_column"] is None):
        raise Misuse("give both --query-column and --positive-column")
    if given["query_column"] is None:
        if any(given.values()) or settings["corpus"]:
            raise Misuse("sentence encoders need --query-column and --positive-column")
        return None
    if given["score_columns"] and (given["negative_columns"] or settings["corpus"]):
        raise Misuse("--score-column is for pairs, without --negative-column and --corpus")
    with misuse():
        return EmbedFiles(**given, **{name: settings[name] for name in (*options.TABLE_OPTIONS, "skip_bad")})


def _measure_encoder(model: Path, file: str, pairs: EmbedFiles, settings: Mapping[str, Any]) -> _Measured:
    prompts = (pairs.query_prompt, pairs.positive_prompt)
    options.check_prompts(model, *prompts)
    with misuse(OSError):
        examples = pairs.open(file)(pairs)
        texts = read_corpus(settings["corpus"], settings["text_column"]) if settings["corpus"] else []
        corpus = [row.text for row in texts]
    from keras_bert.answers import Score
    from keras_bert.engines.loading import task_of
    from keras_bert.task_table import COMPARED, OF_HEAD
    from keras_bert.tasks.registry import load_as

    arguments = {} if prompts == (None, None) else {"column_prompts": prompts}
    with misuse(OSError):
        task = task_of(model, COMPARED)
    if arguments and task != OF_HEAD[None].model:
        raise Misuse(f"{model} is a {task}, which has its own prompts; leave --query-prompt and --positive-prompt out")
    from_preset = functools.partial(load_as, task, **arguments)
    encoder = options.load_in_precision(from_preset, model, settings["precision"], settings["calibration"])
    x, y = examples.xy
    with misuse(TypeError):
        columns = encoder.columns(x)
        _check_names(settings["requirements"], encoder.kind.check(columns, y))
        score = encoder.kind_with(corpus).score(encoder.answers(x), y)
    # With a corpus, drops measures of the search without it, which is easier.
    measures = {name: value for name, value in score.measures.items() if not corpus or name not in score.details}
    return _Measured(encoder.TASK, Score({**measures, **score.details}), len(examples))


def _measure_search(model: Path, file: str, settings: Mapping[str, Any], given: Mapping[str, str]) -> _Measured:
    """Measures a search in a test collection; `given` are the options on the command line, by parameter."""
    for name, option in given.items():
        if name not in (*_SEARCH, "output", "overwrite", "requirements"):
            raise Misuse(f"{option} is not for BEIR's layout, which {file} has")
    with misuse(OSError):
        collection = read_beir(file, settings["split"])
    from keras_bert.search import evaluation

    gates.check_names(settings["requirements"], evaluation.MEASURES)
    from keras_bert.answers import Score
    from keras_bert.tasks.registry import load_reranker

    with misuse(OSError):
        reranker = load_reranker(settings["rerank"]) if settings["rerank"] else None
        measures = evaluation.evaluate_retrieval(
            collection, model, hybrid=settings["hybrid"], reranker=reranker, directory=settings["index"]
        )
    return _Measured("retrieval", Score(measures), len(collection.queries))


def _check_names(requirements: Sequence[gates.Requirement], right: Score) -> None:
    gates.check_names(requirements, [*right.measures, *right.details])


_WORST_ANSWERS = 100  # the number of worst answers in a report


@click.command(help=__doc__)
@click.argument("model", callback=options.find_model)
@click.argument("file")
@options.column_options
@options.field_options(ClassifyFiles, only=("label_column", "skip_bad"))
@click.option("--errors", metavar="FILE", help=f"Write the wrongly answered examples: {either(streams.ENDS.values())}.")
@click.option(
    "--report", metavar="FILE", help="Write the measures, the confusion matrix and the worst answers to FILE, as HTML."
)
@click.option("--output", metavar="FILE", help="Write the measures to FILE, as JSON, with digests of model and data.")
@gates.require_option
@click.option("--overwrite", is_flag=True, help="Replace FILE of --errors, --report and --output if it exists.")
@_encoder_options
@_search_options
@_text_options
@options.threshold_option
@options.raw_cells_option
@options.precision_options
@click.pass_context
def evaluate(
    ctx: click.Context, model: Path, file: str, output: str | None, requirements: list[gates.Requirement],
    overwrite: bool, **settings: Any,
) -> None:  # fmt: skip
    settings |= {"overwrite": overwrite, "requirements": requirements}
    if output:
        streams.format_of(output, ["json"])
    with contextlib.ExitStack() as stack:
        results = stack.enter_context(streams.open_output(output, overwrite)) if output else None
        measured = _measure(model, file, settings, options.given_options(ctx))
        if results is not None:
            text = gates.document(model, *measured, Path(file), requirements)
            streams.write_lines(results, [text.removesuffix("\n")])
    measures = {**measured.score.measures, **measured.score.details}
    if warning := measured.score.warning:
        echo(f"Warning: {warning}", err=True)
    runs.echo_with_baselines(measures)
    gates.check(requirements, measures)


def _measure(model: Path, file: str, settings: dict[str, Any], given: Mapping[str, str]) -> _Measured:
    """Measures a model in the way of its task; `given` are the options on the command line, by parameter."""
    from keras_bert.tasks.registry import is_measured_on_text

    if is_retrieval_data(file):
        return _measure_search(model, file, settings, given)
    if unused := [given[name] for name in _SEARCH if name in given]:
        raise Misuse(f"{unused[0]} is for a directory in BEIR's layout, with queries.jsonl; {file} is none")
    if (pairs := _encoder_files(settings)) is not None:
        if settings["errors"] or settings["report"]:
            raise Misuse("--errors and --report are for models with labels, not for sentence encoders")
        return _measure_encoder(model, file, pairs, settings)
    with misuse(OSError):
        measures_text = is_measured_on_text(model, file, settings["format"])
    if measures_text:
        return _measure_text(model, file, settings, given)
    if unused := [given[name] for name in _TEXT if name in given]:
        raise Misuse(f"{unused[0]} is for a masked language model, measured on text")
    return _measure_task(model, file, **settings)


def _measure_task(
    model: Path, file: str, errors: str | None, report: str | None, overwrite: bool, precision: str,
    calibration: str | None, requirements: Sequence[gates.Requirement], **settings: Any,
) -> _Measured:  # fmt: skip
    from keras_bert.tasks.registry import examples_for, load_task, open_texts

    errors_format = streams.format_of(errors, [*streams.ENDS])
    if report:
        streams.format_of(report, ["html"])
    threshold = options.threshold_argument(model, settings["no_answer_threshold"])
    choices = options.choice_files(settings)
    with misuse(OSError):
        opened = open_texts(model, file, settings)
    with contextlib.ExitStack() as stack:
        errors_file = stack.enter_context(streams.open_output(errors, overwrite)) if errors else None
        report_file = stack.enter_context(streams.open_output(report, overwrite)) if report else None
        columns = (settings["text_column"], settings["text_pair_column"])
        load = functools.partial(load_task, **threshold)
        task = options.load_in_precision(load, model, precision, calibration, *columns)
        options.check_choices(task, choices)
        with misuse(OSError):
            examples = examples_for(task, file, settings, opened)
        x, labels = examples.xy
        rows, labels = cast("tuple[Rows, Sequence[Any]]", (examples.rows, labels))  # of a file that has labels
        try:
            _check_names(requirements, task.kind.check(task.columns(x), labels))
            other_columns = rows.other_cells() if errors else []
            found = _Answered(task, x if isinstance(x, tuple) else (x,), rows, labels, task.answers(x))
            score = task.kind.score(found.answers, labels)
            _ = score.details  # raises
            if errors_file is not None:
                mistakes = (found.mistakes(i, other_columns[i]) for i in score.mistakes)
                with streams.RowWriter(errors_file, errors_format) as writer:
                    writer.write(itertools.chain.from_iterable(mistakes))
            if report_file is not None:
                title = f"{model.resolve().name}: {counted(examples, 'example')} from {Path(file).name}"
                streams.write_lines(report_file, [_page(title, found, score)])
        except (ImportError, TypeError, ValueError) as error:
            raise Misuse(one_line(error)) from error
    return _Measured(task.TASK, score, len(examples))


class _Answered(NamedTuple):
    """The labelled examples of a file, and a model's answers to them."""

    task: BertTask
    columns: Sequence[Sequence[Any]]  # of texts
    rows: Rows
    labels: Sequence[Any]
    answers: Sequence[Any]

    def texts(self, number: int) -> dict[str, Any]:
        """The texts of an example, by the names of the model's inputs, after what names its row."""
        names = self.task.text_names
        if len(self.columns) > len(names):  # a question and its choices
            names = (names[0], *(f"{names[1]}_{number}" for number in range(1, len(self.columns))))
        texts = {name: column[number] for name, column in zip(names, self.columns, strict=True)}
        return {**self.rows.place(number), **texts}

    def compared(self, number: int) -> list[dict[str, Any]]:
        """Rows that compare the answer with the label; of a sentence, one for each wrong entity, with its line."""
        rows = self.task.kind.compared(self.answers[number], self.labels[number])
        if self.rows.word_lines:
            lines = self.rows.word_lines[number]
            return [{"line": lines[row.pop("word")], **row} for row in rows]
        return rows

    def mistakes(self, number: int, other_columns: Mapping[str, object]) -> list[dict[str, object]]:
        """The rows of --errors for an example: one, or one for each wrong entity."""
        if self.rows.word_lines:
            return self.compared(number)
        row = {**self.texts(number), "label": self.labels[number], **self.task.kind.columns(self.answers[number])}
        return [{**row, **streams.rename_columns(other_columns, row)}]


def _page(title: str, found: _Answered, score: Score) -> str:
    from keras_bert.visualize import evaluation_page

    caption = f"{min(_WORST_ANSWERS, len(score.worst)):,} of {len(score.worst):,}, the worst first."
    worst_answers = []
    for i in score.worst[:_WORST_ANSWERS]:
        texts = {"sentence": found.columns[0][i]} if found.rows.word_lines else found.texts(i)
        worst_answers.append(evaluation_page.ExampleAnswer(texts, found.compared(i)))
    return evaluation_page.page(title, score.measures, score.details, score.confusion, worst_answers, caption)

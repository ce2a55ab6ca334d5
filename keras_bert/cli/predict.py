"""Apply a fine-tuned model to texts.

MODEL is a directory that `finetune` wrote. Texts come from arguments, a file or a pipe. A file has one text per
line, or is a table ({tables}) with the columns of `finetune`: a text, and for pairs a
second one; questions are in `question` and `context`, or beside their choices (--choice-column). The output has a
row for each, in the same order: the columns of the row, and `label` and `probability` (or `labels`, or `values`),
or `entities`, or `answer`, or the `index` of a choice. An input column with such a name is written as `given_label`
and so on. Rows are JSON lines, or by the name of --output {named}, with JSON in the cells of lists such as
`entities`. Pre-trained models of BERT predict, for a pair, the `probability` that the second text follows the first.

\b
Example:
  $ keras-bert predict my-model "A lovely film"
  {"text": "A lovely film", "label": "positive", "probability": 0.9987}
"""

from __future__ import annotations

import functools
import itertools
import re
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import click

from keras_bert.cli import options, streams
from keras_bert.cli.terminal import Misuse, misuse, one_line
from keras_bert.data.examples import check_characters, check_row, parse_json_object
from keras_bert.data.table_formats import TABLES, format_of
from keras_bert.data.tables import check_columns, text_of, text_rows

ReadRows: TypeAlias = "Callable[[], Iterator[tuple[int, dict[str, Any]]]]"  # rows of a table, with their numbers


@click.command(help=str(__doc__).replace("{tables}", TABLES).replace("{named}", streams.NAMED))
@click.argument("model", callback=options.find_model)
@click.argument("text", nargs=-1)
@click.option("--file", metavar="FILE", help="Read texts from FILE; - is standard input.")
@options.column_options
@options.threshold_option
@options.skip_bad_option
@options.output_option()
@options.overwrite_option
@options.raw_cells_option
@options.precision_options
def predict(
    model: Path, text: tuple[str, ...], file: str | None, output: str | None, overwrite: bool, calibration: str | None,
    **settings: Any,
) -> None:  # fmt: skip
    if len(text) == 1 and Path(text[0]).is_file():
        raise Misuse(f"{text[0]} is a file: read it with --file {text[0]}")
    input_format = settings["format"]
    if file and file != "-" and Path(file).is_file():
        with misuse(OSError):
            input_format = format_of(file, input_format)
    output_format = streams.format_of(output, [*streams.ENDS])
    source = file if input_format and file and Path(file).is_file() else streams.open_texts(text, file)
    if not isinstance(source, str) and (settings["skip_bad"] or input_format not in (None, "jsonl")):
        raise Misuse("--skip-bad and tables need --file FILE")
    from keras_bert.formats import Preset
    from keras_bert.tasks.registry import columns_of_texts, is_masked_lm, load_task

    choices = options.choice_files(settings)
    table_options = {name: settings[name] for name in options.TABLE_OPTIONS}
    threshold = options.threshold_argument(model, settings["no_answer_threshold"])
    with misuse(OSError):
        masked = next((each for each in text if re.search(r"\[MASK\]|<mask>", each)), None)
        if masked is not None and is_masked_lm(preset := Preset(model)):
            command = shlex.join(["keras-bert", "fill", preset.handle, masked])
            raise Misuse(
                f"{preset.handle} is not fine-tuned; to predict the mask in {masked!r:.60}, use fill: {command}"
            )
        if isinstance(source, str):
            text_columns = (settings["text_column"], settings["text_pair_column"])
            names = [*choices.texts.values()] if choices else columns_of_texts(model, *text_columns)
            check_columns(source, names, **table_options)
    with streams.open_output(output, overwrite) as results, streams.RowWriter(results, output_format) as writer:
        from keras_bert.progress import progress_bar, step

        chosen = {"text": settings["text_column"], "text_pair": settings["text_pair_column"]}
        load = functools.partial(load_task, **threshold)
        task = options.load_in_precision(load, model, settings["precision"], calibration, *chosen.values())
        options.check_choices(task, choices)
        texts_of_model = choices.texts if choices else {name: chosen.get(name) or name for name in task.text_names}
        columns = [str(column) for column in texts_of_model.values()]  # the file's for each text of the model
        count, shapes = None, []
        if isinstance(source, str):
            read_rows = functools.partial(text_rows, source, columns, skip_bad=settings["skip_bad"], **table_options)
            count, shapes = _check_rows(read_rows, writer)
            chunks = _chunks(read_rows)
        else:
            chunks = source.chunks(lambda line: _parse_line(line, columns, input_format == "jsonl"))
        with progress_bar(count, "texts") as bar:
            for rows in chunks:
                try:
                    texts = ([row[column] for row in rows] for column in columns)
                    with step(bar, len(rows)):
                        found = task.answers((*texts,)) if choices else getattr(task, task.VERB)(*texts)
                    answers = [task.kind.fields(each) for each in found]
                except (TypeError, ValueError) as error:
                    raise Misuse(one_line(error)) from error
                writer.write(map(_row, rows, answers), later=(_row(shape, answers[0]) for shape in shapes))


def _check_rows(read_rows: ReadRows, writer: streams.RowWriter) -> tuple[int, list[dict[str, None]]]:
    """Checks all rows of a table. Returns their number, and each set of columns that a row has."""
    with misuse(OSError):
        count, shapes = 0, {}
        for count, (_, row) in enumerate(read_rows(), start=1):  # noqa: B007
            shapes[tuple(row)] = dict.fromkeys(row)
            writer.check(row)
    return count, list(shapes.values())


def _chunks(read_rows: ReadRows) -> Iterator[list[dict[str, Any]]]:
    with warnings.catch_warnings():  # the first reading has shown them
        warnings.simplefilter("ignore", UserWarning)
        rows = (row for _, row in read_rows())
        while chunk := list(itertools.islice(rows, streams.TEXTS_AT_A_TIME)):
            yield chunk


def _parse_line(line: str, columns: Sequence[str], is_json: bool) -> dict[str, Any]:
    """Parses an input line into a row, by column. Raises ValueError if the model cannot read it."""
    if not is_json:
        if len(columns) > 1:
            raise ValueError(f"this model reads {' and '.join(columns)}: give a table, or JSON lines (--format jsonl)")
        return dict.fromkeys(columns, check_characters(line, "the text"))
    row = parse_json_object(line)
    for column in columns:
        text_of(row, column)
    return check_row(row)


def _row(row: Mapping[str, object], answer: Mapping[str, object]) -> dict[str, object]:
    return {**streams.rename_columns(row, answer), **answer}

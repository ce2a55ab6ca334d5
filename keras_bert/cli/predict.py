"""Apply a fine-tuned model to texts.

MODEL is a directory that `finetune` wrote. Texts come from arguments, a file or a pipe. A file has one text per
line, or is a table ({tables}) with the columns of `finetune`: a text, and for pairs a
second one; questions are in `question` and `context`, or beside their choices (--choice-column). The output has a
row for each, in the same order: the columns of the row, and `label` and `probability` (or `labels`, or `values`),
or `entities`, or `answer`, or the `index` of a choice. An input column with such a name is written as `given_label`
and so on. Rows are JSON lines, or by the name of --output CSV (.csv), TSV (.tsv) or Excel (.xlsx), with JSON in the
cells of lists such as `entities`. Pre-trained models of BERT predict, for a pair, the `probability` that the second
text follows the first.

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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from keras_bert.cli import streams
from keras_bert.cli.options import (
    TABLE_OPTIONS,
    check_choices,
    choice_options,
    find_model,
    import_engine,
    load_in_precision,
    output_option,
    overwrite_option,
    precision_options,
    raw_cells_option,
    skip_bad_option,
    text_options,
    threshold_argument,
    threshold_option,
)
from keras_bert.cli.terminal import Misuse, misuse, one_line
from keras_bert.data.examples import check_characters, check_row, parse_json_object
from keras_bert.data.table_formats import TABLES, format_of
from keras_bert.data.tables import check_columns, text_of, text_rows


@click.command(help=str(__doc__).replace("{tables}", TABLES))
@click.argument("model", callback=find_model)
@click.argument("text", nargs=-1)
@click.option("--file", metavar="FILE", help="Read texts from FILE; - is standard input.")
@text_options
@choice_options
@threshold_option
@skip_bad_option
@output_option()
@overwrite_option
@raw_cells_option
@precision_options
def predict(
    model: Path, text: tuple[str, ...], file: str | None, output: str | None, overwrite: bool, calibration: str | None,
    **options: Any,
) -> None:  # fmt: skip
    if len(text) == 1 and Path(text[0]).is_file():
        raise Misuse(f"{text[0]} is a file: read it with --file {text[0]}")
    input_format = options["format"]
    if file and file != "-" and Path(file).is_file():
        with misuse(OSError):
            input_format = format_of(file, input_format)
    output_format = streams.format_of(output, (*streams.ROWS, *streams.WORKBOOKS))
    source = file if input_format and file and Path(file).is_file() else streams.open_texts(text, file)
    if not isinstance(source, str) and (options["skip_bad"] or input_format not in (None, "jsonl")):
        raise Misuse("--skip-bad and tables need --file FILE")
    from keras_bert.formats import Preset
    from keras_bert.tasks.registry import columns_of_texts, is_masked_lm, load_task

    of_choices = [options["question_column"], *options["choice_columns"]] if options["choice_columns"] else None
    threshold = threshold_argument(model, options["no_answer_threshold"])
    with misuse(OSError):
        masked = next((each for each in text if re.search(r"\[MASK\]|<mask>", each)), None)
        if masked is not None and is_masked_lm(preset := Preset(model)):
            command = shlex.join(["keras-bert", "fill", preset.handle, masked])
            raise Misuse(
                f"{preset.handle} is not fine-tuned; to predict the mask in {masked!r:.60}, use fill: {command}"
            )
        if isinstance(source, str):
            names = of_choices or columns_of_texts(model, options["text_column"], options["text_pair_column"])
            check_columns(source, names, **_table_options(options))
    with streams.open_output(output, overwrite) as results, streams.RowWriter(results, output_format) as writer:
        import_engine(model)
        from keras_bert.progress import progress_bar, step

        columns = (options["text_column"], options["text_pair_column"])
        load = functools.partial(load_task, **threshold)
        task = load_in_precision(load, model, options["precision"], calibration, *columns)
        check_choices(task, options["choice_columns"])
        names = task.text_names
        columns = {**dict.fromkeys(names), "text": options["text_column"], "text_pair": options["text_pair_column"]}
        columns = {name: columns[name] or name for name in names}  # the file's column for each text of the model
        columns = columns if of_choices is None else {name: name for name in of_choices}
        count, shapes = None, []
        if isinstance(source, str):
            count, shapes, chunks = _read_table(source, columns, writer, options)
        else:
            chunks = source.chunks(lambda line: _parse_line(line, columns, input_format == "jsonl"))
        with progress_bar(count, "texts") as bar:
            for rows in chunks:
                try:
                    texts = ([row[column] for row in rows] for column in columns.values())
                    with step(bar, len(rows)):
                        found = task.answers((*texts,)) if of_choices else getattr(task, task.VERB)(*texts)
                    answers = [task.kind.fields(each) for each in found]
                except (TypeError, ValueError) as error:
                    raise Misuse(one_line(error)) from error
                writer.write(map(_row, rows, answers), later=(_row(shape, answers[0]) for shape in shapes))


def _read_table(
    file: str, columns: dict[str, str], writer: streams.RowWriter, options: dict[str, Any]
) -> tuple[int, list[dict[str, None]], Iterator[list[dict[str, Any]]]]:
    """Checks all rows of a table. Returns their number; each set of columns that a row has; and chunks of rows."""
    read_rows = functools.partial(
        text_rows, file, list(columns.values()), skip_bad=options["skip_bad"], **_table_options(options)
    )
    with misuse(OSError):
        count, shapes = 0, {}
        for count, (_, row) in enumerate(read_rows(), start=1):  # noqa: B007
            shapes[tuple(row)] = dict.fromkeys(row)
            writer.check(row)

    def chunks() -> Iterator[list[dict[str, Any]]]:
        with warnings.catch_warnings():  # the first reading has shown them
            warnings.simplefilter("ignore", UserWarning)
            rows = (row for _, row in read_rows())
            while chunk := list(itertools.islice(rows, streams.TEXTS_AT_A_TIME)):
                yield chunk

    return count, list(shapes.values()), chunks()


def _table_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Translates the command's options into arguments of the functions that read tables."""
    return {name: options[name] for name in TABLE_OPTIONS}


def _parse_line(line: str, columns: dict[str, str], is_json: bool) -> dict[str, Any]:
    """Parses an input line into a row, by column. Raises ValueError if the model cannot read it."""
    if not is_json:
        if len(columns) > 1:
            raise ValueError(f"this model reads {' and '.join(columns)}: give a table, or JSON lines (--format jsonl)")
        return dict.fromkeys(columns.values(), check_characters(line, "the text"))
    row = parse_json_object(line)
    for column in columns.values():
        text_of(row, column)
    return check_row(row)


def _row(row: Mapping[str, object], answer: Mapping[str, object]) -> dict[str, object]:
    return {**streams.rename_columns(row, answer), **answer}

"""keras-bert predict: texts -> the answers of a fine-tuned model, as JSON lines, CSV or TSV."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from keras_bert.cli import streams
from keras_bert.cli.options import (
    find_preset,
    load_in_precision,
    output_option,
    overwrite_option,
    precision_options,
    read_rows,
    text_options,
)
from keras_bert.cli.terminal import Misuse, one_line, quiet_imports
from keras_bert.data.problems import characters, json_object, one_text, whole_row
from keras_bert.data.tables import FORMATS


@click.command()
@click.argument("model", callback=find_preset)
@click.argument("text", nargs=-1)
@click.option("--file", metavar="FILE", help="Read texts from FILE; - is standard input.")
@text_options
@output_option()
@overwrite_option
@precision_options
def predict(
    model: Path, text: tuple[str, ...], file: str | None, output: str | None, overwrite: bool, calibration: str | None,
    **options: Any,
) -> None:  # fmt: skip
    """Apply a fine-tuned model to texts.

    MODEL is a directory that `finetune` wrote. Texts come from arguments, a file or a pipe. A file has one text per
    line, or is a table (CSV, TSV, JSON lines or Parquet) with the columns of `finetune`: a text, and for pairs a second
    one; questions are in `question` and `context`. The output has a row for each, in the same order: the columns of the
    row, and `label` and `probability` (or `labels`, or `values`), or `entities`, or `answer`. An input column with such
    a name is written as `given_label` and so on. Rows are JSON lines, or by the name of --output CSV (.csv) or TSV
    (.tsv), with JSON in the cells of lists such as `entities`. Pre-trained models of BERT predict, for a pair, the
    `probability` that the second text follows the first.

    \b
    Example:
      $ keras-bert predict my-model "A lovely film"
      {"text": "A lovely film", "label": "positive", "probability": 0.9987}
    """
    if len(text) == 1 and Path(text[0]).is_file():
        raise Misuse(f"{text[0]} is a file: read it with --file {text[0]}")
    form = options["format"] or FORMATS.get(Path(file or "").suffix.lower())
    output_format = streams.format_of(output, streams.ROWS)
    lines = None if form in ("csv", "tsv", "parquet") else streams.open_texts(text, file)
    with streams.open_output(output, overwrite) as results:
        with quiet_imports():
            from tqdm import tqdm

            from keras_bert.tasks.table import load_task
        task = load_in_precision(load_task, model, options["precision"], calibration)
        names = task.text_names
        columns = {**dict.fromkeys(names), "text": options["text_column"], "text_pair": options["text_pair_column"]}
        columns = {name: columns[name] or name for name in names}  # of the model's texts
        if lines is None:
            chunks = _of_table(file, form, not options["no_header"], columns)
        else:
            chunks = lines.chunks(lambda line: _of_line(line, columns, form == "jsonl"))
        writer = streams.RowWriter(results, output_format)
        with tqdm(unit=" texts", delay=1, disable=None) as bar:
            for rows in chunks:
                try:
                    answers = task.answer_fields(*([row[column] for row in rows] for column in columns.values()))
                except (TypeError, ValueError) as error:
                    raise Misuse(one_line(error)) from error
                writer.write(map(_row, rows, answers))
                bar.update(len(rows))


def _of_table(file: str, form: str, header: bool, columns: dict[str, str]) -> Iterator[list[dict[str, str]]]:
    """The rows of a table in chunks, by column."""
    names, rows = read_rows(file, form, header)
    if missing := [column for column in columns.values() if column not in names]:
        raise Misuse(f"{file} has no column {missing[0]!r}; its columns are {', '.join(map(repr, names))}")
    found = []
    for line, cells in rows:
        try:
            if isinstance(cells, str):
                raise ValueError(cells)
            row = cells if isinstance(cells, dict) else dict(zip(names, cells, strict=True))
            _check(row, columns)
        except ValueError as error:
            numbered = "row" if form == "parquet" else "line"
            raise Misuse(f"{file}, {numbered} {line}: {error}") from error
        found.append(row)
    for first in range(0, len(found), streams.TEXTS_AT_A_TIME):
        yield found[first : first + streams.TEXTS_AT_A_TIME]


def _of_line(line: str, columns: dict[str, str], is_json: bool) -> dict[str, Any]:
    """An input line, by column. Raises ValueError if the model cannot read it."""
    if not is_json:
        if len(columns) > 1:
            raise ValueError(f"this model reads {' and '.join(columns)}: give a table, or JSON lines (--format jsonl)")
        return dict.fromkeys(columns.values(), line)
    row = json_object(line)
    _check(row, columns)
    return row


def _check(row: dict[str, Any], columns: dict[str, str]) -> None:
    """Raises ValueError if a text is missing or cannot be read. A text may be empty, a question may not."""
    checked = one_text if "question" in columns else characters
    for column in columns.values():
        if not isinstance(row.get(column), str):
            raise ValueError(f"it has no string {column!r}")
        checked(row[column], column)
    whole_row(row)


def _row(row: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    return {f"given_{name}" if name in answer else name: value for name, value in row.items()} | answer

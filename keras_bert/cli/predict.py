"""keras-bert predict: texts -> the predictions of a fine-tuned model, as JSON lines."""

from __future__ import annotations

from pathlib import Path

import click

from keras_bert.cli import quiet, streams
from keras_bert.data.decoding import characters, json_object, one_text
from keras_bert.data.rows import FORMATS


@click.command()
@click.argument("model", callback=streams.find_preset)
@click.argument("file", required=False)
@click.option("--output", metavar="FILE", help="Write to FILE, all of it or nothing.")
@click.option("--overwrite", is_flag=True, help="Replace FILE of --output if it exists.")
@click.option(
    "--jsonl", is_flag=True, help="Input lines are JSON objects, though FILE does not end in .jsonl or .ndjson."
)
def predict(model: Path, file: str | None, output: str | None, overwrite: bool, jsonl: bool) -> None:
    """Apply MODEL, a directory written by `finetune`, to each text in FILE or from a pipe.

    Input is one text per line, or JSON lines: {"text": ...}, for pairs {"text": ..., "text_pair": ...}, for questions
    {"question": ..., "context": ...}; other fields are ignored. Output is a JSON line for each, in the same order: the
    text, and `label` and `probability` (or `labels`, or `values`), or `entities`, or `answer`.

    \b
    Example:
      $ echo "A lovely film" | keras-bert predict my-model
      {"text": "A lovely film", "label": "positive", "probability": 0.9987}
    """
    by_name = FORMATS.get(Path(file or "").suffix.lower())
    if by_name in ("csv", "tsv"):  # else its header would be read as a text
        raise streams.Misuse(
            f"{file} is a table: predict reads a text a line, or JSON lines, as pandas makes them of a table: "
            'read_csv(...).to_json("texts.jsonl", orient="records", lines=True)'
        )
    lines = streams.open_texts((), file)
    is_json = jsonl or by_name == "jsonl"
    with streams.open_output(output, overwrite) as results:
        with quiet.imports():
            from tqdm import tqdm

            from keras_bert.tasks.table import load_task
        task = streams.load(load_task, model)
        names = task.text_names
        with tqdm(unit=" texts", delay=1, disable=None) as bar:
            for rows in lines.chunks(lambda line: _fields(line, names, is_json)):
                try:
                    answers = task.answer_fields(*([row[name] for row in rows] for name in names))
                except (TypeError, ValueError) as error:
                    raise streams.Misuse(streams.one_line(error)) from error
                written = (
                    streams.json_line(**{name: row[name] for name in names}, **answer)
                    for row, answer in zip(rows, answers, strict=True)
                )
                streams.write_lines(results, written)
                bar.update(len(rows))


def _fields(line: str, names: tuple[str, ...], is_json: bool) -> dict[str, str]:
    """The fields of an input line. Raises ValueError if the model cannot read it."""
    if not is_json:
        if len(names) > 1:
            raise ValueError(f"this model reads {' and '.join(names)}: give JSON lines, with --jsonl or a .jsonl file")
        return {names[0]: line}
    values = json_object(line)
    checked = one_text if "question" in names else characters  # a text may be empty, a question may not
    for name in names:
        if not isinstance(values.get(name), str):
            raise ValueError(f"there is no string {name!r} in it")
        checked(values[name], name)
    return values

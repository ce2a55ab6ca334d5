"""Predict the masked tokens of texts.

A mask is [MASK], in RoBERTa's family <mask>. MODEL is a directory, such as one that `pretrain` wrote, or
hf://org/name, with a masked language modeling head. Writes a line for each text: the text with the most probable
tokens, and after tabs, for each mask, the candidates and their probabilities; or JSON lines {"text", "filled",
"masks": [[{"token", "probability"}, ...], ...]}; or CSV or TSV, with JSON in the cell of `masks`.

\b
Example:
  $ keras-bert fill bert-books --top-k 2 "She opened the [MASK] and went in."
  She opened the door and went in.        door 0.404 floor 0.029
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from keras_bert.cli import streams
from keras_bert.cli.options import find_model, texts_to
from keras_bert.cli.terminal import Misuse, misuse

if TYPE_CHECKING:
    from keras_bert.answers.tokens import FilledText


@click.command(help=__doc__)
@click.argument("model", callback=find_model)
@click.option("--top-k", type=click.IntRange(1), default=5, help="The number of candidates for each mask.")
@texts_to("text", *streams.ROWS, preset=None)
def fill(model: Path, lines: streams.Lines, results: BinaryIO, output_format: str, top_k: int) -> None:
    from keras_bert.tasks.registry import load_as

    with misuse(OSError):
        task = load_as("BertMaskedLM", model)
    if task.preprocessor is None:
        raise Misuse(f"{model} has no supported tokenizer, so it cannot read texts")
    mask = task.preprocessor.tokenizer.special_tokens["mask_token"]

    def with_mask(line: str) -> str:
        if mask not in line:
            raise ValueError(f"it has no {mask}")
        return line

    def row(result: tuple[str, FilledText]) -> dict[str, object]:
        text, answer = result
        return {"text": text, **task.kind.fields(answer)}

    writer = streams.RowWriter(results, output_format)
    for texts, answers in lines.answered(lambda texts: task.fill(texts, top_k), with_mask):
        writer.write_each(zip(texts, answers, strict=True), _line, row)


def _line(result: tuple[str, FilledText]) -> str:
    _, answer = result
    masks = [[f"{_format_token(each['token'])} {each['probability']:.3f}" for each in mask] for mask in answer["masks"]]
    return "\t".join([" ".join(answer["text"].split()), *map(" ".join, masks)])


def _format_token(token: str) -> str:
    """Removes the spaces around a token; quotes a token of white space."""
    return " ".join(token.split()) or json.dumps(token)

"""keras-bert tokenize: a text -> the tokens of the model's vocabulary."""

from pathlib import Path
from typing import BinaryIO

import click

from keras_bert.cli import explanations, models, quiet, streams
from keras_bert.cli.errors import Misuse
from keras_bert.cli.options import texts_to


@click.command()
@texts_to("text", "ids", "jsonl")
@click.option("--explain", is_flag=True, help="Write a table of the tokens of each text, with their characters.")
def tokenize(lines: streams.Lines, results: BinaryIO, preset: Path, output_format: str, explain: bool) -> None:
    """Split each text into tokens of the model's vocabulary.

    [CLS] and [SEP] are not added. Writes text, the tokens separated by spaces; ids; or JSON lines {"text", "tokens",
    "ids", "starts", "ends"}, with the start and end of each token in bytes of UTF-8.

    The table of --explain includes [CLS] and [SEP]. It has each token's position and type id in the model's input, its
    byte and character ranges in the text, these characters, and the changes made to them.

    \b
    Examples:
      $ keras-bert tokenize "Unaffable naïveté!"
      una ##ffa ##ble naive ##te !
      $ keras-bert tokenize --format ids "I love pizza" "Italy"
      1045 2293 10733
      3304
      $ keras-bert tokenize --format jsonl "I love pizza" | keras-bert detokenize
      i love pizza
      $ keras-bert tokenize --explain "Cafés?"
      Cafés?
      position  type  id     token  bytes  characters  text   changed
      0         0     101    [CLS]
      1         0     23812  cafes  0-6    0-5         Cafés  C -> c, é -> e
      2         0     1029   ?      6-7    5-6         ?
      3         0     102    [SEP]
    """
    if explain and output_format != "text":
        raise Misuse(f"--explain writes a table, not {output_format}")
    with quiet.imports():
        from keras_bert.text.loading import load_tokenizer
    tokenizer = models.load(load_tokenizer, preset)
    if explain:
        explanations.write(results, tokenizer, lines.chunks())
        return
    for texts in lines.chunks():
        rows = zip(texts, *(ragged.to_list() for ragged in tokenizer.tokenize_with_offsets(texts)), strict=True)
        streams.write_lines(results, (_line(output_format, tokenizer.vocabulary, *row) for row in rows))


def _line(output_format: str, vocabulary: list[str], text: str, ids: list[int], starts: list, ends: list) -> str:
    if output_format == "ids":
        return " ".join(map(str, ids))
    tokens = [vocabulary[i] for i in ids]
    if output_format == "text":
        return " ".join(tokens)
    return streams.json_line(text=text, tokens=tokens, ids=ids, starts=starts, ends=ends)

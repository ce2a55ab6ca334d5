"""keras-bert tokenize: a text -> the pieces that the model sees."""

from pathlib import Path

import click

from keras_bert.cli import quiet, streams


@click.command()
@click.argument("text", nargs=-1)
@streams.shared_options("text", "ids", "jsonl")
def tokenize(
    text: tuple[str, ...], file: str | None, preset: Path, output_format: str, output: str | None, overwrite: bool
) -> None:
    """Cut each TEXT into the pieces of the model's vocabulary, without [CLS] and [SEP].

    Writes text, the pieces separated by spaces; ids, their numbers in the vocabulary; or JSON lines
    {"text", "pieces", "ids", "starts", "ends"}, where a piece stands for the bytes [start, end) of the text in UTF-8.

    \b
    Examples:
      $ keras-bert tokenize "Unaffable naïveté!"
      una ##ffa ##ble naive ##te !
      $ keras-bert tokenize --format ids "I love pizza" "Italy"
      1045 2293 10733
      3304
      $ keras-bert tokenize --format jsonl "I love pizza" | keras-bert detokenize
      i love pizza
    """
    lines = streams.open_texts(text, file)
    with streams.open_output(output, overwrite) as results:
        with quiet.imports():
            from keras_bert.text.loading import load_tokenizer
        tokenizer = streams.load(load_tokenizer, preset)
        for texts in streams.chunks(lines.parsed()):
            rows = zip(texts, *(ragged.to_list() for ragged in tokenizer.tokenize_with_offsets(texts)), strict=True)
            streams.write_lines(results, (_line(output_format, tokenizer.vocabulary, *row) for row in rows))


def _line(output_format: str, vocabulary: list[str], text: str, ids: list[int], starts: list, ends: list) -> str:
    if output_format == "ids":
        return " ".join(map(str, ids))
    pieces = [vocabulary[i] for i in ids]
    if output_format == "text":
        return " ".join(pieces)
    return streams.json_line(text=text, pieces=pieces, ids=ids, starts=starts, ends=ends)

"""Learn a vocabulary from text.

Each FILE is text in UTF-8, or a directory of .txt files. Writes a file for WordPieceTokenizer("vocab.txt"), or a
directory for a tokenizer's from_preset and for transformers. The same text always gives the same vocabulary.

\b
Example:
  $ keras-bert vocab reviews.txt --size 55 --output vocab.txt
  vocab.txt: 55 tokens from 85 bytes
  3.28 tokens a word, 1.36 bytes a token, 0.00% unknown
"""

from __future__ import annotations

from pathlib import Path

import click

from keras_bert import files
from keras_bert.choices import VOCABULARIES
from keras_bert.cli.terminal import Misuse, echo, misuse
from keras_bert.data.table_formats import text_files


@click.command(help=__doc__)
@click.argument("corpus", metavar="FILE...", nargs=-1, required=True)
@click.option("--size", type=click.IntRange(1), required=True, help="The number of tokens, special tokens included.")
@click.option(
    "--output", required=True, metavar="PATH", help="Write a vocab.txt of WordPiece, NAME.txt; or a new directory."
)
@click.option(
    "--kind",
    type=click.Choice(VOCABULARIES),
    default="wordpiece",
    help="The kind of tokenizer: BERT's, RoBERTa's or ALBERT's.",
)
@click.option("--cased", is_flag=True, help="Keep capitals and accents; byte pairs always do.")
@click.option(
    "--character-coverage",
    type=click.FloatRange(0.98, 1),
    default=1.0,
    help="The share of the characters of the text that tokens cover; the rarest become unknown.",
)
def vocab(corpus: tuple[str, ...], size: int, output: str, kind: str, cased: bool, character_coverage: float) -> None:
    path = Path(output).absolute()
    one_file = path.suffix == ".txt"
    if one_file and kind != "wordpiece":
        raise Misuse(f"{kind} has several files; --output must be a directory, not {output}")
    if not path.parent.is_dir():
        raise Misuse(f"cannot write {output}: there is no directory {path.parent}")
    _refuse_to_replace(path, output)
    with misuse(OSError):
        paths = [each for source in corpus for each in text_files(Path(source))]
    from keras_bert.text import learn_vocabulary
    from keras_bert.text.learning import fertility

    settings = {"lowercase": False if cased else None, "character_coverage": character_coverage}
    with misuse():
        tokenizer = learn_vocabulary(paths, size, kind, **settings)
        measures = fertility(tokenizer, paths)
        _refuse_to_replace(path, output)  # another process may have written it
        if one_file:
            files.write_texts(path.parent, {path.name: "".join(f"{token}\n" for token in tokenizer.vocabulary)})
        else:
            with files.directory_written_whole(path, "", overwrite=False) as unfinished:
                tokenizer.save_preset(unfinished)
    size_in_bytes = sum(each.stat().st_size for each in paths)
    echo(f"{output}: {tokenizer.vocabulary_size:,} tokens from {size_in_bytes:,} bytes")
    echo(
        f"{measures.tokens_per_word:.3g} tokens a word, {measures.bytes_per_token:.3g} bytes a token, "
        f"{measures.unknown:.2%} unknown"
    )


def _refuse_to_replace(path: Path, output: str) -> None:
    if path.exists() and not (path.is_dir() and not any(path.iterdir()) and path.suffix != ".txt"):
        raise Misuse(f"{output} exists; choose another name")

"""Find hard negatives for pairs of texts.

These are texts close to a query that are not its positives. PAIRS has a query and a positive in each row:
{tables}. A text that scores almost as high as the positive may be an unmarked answer:
--relative-margin 0.05 leaves it out. Writes rows of "query", "positive", "negative", "positive_score" and
"negative_score", which `finetune embed --negative-column negative` reads: JSON lines, or by the name of --output
CSV (.csv) or TSV (.tsv). Scores are similarities, or with --rerank those of a cross-encoder, for `finetune embed
--score-column`. After an interruption, the same command does not encode texts again.

\b
Example:
  $ keras-bert mine qa.csv --corpus articles.csv --relative-margin 0.05 --output triplets.jsonl
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click

from keras_bert import files
from keras_bert.cli import options, streams
from keras_bert.cli.terminal import echo, end_the_command, misuse, resumable
from keras_bert.counted import counted
from keras_bert.data import read_columns
from keras_bert.data.table_formats import TABLES
from keras_bert.data.tables import read_corpus


@click.command(help=str(__doc__).replace("{tables}", TABLES))
@click.argument("pairs")
@click.option("--query-column", default="query", metavar="C", help="The column of the queries.")
@click.option("--positive-column", default="positive", metavar="C", help="The column of the positives.")
@click.option("--corpus", metavar="FILE", help="Texts to choose from, besides all positives.")
@click.option("--text-column", default="text", metavar="C", help="The column of the texts in --corpus.")
@options.handle_option
@click.option("--negatives", type=int, default=3, metavar="N", help="Take N negatives per query.")
@click.option("--range-min", type=int, default=0, metavar="N", help="Skip the N closest texts.")
@click.option("--range-max", type=int, metavar="N", help="Consider the N closest texts; by default, as many as needed.")
@click.option(
    "--absolute-margin", type=float, metavar="X", help="Take no text that scores above the positive's score - X."
)
@click.option(
    "--relative-margin", type=float, metavar="X", help="Take no text that scores above (1 - X) of the positive's score."
)
@click.option("--min-score", type=float, metavar="X", help="Take no text that scores below X.")
@click.option("--max-score", type=float, metavar="X", help="Take no text that scores above X.")
@click.option("--sample", is_flag=True, help="Draw the negatives at random from the range.")
@click.option("--seed", type=int, default=0, metavar="N", help="The seed of --sample.")
@click.option(
    "--rerank",
    metavar="MODEL",
    callback=options.find_preset,
    help="Score positives and candidates with a cross-encoder: a directory, or hf://org/name.",
)
@options.output_option(required=True)
@options.overwrite_option
@options.batch_tokens_option
@options.format_options
def mine(
    pairs: str,
    query_column: str,
    positive_column: str,
    corpus: str | None,
    text_column: str,
    preset: str,
    rerank: Path | None,
    output: str,
    overwrite: bool,
    batch_tokens: int,
    **rules: Any,
) -> None:
    output_format = streams.format_of(output, streams.ROWS)
    table = {name: rules.pop(name) for name in options.TABLE_OPTIONS}
    with misuse(OSError):
        examples = read_columns(pairs, text_columns=[query_column, positive_column], **table)
    from keras_bert.search import NegativeRules, mine_negatives

    with misuse(OSError):
        negative_rules = NegativeRules(**rules)
        texts = [row.text for row in read_corpus(corpus, text_column)] if corpus else []
    unfinished = Path(f"{output}.unfinished")
    with (
        misuse(FileNotFoundError),
        end_the_command(message=resumable(output, f"remove {unfinished}")),
        streams.open_output(output, overwrite) as results,
    ):
        from keras_bert.tasks.registry import load_reranker

        reranker = None if rerank is None else load_reranker(rerank)
        with files.only_writer(unfinished):
            queries, positives = examples.x
            arguments = (queries, positives, texts, preset, negative_rules, reranker, batch_tokens)
            triplets = mine_negatives(*arguments, encoded=unfinished / "vectors.db")
            count, writer = 0, streams.RowWriter(results, output_format, raw_cells=True)  # to train on
            for triplet in triplets:
                writer.write([streams.rounded(triplet._asdict())])
                count += 1
    shutil.rmtree(unfinished)
    echo(f"{output}: {counted(count, 'triplet')} of {counted(examples, 'pair')}", err=True)

"""A corpus -> files of records, one for each part of the corpus."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from keras_bert.parts import Parts, check_processes
from keras_bert.pretraining.corpus import CorpusPart, check_documents, parts_of
from keras_bert.pretraining.records import SETTINGS
from keras_bert.pretraining.shards import COUNTS, ShardWriter
from keras_bert.text import BertPreprocessor

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


def write_records(
    corpus: Sequence[str | Path],
    directory: str | Path,
    preprocessor: BertPreprocessor,
    objective: str = "next_sentence",
    layout: str = "prose",
    copies: int = 1,
    predictions: int | None = None,
    masked_unit: str = "token",
    pack: bool = False,
    seed: int = 0,
    part_bytes: int = 2**24,
    processes: int = 1,
    pipeline_options: PipelineOptions | None = None,
    progress: bool | None = None,
) -> dict[str, int]:
    """Writes the training examples of a corpus. Each process holds one part of the corpus in memory.

    After an interruption, the same call writes the missing parts.

    Args:
        corpus: text files in UTF-8.
        directory: the directory of the records; created if missing.
        preprocessor: gives the tokenizer and the `sequence_length` of the records.
        objective: "next_sentence", "sentence_order" or "sentences": see `make_examples`.
        layout: "prose" or "sentences": see `documents`.
        copies: the number of times each document is used, each time with other pairs and masks.
        predictions: the largest number of masked tokens in a sequence; by default 15% of its length.
        masked_unit: "token", "word" or "span": see `MaskedLMMasking`.
        pack: whether short documents share a sequence; only with "sentences". Our encoder separates them by
            `input_document_ids`; Google's does not.
        seed: the same corpus and the same seed give the same records.
        part_bytes: the approximate size of a part, in bytes.
        processes: the number of processes. The records do not depend on it. A script that uses several needs
            `if __name__ == "__main__":` around its code, as Python starts processes.
        pipeline_options: if given, an Apache Beam pipeline with these options writes the same files
            (`pip install 'keras-bert-models[beam]'`). Its workers need this package, and must see corpus and directory
            under the same paths.
        progress: whether to show a progress bar; by default on a terminal. A pipeline has none.

    Returns:
        Counts: `documents`, `sentences`, `tokens`, `examples`, and `cut`, the number of tokens in no example; with
        "next_sentence" these include documents that are alone in their part.

    Raises:
        FileNotFoundError, ValueError: the corpus cannot be used, an argument is bad, or the directory holds other
            records.
        BlockingIOError: another process is writing into the directory.
        OSError: a file cannot be written; incomplete files are removed.
        RuntimeError: one of several processes was killed.
        Exception: any error of a pipeline's workers.

    Example:
        >>> import tempfile
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=32)
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "text.txt").write_text("One came. Two went.\\n\\nThree slept. Four ate.")
        >>> counts = write_records([folder / "text.txt"], folder / "records", preprocessor, layout="sentences")
        >>> counts["documents"], counts["examples"]
        (2, 2)
    """
    check_processes(processes, pipeline_options)
    if preprocessor.sequence_length is None:
        raise ValueError("the preprocessor's sequence_length is None; set it, as all records have the same length")
    if copies < 1:
        raise ValueError(f"copies is {copies}; expected at least 1")
    if pack and objective != "sentences":
        raise ValueError(f"pack is only for the objective 'sentences'; with {objective!r}, a sequence is a pair")
    if predictions is None:
        predictions = max(1, round(0.15 * preprocessor.sequence_length))
    texts, directory = [Path(path) for path in corpus], Path(directory)
    if pipeline_options is not None:  # workers may have another working directory
        texts, directory = [path.absolute() for path in texts], directory.absolute()
    writer = ShardWriter(preprocessor, objective, layout, predictions, masked_unit, pack)
    corpus_parts = parts_of(texts, part_bytes)
    settings = {
        "files": [[path.name, path.stat().st_size] for path in texts], "vocabulary": _digest(preprocessor),
        "sequence_length": preprocessor.sequence_length, "objective": objective, "layout": layout, "copies": copies,
        "predictions": predictions, "masked_unit": masked_unit, "pack": pack, "seed": seed, "part_bytes": part_bytes,
    }  # fmt: skip
    count = copies * len(corpus_parts)
    names = [f"examples-{number:05}-of-{count:05}.tfrecord" for number in range(count)]
    if not (directory / SETTINGS).exists() and any(directory.glob("*.tfrecord")):
        raise ValueError(f"{directory} holds other records: it has no {SETTINGS}; choose another directory")
    write = functools.partial(_write_shard, writer, corpus_parts, seed)
    parts = Parts(directory, SETTINGS, "records", settings, names, write)
    check_documents(texts, layout, objective)
    with parts.alone() as left:
        if pipeline_options is not None:
            parts.write_with_beam(left, pipeline_options)
        else:
            disable = None if progress is None else not progress
            with tqdm(total=count, initial=count - len(left), unit=" parts", disable=disable) as bar:
                parts.write(left, processes, lambda counts: bar.update())
    counts = parts.totals(*COUNTS)
    if not counts["examples"]:
        alone = "; each document is alone in its part of the corpus; use a larger part_bytes, or 'sentence_order'"
        reason = alone if objective == "next_sentence" and counts["tokens"] else ""
        found = f"{counts['documents']:,} documents, {counts['tokens']:,} tokens"
        raise ValueError(f"the corpus gives no examples: {found}{reason}")
    return counts


def _write_shard(
    writer: ShardWriter, parts: Sequence[CorpusPart], seed: int, number: int, path: Path
) -> Iterator[dict[str, int]]:
    copy, part = divmod(number, len(parts))
    yield writer(parts[part], [seed, copy, part], path)


def _digest(preprocessor: BertPreprocessor) -> str:
    config = preprocessor.tokenizer.get_config()
    return hashlib.sha256(json.dumps(config, sort_keys=True, default=repr).encode()).hexdigest()

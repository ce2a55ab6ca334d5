"""Writes a corpus as files of records, one for each part of the corpus."""

from __future__ import annotations

import errno
import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
from tqdm import tqdm

from keras_bert.parts import Parts, check_processes
from keras_bert.pretraining.corpus import CorpusPart, check_documents, documents, parts_of
from keras_bert.pretraining.masked_examples import MaskedExamples, joined, make_examples, sequences_of
from keras_bert.pretraining.masking import MaskedLMMasking
from keras_bert.pretraining.records import GOOGLE, LABELS, SETTINGS
from keras_bert.text import BertPreprocessor

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


COUNTS = ("documents", "sentences", "tokens", "examples", "cut")
_ROWS_AT_A_TIME = 4096


@dataclass(eq=False)
class ShardWriter:
    """Writes the examples of a part of a corpus, with the arguments of `write_records`. It can be pickled.

    A call writes a part into the file `path`, and returns the counts of `write_records`. The same part and the same
    seed give the same bytes. Raises ValueError if the text is not UTF-8, and OSError if the file cannot be written.
    """

    preprocessor: BertPreprocessor
    objective: str
    layout: str
    predictions: int
    masked_unit: str
    pack: bool

    def __post_init__(self) -> None:
        preprocessor, tokenizer, pack = self.preprocessor, self.preprocessor.tokenizer, self.pack
        masking = MaskedLMMasking(tokenizer, self.predictions, masked_unit=self.masked_unit)
        segments = 1 if self.objective == "sentences" else 2
        self._room = preprocessor.sequence_length - tokenizer.pair_format.special_tokens(segments)
        segment = tf.RaggedTensorSpec([None, None], tf.int32, row_splits_dtype=tf.int64)

        def masked(segments: tuple[tf.RaggedTensor, ...], counts: tf.Tensor, seed: tf.Tensor) -> dict[str, tf.Tensor]:
            packed = preprocessor.pack(segments)
            if pack:
                packed = joined(packed, counts, tokenizer.pad_token_id)
            return masking(packed, seed)

        signature = [(segment,) * segments, tf.TensorSpec([None], tf.int64), tf.TensorSpec([2], tf.int32)]
        self._masked = tf.function(masked, input_signature=signature, autograph=False)

    def __reduce__(self) -> tuple[Callable, tuple]:
        settings = (self.objective, self.layout, self.predictions, self.masked_unit, self.pack)
        return _restored, (keras.saving.serialize_keras_object(self.preprocessor), *settings)

    def __call__(self, part: CorpusPart, seed: list[int], path: Path) -> dict[str, int]:
        found = list(documents(part, self.layout))
        lengths = np.array([len(document) for document in found], np.int64)
        with tf.device("CPU"):  # the same random numbers on every machine
            tokens = self.preprocessor.tokenizer.tokenize([sentence for document in found for sentence in document])
            examples = self._examples(tokens, lengths, seed)
            texts = self._texts(examples)
            count = len(texts)
            records = (
                record
                for start in range(0, count, _ROWS_AT_A_TIME)
                for record in self._records(examples, texts[start : start + _ROWS_AT_A_TIME], [*seed, start])
            )
            _write(records, path)
        counts = (len(found), int(lengths.sum()), len(tokens.values), count, examples.cut)
        return dict(zip(COUNTS, counts, strict=True))

    def _examples(self, tokens: tf.RaggedTensor, lengths: np.ndarray, seed: list[int]) -> MaskedExamples:
        document_tokens = np.diff(tokens.row_splits.numpy()[np.cumsum([0, *lengths])])
        if self.objective == "next_sentence" and np.count_nonzero(document_tokens) == 1:
            # No other document in this part has sentences for pairs.
            none = make_examples(tokens[:0], lengths[:0], self._room, self.objective, seed)
            return none._replace(cut=len(tokens.values))
        return make_examples(tokens, lengths, self._room, self.objective, seed)

    def _texts(self, examples: MaskedExamples) -> list[list[int]]:
        """The indices of the examples in each sequence."""
        if not self.pack:
            return [[row] for row in range(int(examples.segments[0].nrows()))]
        special_tokens = self.preprocessor.tokenizer.pair_format.special_tokens(1)
        lengths = examples.segments[0].row_lengths().numpy() + special_tokens
        return sequences_of(lengths, self.preprocessor.sequence_length)

    def _records(self, examples: MaskedExamples, texts: list[list[int]], seed: list[int]) -> list[bytes]:
        masks = np.random.SeedSequence(seed).generate_state(2).astype(np.int32)
        rows = np.concatenate(texts)
        counts = np.array([len(each) for each in texts], np.int64)
        masked = self._masked(tuple(tf.gather(segment, rows) for segment in examples.segments), counts, masks)
        batch = {name: value.numpy() for name, value in masked.items()}
        if examples.labels is not None:
            batch[LABELS] = examples.labels[rows, None]
        return _serialized(batch)


def _restored(preprocessor: dict[str, Any], *settings: Any) -> ShardWriter:
    return ShardWriter(keras.saving.deserialize_keras_object(preprocessor), *settings)


def _write(records: Iterable[bytes], path: Path) -> None:
    try:
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in records:
                writer.write(record)
    except tf.errors.OpError as error:
        raise OSError(errno.EIO, error.message.removeprefix(f"{path}; "), str(path)) from None


def _serialized(batch: dict[str, np.ndarray]) -> list[bytes]:
    records = []
    for i in range(len(batch["input_word_ids"])):
        example = tf.train.Example()
        for name, values in batch.items():
            feature = example.features.feature[GOOGLE[name]]
            kind = feature.float_list if values.dtype == np.float32 else feature.int64_list
            kind.value.extend(values[i].tolist())
        records.append(example.SerializeToString(deterministic=True))  # the same order in every process
    return records


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

"""Reads and writes files of records, in the layout of Google's `create_pretraining_data.py` and of TF Model Garden."""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from keras_bert import files, undocumented
from keras_bert.counted import counted
from keras_bert.output_files import OutputFiles, check_processes
from keras_bert.pipelines import UNTUNED, as_written
from keras_bert.pretraining.corpus import CorpusPart, check_documents, documents, parts_of
from keras_bert.pretraining.examples import PretrainingExamples, group_into_sequences, join_rows, make_examples
from keras_bert.pretraining.masking import MaskedLMMasking, default_predictions
from keras_bert.progress import progress_bar
from keras_bert.text import BertPreprocessor

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


SETTINGS = "records.json"  # has the settings, and the names of complete files
LABELS, DOCUMENTS = "next_sentence_labels", "input_document_ids"
_OPTIONAL = (LABELS, DOCUMENTS)
# The name of a feature here -> its name in Google's records, which have no document ids. Newer files of Model Garden
# have the names on the left, those of TF Hub.
GOOGLE_NAMES = {
    "input_word_ids": "input_ids",
    "input_mask": "input_mask",
    "input_type_ids": "segment_ids",
    **{name: name for name in ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights", *_OPTIONAL)},
}
_ROWS_AT_A_TIME = 4096
# A resumed run reads the corpus again for its digests: whole up to 4 GiB, otherwise this number of pieces of it.
_PIECES, _PIECE_BYTES = 2**12, 2**20
_SHUFFLE_BUFFER = 10_000  # records in the shuffle buffer, some megabytes


class Records:
    """Files of pre-training records, written by `write_records`, by Google's BERT, or by TF Model Garden.

    Args:
        files: a directory that `write_records` has written, or files.

    Attributes:
        files: list of str.
        count: the number of records.

    Raises:
        FileNotFoundError: there are no files, or a file does not exist.
        ValueError: the directory is incomplete, a file is damaged, or the first record has another layout.
    """

    def __init__(self, files: str | Path | Sequence[str | Path]) -> None:
        self.files = _find_files(files)
        counts = {path: _count_records(path) for path in self.files}
        self.count = sum(counts.values())
        if not self.count:
            raise ValueError(f"{self.files[0]} has no records")
        self._features = _read_features(next(path for path in self.files if counts[path]))

    def in_order(self, batch_size: int) -> tf.data.Dataset:
        """Batches all records, in the order of the files, for instance to evaluate.

        Returns:
            A dataset of dicts of int32 (the weights: float32):
                `input_word_ids`, `input_mask`, `input_type_ids`: `[batch, seq_length]`;
                `masked_lm_positions`, `masked_lm_ids`, `masked_lm_weights`: `[batch, predictions]`;
                `next_sentence_labels`: `[batch]`, for pairs;
                `input_document_ids`: `[batch, seq_length]`, if texts share a sequence.
        """
        batches = -(-self.count // batch_size)
        dataset = self._batches(tf.data.TFRecordDataset(self.files), batch_size)
        return undocumented.with_cardinality(dataset, batches)

    def shuffled(self, batch_size: int, seed: int, start: int = 0) -> tf.data.Dataset:
        """Batches records without end, to train: every epoch has each record once, in another order.

        Args:
            batch_size: the number of records in a batch.
            seed: the seed of the order.
            start: the index of the first batch. Earlier batches are not parsed, and earlier epochs are not read.
        """

        def epoch(number: tf.Tensor) -> tf.data.Dataset:
            order = undocumented.shuffle_by_seed(tf.constant(self.files), [seed, number])
            files_in_order = tf.data.Dataset.from_tensor_slices(order)
            records = files_in_order.interleave(tf.data.TFRecordDataset, cycle_length=min(8, len(self.files)))
            buffers = records.batch(_SHUFFLE_BUFFER)
            return buffers.map(lambda each: undocumented.shuffle_by_seed(each, [seed, number])).unbatch()

        epochs = tf.data.Dataset.range(start * batch_size // self.count, 2**31 - 1)
        return self._batches(epochs.flat_map(as_written(epoch)).skip(start * batch_size % self.count), batch_size)

    def _batches(self, records: tf.data.Dataset, batch_size: int) -> tf.data.Dataset:
        parse = as_written(functools.partial(_parse, features=self._features))
        return records.batch(batch_size).map(parse, num_parallel_calls=2, deterministic=True).with_options(UNTUNED)


def baselines(records: Records) -> dict[str, float]:
    """Measures the best model that ignores its text; a trained model must do better.

    That model always predicts the frequencies `p` of the masked tokens, and of the labels of pairs. Its losses are
    their entropies, `-sum p log p`, and its accuracies the largest `p`.

    Returns:
        `masked_lm_loss`, `masked_lm_accuracy`, `masked_lm_perplexity`, and for pairs `next_sentence_loss` and
        `next_sentence_accuracy`.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertPreprocessor
        >>> from keras_bert.pretraining import write_records
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "text.txt").write_text("rain rain rain rain rain rain")
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=16)
        >>> _ = write_records([folder / "text.txt"], folder / "records", preprocessor, objective="sentences")
        >>> baselines(Records(folder / "records"))["masked_lm_accuracy"]
        1.0
    """
    tokens, labels = np.zeros(1), np.zeros(2)
    for batch in records.in_order(_ROWS_AT_A_TIME):
        ids, weights = (batch[name].numpy().ravel() for name in ("masked_lm_ids", "masked_lm_weights"))
        counts = np.bincount(ids, weights, minlength=len(tokens))
        tokens = counts + np.pad(tokens, (0, len(counts) - len(tokens)))
        if LABELS in batch:
            labels += np.bincount(batch[LABELS].numpy(), minlength=2)
    loss, accuracy = _compute_entropy_and_accuracy(tokens)
    measures = {"masked_lm_loss": loss, "masked_lm_accuracy": accuracy, "masked_lm_perplexity": math.exp(loss)}
    if labels.any():
        measures["next_sentence_loss"], measures["next_sentence_accuracy"] = _compute_entropy_and_accuracy(labels)
    return measures


def _compute_entropy_and_accuracy(counts: np.ndarray) -> tuple[float, float]:
    """Computes the entropy and the largest of the shares of counts."""
    shares = counts[counts > 0] / counts.sum()
    return float(-np.sum(shares * np.log(shares))), float(np.max(shares, initial=0.0))


def _find_files(records: str | Path | Sequence[str | Path]) -> list[str]:
    if not isinstance(records, str | Path):
        paths = [Path(path) for path in records]
    else:
        directory = Path(records)
        paths = sorted(directory.glob("[!.]*.tfrecord*")) if directory.is_dir() else [directory]
        if (directory / SETTINGS).exists() and paths and f"-of-{len(paths):05}." not in paths[0].name:
            raise ValueError(
                f"{directory} is incomplete: {counted(paths, 'file')} like {paths[0].name}; write the missing ones"
            )
    missing = [path for path in paths if not path.is_file()]
    if missing or not paths:
        raise FileNotFoundError(f"there are no records in {missing[0] if missing else records}")
    return [str(path) for path in paths]


def _count_records(path: str) -> int:
    try:
        return int(sum(tf.size(batch) for batch in tf.data.TFRecordDataset(path).batch(_ROWS_AT_A_TIME)))
    except tf.errors.DataLossError as error:
        raise ValueError(f"{path} is damaged: {error.message}; write it again") from None


def _read_features(path: str) -> dict[str, tf.io.FixedLenFeature]:
    first = next(iter(tf.data.TFRecordDataset(path)))
    try:
        feature = tf.train.Example.FromString(first.numpy()).features.feature
    except DecodeError:
        raise ValueError(f"{path}: its first record is not a tf.train.Example") from None
    features = {}
    for feature_name, google_name in GOOGLE_NAMES.items():
        name = feature_name if feature_name in feature else google_name
        if name not in feature:
            if feature_name in _OPTIONAL:
                continue
            names = ", ".join(sorted(feature)) or "nothing"
            raise ValueError(f"{path}: its first record has no {google_name}; it has {names}")
        values = feature[name]
        is_float = bool(values.float_list.value)
        length = len(values.float_list.value or values.int64_list.value)
        features[name] = tf.io.FixedLenFeature([length], tf.float32 if is_float else tf.int64)
    return features


def _parse(serialized: tf.Tensor, features: dict[str, tf.io.FixedLenFeature]) -> dict[str, tf.Tensor]:
    examples = tf.io.parse_example(serialized, features)
    batch = {}
    for feature_name, google_name in GOOGLE_NAMES.items():
        value = examples.get(feature_name, examples.get(google_name))
        if value is not None:
            batch[feature_name] = value if value.dtype == tf.float32 else tf.cast(value, tf.int32)
    if LABELS in batch:
        batch[LABELS] = batch[LABELS][:, 0]
    return batch


# -- Writes a corpus as files of records, one for each part of the corpus.

COUNTS = ("documents", "sentences", "tokens", "examples", "cut")


@dataclass(eq=False)
class ShardWriter:
    """Writes one part of a corpus as a file of examples; the same part and seed give the same bytes. Picklable."""

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

        def pack_and_mask(
            segments: tuple[tf.RaggedTensor, ...], counts: tf.Tensor, seed: tf.Tensor
        ) -> dict[str, tf.Tensor]:
            packed = preprocessor.pack(segments)
            if pack:
                packed = join_rows(packed, counts, tokenizer.pad_token_id)
            return masking(packed, seed)

        signature = [(segment,) * segments, tf.TensorSpec([None], tf.int64), tf.TensorSpec([2], tf.int32)]
        self._pack_and_mask = tf.function(pack_and_mask, input_signature=signature, autograph=False)

    def __reduce__(self) -> tuple[Callable, tuple]:
        settings = (self.objective, self.layout, self.predictions, self.masked_unit, self.pack)
        return _restore_writer, (keras.saving.serialize_keras_object(self.preprocessor), *settings)

    def __call__(self, part: CorpusPart, seed: list[int], path: Path) -> dict[str, int]:
        part_documents = list(documents(part, self.layout))
        lengths = np.array([len(document) for document in part_documents], np.int64)
        with tf.device("CPU"):  # the same random numbers on every machine
            tokens = self.preprocessor.tokenizer.tokenize(
                [sentence for document in part_documents for sentence in document]
            )
            examples = self._make_examples(tokens, lengths, seed)
            texts = self._group_texts(examples)
            count = len(texts)
            records = (
                record
                for start in range(0, count, _ROWS_AT_A_TIME)
                for record in self._make_records(examples, texts[start : start + _ROWS_AT_A_TIME], [*seed, start])
            )
            _write_file(records, path)
        counts = (len(part_documents), int(lengths.sum()), len(tokens.values), count, examples.cut)
        return dict(zip(COUNTS, counts, strict=True))

    def _make_examples(self, tokens: tf.RaggedTensor, lengths: np.ndarray, seed: list[int]) -> PretrainingExamples:
        document_tokens = np.diff(tokens.row_splits.numpy()[np.cumsum([0, *lengths])])
        if self.objective == "next_sentence" and np.count_nonzero(document_tokens) == 1:
            # No other document in this part has a sentence for the second segment of a pair.
            none = make_examples(tokens[:0], lengths[:0], self._room, self.objective, seed)
            return none._replace(cut=len(tokens.values))
        return make_examples(tokens, lengths, self._room, self.objective, seed)

    def _group_texts(self, examples: PretrainingExamples) -> list[list[int]]:
        """Lists the examples of each sequence, by index."""
        if not self.pack:
            return [[row] for row in range(int(examples.segments[0].nrows()))]
        special_tokens = self.preprocessor.tokenizer.pair_format.special_tokens(1)
        lengths = examples.segments[0].row_lengths().numpy() + special_tokens
        return group_into_sequences(lengths, self.preprocessor.sequence_length)

    def _make_records(self, examples: PretrainingExamples, texts: list[list[int]], seed: list[int]) -> list[bytes]:
        mask_seed = np.random.SeedSequence(seed).generate_state(2).astype(np.int32)
        rows = np.concatenate(texts)
        counts = np.array([len(each) for each in texts], np.int64)
        masked = self._pack_and_mask(
            tuple(tf.gather(segment, rows) for segment in examples.segments), counts, mask_seed
        )
        batch = {name: value.numpy() for name, value in masked.items()}
        if examples.labels is not None:
            batch[LABELS] = examples.labels[rows, None]
        return _serialize(batch)


def _restore_writer(preprocessor: dict[str, Any], *settings: Any) -> ShardWriter:
    return ShardWriter(keras.saving.deserialize_keras_object(preprocessor), *settings)


def _write_file(records: Iterable[bytes], path: Path) -> None:
    try:
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in records:
                writer.write(record)
    except tf.errors.OpError as error:
        raise OSError(errno.EIO, error.message.removeprefix(f"{path}; "), str(path)) from None


def _serialize(batch: dict[str, np.ndarray]) -> list[bytes]:
    records = []
    for i in range(len(batch["input_word_ids"])):
        example = tf.train.Example()
        for name, values in batch.items():
            feature = example.features.feature[GOOGLE_NAMES[name]]
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
        preprocessor: its tokenizer and `sequence_length` are those of the records.
        objective: "next_sentence", "sentence_order" or "sentences": see `make_examples`.
        layout: "prose" or "sentences": see `documents`.
        copies: the number of times each document is used, with new random pairs and masks each time.
        predictions: the most masked tokens in a sequence; by default 15% of its length.
        masked_unit: "token", "word" or "span": see `MaskedLMMasking`.
        pack: whether short documents share a sequence; only with "sentences". In `BertEncoder`, tokens attend within
            their document only, by `input_document_ids`; in Google's BERT, they attend to the whole sequence.
        seed: the same corpus and the same seed give the same records.
        part_bytes: the approximate size of a part, in bytes.
        processes: the number of processes. The records do not depend on it. A script that uses several needs
            `if __name__ == "__main__":` around its code, as Python starts processes.
        pipeline_options: if not None, an Apache Beam pipeline with these options writes the same files
            (`pip install 'keras-bert-models[beam]'`). Its workers need this package, and must see corpus and directory
            under the same paths.
        progress: whether to show a progress bar; by default on a terminal, elsewhere a line a minute. A pipeline
            has none.

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
        raise ValueError(
            f"pack is True, but the objective is {objective!r}; only 'sentences' packs documents into rows"
        )
    if predictions is None:
        predictions = default_predictions(preprocessor.sequence_length)
    texts, directory = [Path(path) for path in corpus], Path(directory)
    if pipeline_options is not None:  # workers may have another working directory
        texts, directory = [path.absolute() for path in texts], directory.absolute()
    writer = ShardWriter(preprocessor, objective, layout, predictions, masked_unit, pack)
    corpus_parts = parts_of(texts, part_bytes)
    settings = {
        "files": _describe_texts(texts), "vocabulary": _compute_digest(preprocessor),
        "sequence_length": preprocessor.sequence_length, "objective": objective, "layout": layout, "copies": copies,
        "predictions": predictions, "masked_unit": masked_unit, "pack": pack, "seed": seed, "part_bytes": part_bytes,
    }  # fmt: skip
    count = copies * len(corpus_parts)
    names = [f"examples-{number:05}-of-{count:05}.tfrecord" for number in range(count)]
    if not (directory / SETTINGS).exists() and any(directory.glob("*.tfrecord")):
        raise ValueError(
            f"{directory} holds records without {SETTINGS}, which cannot be continued; choose another directory"
        )
    write = functools.partial(_write_shard, writer, corpus_parts, seed)
    outputs = OutputFiles(directory, SETTINGS, "records", settings, names, write, _is_same)
    check_documents(texts, layout, objective)
    with outputs.lock() as left:
        if pipeline_options is not None:
            outputs.write_with_beam(left, pipeline_options)
        else:
            with progress_bar(count, "parts", progress, count - len(left)) as bar:
                outputs.write(left, processes, lambda counts: bar.update())
    counts = outputs.totals(*COUNTS)
    if not counts["examples"]:
        hint = ". Each document is alone in its part of the corpus; use a larger part_bytes, or 'sentence_order'"
        reason = hint if objective == "next_sentence" and counts["tokens"] else ""
        summary = f"{counted(counts['documents'], 'document')}, {counted(counts['tokens'], 'token')}"
        raise ValueError(f"the corpus yields no examples: {summary}{reason}")
    return counts


def _write_shard(
    writer: ShardWriter, parts: Sequence[CorpusPart], seed: int, number: int, path: Path
) -> Iterator[dict[str, int]]:
    copy, part = divmod(number, len(parts))
    yield writer(parts[part], [seed, copy, part], path)


def _describe_texts(texts: Sequence[Path]) -> list[list[str | int]]:
    """Lists the name, the size and a digest of each text."""
    sizes = [path.stat().st_size for path in texts]
    step = max(_PIECE_BYTES, sum(sizes) // _PIECES)

    def pieces(path: Path, size: int) -> Iterator[bytes]:
        with path.open("rb") as file:
            for start in range(0, size, step):
                file.seek(start)
                yield file.read(_PIECE_BYTES)

    return [[path.name, size, files.sha256(pieces(path, size))] for path, size in zip(texts, sizes, strict=True)]


def _is_same(noted: object, value: Any) -> bool:
    """Compares a setting with the noted one. Of texts, older records note only names and sizes."""
    return noted == value or (isinstance(value, list) and noted == [text[:2] for text in value])


def _compute_digest(preprocessor: BertPreprocessor) -> str:
    config = preprocessor.tokenizer.get_config()
    return hashlib.sha256(json.dumps(config, sort_keys=True, default=repr).encode()).hexdigest()

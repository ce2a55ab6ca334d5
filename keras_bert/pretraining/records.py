"""Reads files of records, in the layout of Google's `create_pretraining_data.py` and of TF Model Garden."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from keras_bert import undocumented
from keras_bert.pipelines import UNTUNED, as_written

SETTINGS = "records.json"  # the settings, and the complete files
LABELS, DOCUMENTS = "next_sentence_labels", "input_document_ids"
_OPTIONAL = (LABELS, DOCUMENTS)
# Our name -> Google's; only our records have document ids. Newer files of Model Garden have TF Hub's names, as ours.
GOOGLE = {
    "input_word_ids": "input_ids",
    "input_mask": "input_mask",
    "input_type_ids": "segment_ids",
    "masked_lm_positions": "masked_lm_positions",
    "masked_lm_ids": "masked_lm_ids",
    "masked_lm_weights": "masked_lm_weights",
    LABELS: LABELS,
    DOCUMENTS: DOCUMENTS,
}
_ROWS_AT_A_TIME = 4096
_SHUFFLED = 10_000  # records in the shuffle buffer, some megabytes


class Records:
    """Files of records: ours, Google's or Model Garden's.

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
        self.files = _files_of(files)
        counts = {path: _count(path) for path in self.files}
        self.count = sum(counts.values())
        if not self.count:
            raise ValueError(f"{self.files[0]} has no records")
        self._features = _features(next(path for path in self.files if counts[path]))

    def in_order(self, batch_size: int) -> tf.data.Dataset:
        """Batches of all records, in the order of the files.

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
        """Endless batches: every epoch has each record once, in another order.

        Args:
            batch_size: the number of records in a batch.
            seed: the seed of the order.
            start: the index of the first batch. Earlier batches are not parsed, and earlier epochs are not read.
        """

        def epoch(number: tf.Tensor) -> tf.data.Dataset:
            order = undocumented.shuffle_by_seed(tf.constant(self.files), [seed, number])
            files_in_order = tf.data.Dataset.from_tensor_slices(order)
            records = files_in_order.interleave(tf.data.TFRecordDataset, cycle_length=min(8, len(self.files)))
            windows = records.batch(_SHUFFLED)
            return windows.map(lambda each: undocumented.shuffle_by_seed(each, [seed, number])).unbatch()

        epochs = tf.data.Dataset.range(start * batch_size // self.count, 2**31 - 1)
        return self._batches(epochs.flat_map(as_written(epoch)).skip(start * batch_size % self.count), batch_size)

    def _batches(self, records: tf.data.Dataset, batch_size: int) -> tf.data.Dataset:
        parse = as_written(functools.partial(_parsed, features=self._features))
        return records.batch(batch_size).map(parse, num_parallel_calls=2, deterministic=True).with_options(UNTUNED)


def baselines(records: Records) -> dict[str, float]:
    """Measures the constant answer to records: the most frequent token, and the more frequent label of pairs.

    The losses are those of the frequencies themselves as probabilities: `-sum p log p`. A model that does not read its
    text cannot do better.

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
    loss, accuracy = _of_frequencies(tokens)
    measures = {"masked_lm_loss": loss, "masked_lm_accuracy": accuracy, "masked_lm_perplexity": math.exp(loss)}
    if labels.any():
        measures["next_sentence_loss"], measures["next_sentence_accuracy"] = _of_frequencies(labels)
    return measures


def _of_frequencies(counts: np.ndarray) -> tuple[float, float]:
    """The entropy and the largest share of counts."""
    shares = counts[counts > 0] / counts.sum()
    return float(-np.sum(shares * np.log(shares))), float(np.max(shares, initial=0.0))


def _files_of(records: str | Path | Sequence[str | Path]) -> list[str]:
    if not isinstance(records, str | Path):
        paths = [Path(path) for path in records]
    else:
        directory = Path(records)
        paths = sorted(directory.glob("[!.]*.tfrecord*")) if directory.is_dir() else [directory]
        if (directory / SETTINGS).exists() and paths and f"-of-{len(paths):05}." not in paths[0].name:
            raise ValueError(f"{directory} is incomplete: {len(paths)} files like {paths[0].name}; write the others")
    missing = [path for path in paths if not path.is_file()]
    if missing or not paths:
        raise FileNotFoundError(f"there are no records in {missing[0] if missing else records}")
    return [str(path) for path in paths]


def _count(path: str) -> int:
    try:
        return int(sum(tf.size(batch) for batch in tf.data.TFRecordDataset(path).batch(_ROWS_AT_A_TIME)))
    except tf.errors.DataLossError as error:
        raise ValueError(f"{path} is damaged: {error.message}; write it again") from None


def _features(path: str) -> dict[str, tf.io.FixedLenFeature]:
    first = next(iter(tf.data.TFRecordDataset(path)))
    try:
        feature = tf.train.Example.FromString(first.numpy()).features.feature
    except DecodeError:
        raise ValueError(f"{path}: its first record is not a tf.train.Example") from None
    found = {}
    for ours, theirs in GOOGLE.items():
        name = ours if ours in feature else theirs
        if name not in feature:
            if ours in _OPTIONAL:
                continue
            names = ", ".join(sorted(feature)) or "nothing"
            raise ValueError(f"{path}: its first record has no {theirs}; it has {names}")
        values = feature[name]
        is_float = bool(values.float_list.value)
        length = len(values.float_list.value or values.int64_list.value)
        found[name] = tf.io.FixedLenFeature([length], tf.float32 if is_float else tf.int64)
    return found


def _parsed(serialized: tf.Tensor, features: dict[str, tf.io.FixedLenFeature]) -> dict[str, tf.Tensor]:
    examples = tf.io.parse_example(serialized, features)
    values = {ours: examples.get(ours, examples.get(theirs)) for ours, theirs in GOOGLE.items()}
    found = {
        name: value if value.dtype == tf.float32 else tf.cast(value, tf.int32)
        for name, value in values.items()
        if value is not None
    }
    if LABELS in found:
        found[LABELS] = found[LABELS][:, 0]
    return found

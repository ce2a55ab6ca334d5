"""Examples <-> TFRecord files, in the layout of Google's `create_pretraining_data.py` and of TF Model Garden's."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tqdm import tqdm

from keras_bert import files
from keras_bert.pretraining.corpus import Part, documents, parts_of
from keras_bert.pretraining.examples import Examples, make_examples
from keras_bert.pretraining.masking import MaskedLMMasking
from keras_bert.text import BertPreprocessor

SETTINGS = "records.json"  # what the records of a directory were made of, and the shards that are complete
_LABELS = "next_sentence_labels"
# Our name -> Google's. Model Garden's newer files have TF Hub's names, which are ours.
_GOOGLE = {
    "input_word_ids": "input_ids",
    "input_mask": "input_mask",
    "input_type_ids": "segment_ids",
    "masked_lm_positions": "masked_lm_positions",
    "masked_lm_ids": "masked_lm_ids",
    "masked_lm_weights": "masked_lm_weights",
    _LABELS: _LABELS,
}
_COUNTS = ("documents", "sentences", "pieces", "examples", "cut")
_ROWS_AT_A_TIME = 4096
_SHUFFLED = 10_000  # records at a time, some megabytes


def write_records(
    corpus: Sequence[str | Path],
    directory: str | Path,
    preprocessor: BertPreprocessor,
    objective: str = "next_sentence",
    layout: str = "prose",
    copies: int = 1,
    predictions: int | None = None,
    unit: str = "piece",
    seed: int = 0,
    part_bytes: int = 2**24,
    progress: bool | None = None,
) -> dict[str, int]:
    """Writes the examples of a corpus, as many files as the corpus has parts; memory is needed for one part.

    If it is interrupted, the same call goes on with the parts that are not done.

    Args:
        corpus: files of UTF-8 text.
        directory: for the records. Made, if there is none.
        preprocessor: its tokenizer, and the `sequence_length` of the records.
        objective: "next_sentence", "sentence_order" or "sentences": see `make_examples`.
        layout: "prose" or "sentences": see `documents`.
        copies: how often each document is used, with other pairs and other masks.
        predictions: the most masked pieces in a sequence; by default 15% of its length.
        unit: what is masked as a whole: "piece", "word" or "span".
        seed: the same corpus and the same seed, the same records.
        part_bytes: bytes of text in a part, about.
        progress: whether to show a progress bar; by default on a terminal.

    Returns:
        Counts: `documents`, `sentences`, `pieces`, `examples`, and `cut`, the pieces that are in no example.

    Raises:
        FileNotFoundError, ValueError: the corpus cannot be used, an argument is bad, or the directory holds records of
            something else.
        OSError: a file cannot be written; what was not complete is removed.

    Example:
        >>> import tempfile
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=32)
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "text.txt").write_text("One came. Two went.\\n\\nThree slept. Four ate.")
        >>> counts = write_records([folder / "text.txt"], folder / "records", preprocessor, layout="sentences")
        >>> counts["documents"], counts["examples"]
        (2, 2)
    """
    if preprocessor.sequence_length is None:
        raise ValueError("sequence_length is None, but all records have the same length: give the preprocessor one")
    if copies < 1:
        raise ValueError(f"copies is {copies}; expected at least 1")
    if predictions is None:
        predictions = max(1, round(0.15 * preprocessor.sequence_length))
    masking = MaskedLMMasking(preprocessor.tokenizer, predictions, unit=unit)
    parts = parts_of(corpus, part_bytes)
    settings = {
        "files": [[path.name, path.stat().st_size] for path in parts[0].files], "vocabulary": _digest(preprocessor),
        "sequence_length": preprocessor.sequence_length, "objective": objective, "layout": layout, "copies": copies,
        "predictions": predictions, "unit": unit, "seed": seed, "part_bytes": part_bytes,
    }  # fmt: skip
    directory = Path(directory)
    notes = _read_notes(directory, settings)
    maker = _Maker(preprocessor, masking, objective, layout)
    shards = [(copy, number) for copy in range(copies) for number in range(len(parts))]
    for index, (copy, number) in enumerate(
        tqdm(shards, unit=" parts", disable=None if progress is None else not progress)
    ):
        name = f"examples-{index:05}-of-{len(shards):05}.tfrecord"
        if name in notes["shards"]:
            continue
        with files.written_whole(directory / name) as unfinished:
            notes["shards"][name] = maker.write(parts[number], [seed, copy, number], unfinished)
        files.write_texts(directory, {SETTINGS: files.to_json(notes)})
    counts = {name: sum(shard[name] for shard in notes["shards"].values()) for name in _COUNTS}
    if not counts["examples"]:
        raise ValueError(
            f"the corpus gives no examples: {counts['documents']:,} documents, {counts['pieces']:,} pieces"
        )
    return counts


class _Maker:
    """A part of a corpus -> a file of records."""

    def __init__(self, preprocessor: BertPreprocessor, masking: MaskedLMMasking, objective: str, layout: str) -> None:
        self._preprocessor = preprocessor
        self._objective = objective
        self._layout = layout
        segments = 1 if objective == "sentences" else 2
        self._room = preprocessor.sequence_length - preprocessor.tokenizer.pair_format.special_tokens(segments)
        segment = tf.RaggedTensorSpec([None, None], tf.int32, row_splits_dtype=tf.int64)
        self._masked = tf.function(
            lambda segments, seed: masking(preprocessor.pack(segments), seed),
            input_signature=[(segment,) * segments, tf.TensorSpec([2], tf.int32)],
        )

    def write(self, part: Part, seed: list[int], path: Path) -> dict[str, int]:
        found = list(documents(part, self._layout))
        lengths = np.array([len(document) for document in found], np.int64)
        pieces = self._preprocessor.tokenizer.tokenize([sentence for document in found for sentence in document])
        examples = make_examples(pieces, lengths, self._room, self._objective, seed)
        count = int(examples.segments[0].nrows())
        records = (
            record
            for start in range(0, count, _ROWS_AT_A_TIME)
            for record in self._records(examples, slice(start, start + _ROWS_AT_A_TIME), [*seed, start])
        )
        _write(records, path)
        counts = (len(found), int(lengths.sum()), len(pieces.values), count, examples.cut)
        return dict(zip(_COUNTS, counts, strict=True))

    def _records(self, examples: Examples, rows: slice, seed: list[int]) -> list[bytes]:
        masks = np.random.SeedSequence(seed).generate_state(2).astype(np.int32)
        masked = self._masked(tuple(segment[rows] for segment in examples.segments), masks)
        batch = {name: value.numpy() for name, value in masked.items()}
        if examples.labels is not None:
            batch[_LABELS] = examples.labels[rows, None]
        return _serialized(batch)


def _write(records: Iterable[bytes], path: Path) -> None:
    try:
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in records:
                writer.write(record)
    except tf.errors.OpError as error:
        raise OSError(f"cannot write records: {error.message}") from None


def _serialized(batch: dict[str, np.ndarray]) -> list[bytes]:
    records = []
    for i in range(len(batch["input_word_ids"])):
        example = tf.train.Example()
        for name, values in batch.items():
            feature = example.features.feature[_GOOGLE[name]]
            kind = feature.float_list if values.dtype == np.float32 else feature.int64_list
            kind.value.extend(values[i].tolist())
        records.append(example.SerializeToString())
    return records


def _digest(preprocessor: BertPreprocessor) -> str:
    config = preprocessor.tokenizer.get_config()
    return hashlib.sha256(json.dumps(config, sort_keys=True, default=repr).encode()).hexdigest()


def _read_notes(directory: Path, settings: dict[str, Any]) -> dict[str, Any]:
    path = directory / SETTINGS
    if not path.exists():
        if directory.is_dir() and any(directory.glob("*.tfrecord")):
            raise ValueError(
                f"{directory} holds records, but no {SETTINGS}: they are of something else; choose another"
            )
        return {"settings": settings, "shards": {}}
    notes = files.read_json(path)
    different = [name for name in settings if notes["settings"].get(name) != settings[name]]
    if different:
        raise ValueError(f"{directory} holds records with other {', '.join(different)}; choose another directory")
    return notes


class Records:
    """Files of records: ours, Google's or Model Garden's.

    Args:
        files: a directory that `write_records` has filled, or files.

    Attributes:
        files: list of str, in order.
        count: how many records there are.

    Raises:
        FileNotFoundError: there are none, or a file does not exist.
        ValueError: the directory is not complete, a file is damaged, or the first record is none of these.
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
            A dataset of dicts: int32 `[batch, seq_length]` `input_word_ids`, `input_mask`, `input_type_ids`; `[batch,
            predictions]` `masked_lm_positions`, `masked_lm_ids` and, float32, `masked_lm_weights`; and, of pairs, int32
            `next_sentence_labels` `[batch]`.
        """
        batches = -(-self.count // batch_size)
        dataset = self._batches(tf.data.TFRecordDataset(self.files), batch_size)
        return dataset.apply(tf.data.experimental.assert_cardinality(batches))

    def shuffled(self, batch_size: int, seed: int, start: int = 0) -> tf.data.Dataset:
        """The same without end: in every epoch each record once, in another order.

        Args:
            batch_size: records a batch.
            seed: of the order.
            start: the number of the first batch. Those before it are skipped without being parsed, and whole epochs
                without being read.
        """

        def epoch(number: tf.Tensor) -> tf.data.Dataset:
            order = tf.random.experimental.stateless_shuffle(tf.constant(self.files), [seed, number])
            files_in_order = tf.data.Dataset.from_tensor_slices(order)
            records = files_in_order.interleave(tf.data.TFRecordDataset, cycle_length=min(8, len(self.files)))
            windows = records.batch(_SHUFFLED)
            return windows.map(lambda each: tf.random.experimental.stateless_shuffle(each, [seed, number])).unbatch()

        epochs = tf.data.Dataset.range(start * batch_size // self.count, 2**31 - 1)
        return self._batches(epochs.flat_map(epoch).skip(start * batch_size % self.count), batch_size)

    def _batches(self, records: tf.data.Dataset, batch_size: int) -> tf.data.Dataset:
        parse = functools.partial(_parsed, features=self._features)
        return records.batch(batch_size).map(parse, num_parallel_calls=2, deterministic=True)


def _files_of(records: str | Path | Sequence[str | Path]) -> list[str]:
    if not isinstance(records, str | Path):
        paths = [Path(path) for path in records]
    else:
        directory = Path(records)
        paths = sorted(directory.glob("*.tfrecord*")) if directory.is_dir() else [directory]
        if (directory / SETTINGS).exists() and paths and f"-of-{len(paths):05}." not in paths[0].name:
            raise ValueError(
                f"{directory} is not complete: {len(paths)} files like {paths[0].name}; write it to its end"
            )
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
        raise ValueError(f"{path}: its first record is no tf.train.Example") from None
    found = {}
    for ours, theirs in _GOOGLE.items():
        name = ours if ours in feature else theirs
        if name not in feature:
            if ours == _LABELS:
                continue
            raise ValueError(
                f"{path}: its first record has no {theirs}; it has {', '.join(sorted(feature)) or 'nothing'}"
            )
        values = feature[name]
        is_float = bool(values.float_list.value)
        length = len(values.float_list.value or values.int64_list.value)
        found[name] = tf.io.FixedLenFeature([length], tf.float32 if is_float else tf.int64)
    return found


def _parsed(serialized: tf.Tensor, features: dict[str, tf.io.FixedLenFeature]) -> dict[str, tf.Tensor]:
    examples = tf.io.parse_example(serialized, features)
    values = {ours: examples.get(ours, examples.get(theirs)) for ours, theirs in _GOOGLE.items()}
    found = {
        name: value if value.dtype == tf.float32 else tf.cast(value, tf.int32)
        for name, value in values.items()
        if value is not None
    }
    if _LABELS in found:
        found[_LABELS] = found[_LABELS][:, 0]
    return found

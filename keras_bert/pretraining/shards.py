"""Writes a file of records for a part of a corpus."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.pretraining.corpus import CorpusPart, documents
from keras_bert.pretraining.joining import joined, sequences_of
from keras_bert.pretraining.masked_examples import MaskedExamples, make_examples
from keras_bert.pretraining.masking import MaskedLMMasking
from keras_bert.pretraining.records import GOOGLE, LABELS
from keras_bert.text import BertPreprocessor

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

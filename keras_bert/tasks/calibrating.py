"""Texts -> the encoder's inputs, to calibrate int8 with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from keras_bert.inference import SAMPLE_TEXTS
from keras_bert.tasks.columns import columns_of
from keras_bert.text import BertPreprocessor
from keras_bert.text.strings import as_strings

_BATCH = 16  # texts


def built_in_texts(columns: int) -> Any:
    """The built-in sentences; for pairs, each sentence with the next."""
    return SAMPLE_TEXTS if columns == 1 else (SAMPLE_TEXTS, [*SAMPLE_TEXTS[1:], SAMPLE_TEXTS[0]])


def batches_of(preprocessor: BertPreprocessor | None, x: Any, names: Sequence[str]) -> Iterator[dict[str, tf.Tensor]]:
    """The encoder's inputs, int32 `[batch, seq_length]`, for texts.

    Args:
        preprocessor: of the model.
        x: a list of str; for a model that takes pairs, a tuple of two lists.
        names: the names of the texts that the model reads.

    Raises:
        ValueError: there are no texts, the number of lists is not that of the names, or the model has no tokenizer.
    """
    columns = columns_of(x)
    if preprocessor is None:
        raise ValueError("int8 is calibrated with texts, but this model has no tokenizer")
    if len(columns) != len(names):
        kinds = {1: "a list of texts", 2: "a tuple of two lists"}
        raise ValueError(
            f"this model reads {' and '.join(names)}: to calibrate int8, it needs {kinds[len(names)]}, not "
            f"{kinds[len(columns)]}"
        )
    if len({len(column) for column in columns}) > 1:
        raise ValueError(f"there are {len(columns[0]):,} first texts, but {len(columns[1]):,} second ones")
    for start in range(0, len(columns[0]), _BATCH):
        batch = tuple(as_strings(list(column[start : start + _BATCH])) for column in columns)
        inputs = preprocessor(batch if len(batch) > 1 else batch[0])
        if preprocessor.stride is not None:  # [batch, windows, seq_length]
            inputs = {name: tf.reshape(each, [-1, tf.shape(each)[-1]]) for name, each in inputs.items()}
        yield inputs

"""ComparesTexts: a task that learns from rows of texts that are compared: anchors, positives, negatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.answers.columns import Labels, Targets, Texts
from keras_bert.answers.similarity import are_text_numbers
from keras_bert.tasks.base.columns import Inputs, as_arrays
from keras_bert.tasks.base.task import BertTask, TokenizedExamples
from keras_bert.tasks.steps.gradient_cache import Column
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor


class ComparesTexts(BertTask):
    """The base of what encodes texts for a comparison, and learns from columns of texts."""

    COMPARES_TEXTS: ClassVar[bool] = True

    preprocessor: BertPreprocessor

    def text_columns(self, columns: Sequence[Inputs], training: bool | None = None) -> list[Column]:
        """Packs columns of texts, or takes packed ones, and adds to each the function that encodes it."""
        raise NotImplementedError

    def encoded_columns(self, columns: Sequence[Inputs], training: bool | None) -> Tensor:
        """Encodes columns of texts, float32 `[batch, columns, ...]`."""
        return ops.stack([each.vectors(each.packed) for each in self.text_columns(columns, training)], axis=1)

    def tokenized(self, number: int, texts: list[str]) -> tuple[tf.RaggedTensor, np.ndarray]:
        """Tokenizes the texts of a column, and counts the tokens of their rows before truncation, int64 `[texts]`."""
        raise NotImplementedError

    def packed_column(self, number: int, segment: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        """Packs the tokens of a column."""
        raise NotImplementedError

    def arrays(self, x: Texts | Inputs, y: Labels | None) -> tuple[Inputs, Targets | None]:
        if y is None and isinstance(x, tuple) and all(isinstance(column, list | np.ndarray) for column in x):
            return as_arrays(x), self.kind.targets_of(self.columns(x), None)
        return super().arrays(x, y)

    def examples(self, x: Texts, y: Labels | None) -> TokenizedExamples:
        """Tokenizes columns of texts, each in its own way."""
        columns = self.columns(x)
        targets = self.kind.targets_of(columns, y)
        found = (self.tokenized(number, list(column)) for number, column in enumerate(columns))
        segments, lengths = zip(*found, strict=True)
        return TokenizedExamples(segments, tf.convert_to_tensor(targets), np.max(lengths, axis=0))

    def batch(self, segments: tuple[tf.RaggedTensor, ...], targets: tf.Tensor) -> tuple[Any, tf.Tensor]:
        if are_text_numbers(targets):  # numbered anew in the batch: small numbers are exact in a loss's float32
            _, numbers = tf.unique(tf.reshape(targets, [-1]))
            targets = tf.reshape(numbers, tf.shape(targets))
            targets = tf.ensure_shape(targets, [None, len(segments)])
        return tuple(self.packed_column(number, each) for number, each in enumerate(segments)), targets

"""Learning vectors of texts from columns of texts that are compared: anchors, positives, negatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.tasks.columns import as_arrays, columns_of, plain
from keras_bert.tasks.gradient_cache import cached_step
from keras_bert.tasks.sentence_losses import CoSENTLoss, MarginMSELoss, MultipleNegativesRankingLoss, VectorMSELoss
from keras_bert.tasks.task import TokenizedExamples
from keras_bert.tasks.text_columns import (
    TextVectors,
    are_text_numbers,
    are_vectors,
    measured,
    scores_of,
    searched,
    text_numbers,
)
from keras_bert.text.strings import as_strings


class LearnsByComparing:
    """A mixin for a task that gives vectors: how it learns them from columns of texts, and how they are measured.

    List it before `BertTask` in the bases of the task, which has `_text_columns`, `_prompted` and `_encode_column`.
    """

    _mini_batch_size: int | None = None

    def compute_in_mini_batches(self, size: int | None) -> None:
        if size is not None and size < 1:
            raise ValueError(f"mini_batch_size is {size}; expected 1 or more")
        self._mini_batch_size = size

    def train_step(self, data: Any) -> dict[str, Any]:
        if self._mini_batch_size is None:
            return super().train_step(data)
        columns = self._text_columns(data[0], training=True)
        return self._stepped(cached_step, self, columns, data, self._mini_batch_size)

    def arrays(self, x: Any, y: Any) -> tuple[Any, Any]:
        if y is None and isinstance(x, tuple) and isinstance(x[0], list | np.ndarray):
            return as_arrays(x), text_numbers(x)
        return super().arrays(x, y)

    def targets(self, y: Any) -> Any:
        """Scores of pairs, several scores a row, or vectors, as float32; tensors and datasets stay as they are.

        Raises:
            ValueError: the rows have different numbers of scores, or one is not finite.
        """
        y = plain(y)
        return y if y is None or tf.is_tensor(y) or isinstance(y, tf.data.Dataset) else scores_of(y)

    def examples(self, x: Any, y: Any) -> TokenizedExamples:
        """Tokenizes columns of texts, each with its prompt. Without scores, the targets are `text_numbers`."""
        scores = self.targets(y)
        columns = self._columns(x, scores)
        segments = tuple(
            self.preprocessor.tokenizer.tokenize(self._prompted(number, as_strings(list(column))))
            for number, column in enumerate(columns)
        )
        lengths = np.max([self._by_length.lengths([segment]) for segment in segments], axis=0)
        targets = text_numbers(columns) if scores is None else scores
        return TokenizedExamples(segments, tf.convert_to_tensor(targets), lengths)

    def _columns(self, x: Any, y: Any) -> tuple[Any, ...]:
        columns = columns_of(plain(x), None)
        if len(columns) < 2 and (y is None or len(y.shape) < 2):
            raise ValueError(
                "vectors learn from texts that are compared: x is a tuple of two lists, (anchors, positives), or of "
                "more, with negatives"
            )
        if len(counts := {len(column) for column in columns}) > 1:
            raise ValueError(f"the columns have {' and '.join(f'{count:,}' for count in sorted(counts))} texts")
        if y is not None and len(y) != len(columns[0]):
            raise ValueError(f"there are {len(columns[0]):,} rows of texts, but {len(y):,} of scores")
        if y is not None and len(y.shape) == 1 and len(columns) > 3:
            raise ValueError(f"there are {len(columns)} columns of texts, but one score a row; give one for each text")
        return columns

    def batch(self, segments: tuple[tf.RaggedTensor, ...], targets: Any) -> tuple[Any, Any]:
        if are_text_numbers(targets):  # small ones, which a loss may hold as float32
            _, numbers = tf.unique(tf.reshape(targets, [-1]))
            targets = tf.reshape(numbers, tf.shape(targets))
            targets = tf.ensure_shape(targets, [None, len(segments)])
        return tuple(self.preprocessor.pack(segment) for segment in segments), targets

    def training_loss(self) -> keras.losses.Loss:
        """The loss of anchors and positives: `MultipleNegativesRankingLoss`."""
        return MultipleNegativesRankingLoss()

    def loss_for(self, examples: TokenizedExamples) -> keras.losses.Loss:
        """For scores of pairs `CoSENTLoss`; of the texts of triplets, or of longer rows, `MarginMSELoss`; for vectors
        `VectorMSELoss`; without any of them `MultipleNegativesRankingLoss`.
        """
        if are_text_numbers(examples.targets):
            return self.training_loss()
        if are_vectors(examples.targets, len(examples.segments)):
            return VectorMSELoss()
        return CoSENTLoss() if len(examples.segments) == 2 else MarginMSELoss()

    def check_examples(self, x: Any, y: Any) -> None:
        self._columns(x, self.targets(y))

    def answers(self, x: Any) -> list[TextVectors]:
        """The texts and vectors of each row of columns; each text is encoded once."""
        columns, by_column = [list(column) for column in columns_of(plain(x), None)], []
        for number, column in enumerate(columns):
            texts = list(dict.fromkeys(column))
            vectors = dict(zip(texts, self._encode_column(number, texts, progress=False), strict=True))
            by_column.append([vectors[text] for text in column])
        rows = zip(zip(*columns, strict=True), zip(*by_column, strict=True), strict=True)
        return [TextVectors(texts, np.stack(vectors)) for texts, vectors in rows]

    def measures(self, answers: Sequence[TextVectors], y: Any) -> dict[str, float]:
        """For scores `spearman` and `pearson`, or, if they are 0 and 1, `average_precision` and others; for vectors
        `cosine`; else measures of a search for the positives, `ndcg@10` and others. See `text_columns.measured`."""
        return measured(answers, y)

    def details(self, answers: Sequence[TextVectors], y: Any, corpus: Sequence[str] = ()) -> dict[str, float]:
        """All measures of the search for the positives, `map@100` and others, if there are no scores.

        Args:
            corpus: further texts to search.
        """
        if y is not None:
            return {}
        texts = list(dict.fromkeys(corpus))
        vectors = self._encode_column(1, texts)
        return searched(answers, dict(zip(texts, vectors, strict=True)))

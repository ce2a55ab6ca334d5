"""Learning vectors of texts from columns of texts that are compared: anchors, positives, negatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert.tasks import metrics, vector_metrics
from keras_bert.tasks.columns import as_arrays, columns_of, numbers_of, plain_labels
from keras_bert.tasks.sentence_losses import (
    CoSENTLoss,
    MarginMSELoss,
    MultipleNegativesRankingLoss,
    VectorMSELoss,
    margins_of,
)
from keras_bert.tasks.task import TokenizedExamples
from keras_bert.text.strings import as_strings

_MEASURES = ("ndcg@10", "mrr@10", "accuracy@1", "recall@10")  # measures of a search, to choose models by


class TextVectors(NamedTuple):
    """The texts of a row and their vectors.

    Attributes:
        texts: the anchor, and one or more others.
        vectors: float32 `[columns, size]`, a vector per text.
    """

    texts: tuple[str, ...]
    vectors: np.ndarray


def text_numbers(columns: Sequence[Sequence[str]]) -> np.ndarray:
    """A number for each text, int32 `[rows, columns]`: equal texts have equal numbers.

    Example:
        >>> text_numbers([["a", "b"], ["c", "a"]]).tolist()
        [[0, 2], [1, 0]]
    """
    numbers: dict[Any, int] = {}
    return np.array([[numbers.setdefault(text, len(numbers)) for text in column] for column in columns], np.int32).T


def are_text_numbers(targets: Any) -> bool:
    """Whether targets, a tensor or an array, are `text_numbers`, and not scores or vectors."""
    return len(targets.shape) == 2 and not np.issubdtype(tf.as_dtype(targets.dtype).as_numpy_dtype, np.floating)


def are_vectors(scores: Any, columns: int) -> bool:
    """Whether these are vectors (one for all columns of texts, or one for each), and not scores."""
    return len(scores.shape) == 3 or (len(scores.shape) == 2 and scores.shape[1] > columns)


def scores_of(y: Any) -> np.ndarray:
    """Scores `[rows]`, several a row, or vectors, as float32.

    Raises:
        ValueError: the rows have different numbers of scores, or one is not a finite number.
    """
    scores = numbers_of(y, "scores")
    if bad := np.flatnonzero(~np.isfinite(scores.reshape(len(scores), -1)).all(axis=1)).tolist():
        raise ValueError(f"score {bad[0]} (from 0) is {scores[bad[0]]}, which is not finite")
    return scores


def measured(
    rows: Sequence[TextVectors], scores: Sequence[float] | None, similarity: str = "cosine"
) -> dict[str, float]:
    """Measures the vectors of pairs with scores, or of rows (anchor, positive, negative, ...).

    Args:
        rows: texts and vectors.
        scores: for pairs, their similarities: if all are 0 or 1, the measures are average precision, best F1 and
            accuracy, else Spearman's and Pearson's correlations. For triplets, a teacher's scores or margins, see
            `MarginMSELoss`: the measures are the correlations of the margins. A teacher's vectors, see `VectorMSELoss`:
            the measure is the mean cosine. None: each anchor searches for its positives among all texts except anchors,
            and if there are negatives, is compared with its own.
        similarity: that of the model, "cosine" or "dot".
    """
    columns = np.stack([row.vectors for row in rows], axis=1)  # [columns, rows, size]
    if scores is None:
        every = searched(rows, at=(1, 10), similarity=similarity)
        found = {name: every[name] for name in _MEASURES}
        if len(columns) > 2:
            parts = [vector_metrics.triplet_accuracy(*columns[:2], each, similarity) for each in columns[2:]]
            found["triplet_accuracy"] = float(np.mean([part["triplet_accuracy"] for part in parts]))
        return found
    scores = scores_of(scores)
    if are_vectors(scores, len(columns)):
        wanted = scores[:, None] if scores.ndim == 2 else scores
        wanted = np.broadcast_to(wanted, (*wanted.shape[:1], len(columns), *wanted.shape[2:]))
        cosines = [vector_metrics.cosines(each, wanted[:, column]) for column, each in enumerate(columns)]
        return {"cosine": float(np.mean(cosines))}
    if len(columns) > 2:
        products = np.sum(columns[0] * columns[1:], axis=-1).T  # [rows, columns - 1]
        margins = (np.ravel(margins_of(each, len(columns) - 2)) for each in (scores, products))
        return _correlations(*margins)
    similarities = vector_metrics.similarities(columns[0], columns[1], similarity)
    if set(scores.tolist()) == {0.0, 1.0}:
        return vector_metrics.pair_classification(scores, similarities)
    return _correlations(scores, similarities)


def _correlations(scores: Any, found: Any) -> dict[str, float]:
    correlations = metrics.correlation(scores, found)
    return {"spearman": correlations["spearman"], "pearson": correlations["pearson"]}


def searched(
    rows: Sequence[TextVectors],
    corpus: Mapping[str, np.ndarray] | None = None,
    at: Sequence[int] = (1, 3, 5, 10, 100),
    similarity: str = "cosine",
) -> dict[str, float]:
    """Measures how well anchors find their positives among all texts except anchors: `vector_metrics.retrieval`.

    Args:
        rows: texts and vectors of (anchor, positive, ...).
        corpus: further texts to search, and their vectors.
        at: the values of `k`.
        similarity: that of the model, "cosine" or "dot".

    Returns:
        The measures of each `k`, such as `ndcg@10`.
    """
    found, vectors, anchors, relevant = {}, [], {}, []
    for row in rows:
        anchor = anchors.setdefault(row.texts[0], len(anchors))
        if anchor == len(relevant):
            relevant.append((row.vectors[0], set()))
        for text, vector in zip(row.texts[1:], row.vectors[1:], strict=True):
            if found.setdefault(text, len(found)) == len(vectors):
                vectors.append(vector)
        relevant[anchor][1].add(found[row.texts[1]])
    for text, vector in (corpus or {}).items():
        if found.setdefault(text, len(found)) == len(vectors):
            vectors.append(vector)
    queries, wanted = zip(*relevant, strict=True)
    return vector_metrics.retrieval(queries, vectors, wanted, at, similarity)


class LearnsByComparing:
    """A mixin for a task that gives vectors: how it learns them from columns of texts, and how they are measured.

    List it before `BertTask` in the bases of the task, which has `text_columns`, `_prompted`, `_encode_column` and
    `similarity`.
    """

    COMPARES_TEXTS = True

    def arrays(self, x: Any, y: Any) -> tuple[Any, Any]:
        if y is None and isinstance(x, tuple) and all(isinstance(column, list | np.ndarray) for column in x):
            return as_arrays(x), text_numbers(self._columns(x, None))
        return super().arrays(x, y)

    def targets(self, y: Any) -> Any:
        """Scores of pairs, several scores a row, or vectors, as float32; tensors and datasets stay as they are.

        Raises:
            ValueError: the rows have different numbers of scores, or one is not finite.
        """
        y = plain_labels(y)
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
        columns = columns_of(x, None)
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
        if not len(self._columns(x, self.targets(y))[0]):
            raise ValueError("there are no examples to evaluate with")

    def answers(self, x: Any) -> list[TextVectors]:
        """The texts and vectors of each row of columns; each text is encoded once."""
        columns, by_column = [list(column) for column in columns_of(x, None)], []
        for number, column in enumerate(columns):
            texts = list(dict.fromkeys(column))
            vectors = dict(zip(texts, self._encode_column(number, texts, progress=False), strict=True))
            by_column.append([vectors[text] for text in column])
        rows = zip(zip(*columns, strict=True), zip(*by_column, strict=True), strict=True)
        return [TextVectors(texts, np.stack(vectors)) for texts, vectors in rows]

    def measures(self, answers: Sequence[TextVectors], y: Any) -> dict[str, float]:
        """For scores `spearman` and `pearson`, or, if they are 0 and 1, `average_precision` and others; for vectors
        `cosine`; else measures of a search for the positives, `ndcg@10` and others. See `text_columns.measured`."""
        return measured(answers, y, self.similarity)

    def details(self, answers: Sequence[TextVectors], y: Any, corpus: Sequence[str] = ()) -> dict[str, float]:
        """All measures of the search for the positives, `map@100` and others, if there are no scores.

        Args:
            corpus: further texts to search.
        """
        if y is not None:
            return {}
        texts = list(dict.fromkeys(corpus))
        vectors = self._encode_column(1, texts)
        return searched(answers, dict(zip(texts, vectors, strict=True)), similarity=self.similarity)

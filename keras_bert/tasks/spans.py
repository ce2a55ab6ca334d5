"""Spans: what an answer that is a stretch of a text is to a model, a pair of start and end. Learning and searching."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops

# The score of a span that cannot be. A finite number, so that differences and means of it are no NaN; a real score is
# far above it, in float16 too.
NEVER = -1e9


@keras.saving.register_keras_serializable(package="keras_bert")
class SpanLoss(keras.losses.Loss):
    """Cross-entropy of the start among all pieces of a row, and of the end: the mean of the two.

    Call arguments:
        y_true: int `[batch, 2]`: in which places the answer starts and ends, the last piece included.
        y_pred: float `[batch, seq_length, 2]`: logits of start and end.

    Source: Devlin et al. 2018, section 4.2; run_squad.py of google-research/bert.

    Example:
        >>> logits = ops.zeros((1, 4, 2))
        >>> round(float(SpanLoss()(ops.array([[1, 3]]), logits)), 4)  # log 4
        1.3863
    """

    def __init__(self, name: str = "span_loss", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        logits = ops.transpose(y_pred, (0, 2, 1))  # [batch, 2, seq_length]
        losses = keras.losses.sparse_categorical_crossentropy(y_true, logits, from_logits=True)  # [batch, 2]
        return ops.mean(losses, axis=-1)


class Spans(NamedTuple):
    """The best spans of each row, best first.

    Attributes:
        scores: float32 `[rows, count]`: logit of the start plus logit of the end. Where a row has fewer spans, the
            scores at its end are `NEVER` or less, and what they are the scores of means nothing.
        starts, ends: int `[rows, count]`: the first and the last piece.
    """

    scores: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor


def best_spans(logits: tf.Tensor, may_start: tf.Tensor, lengths: tf.Tensor, max_length: int, count: int) -> Spans:
    """The best of all spans in each row.

    Args:
        logits: float32 `[rows, pieces, 2]`, of start and end.
        may_start: bool `[rows, pieces]`: where a span may start.
        lengths: int `[rows]`: how many pieces a row has.
        max_length: the most pieces in a span.
        count: how many to find. Of equal ones, that which starts, then that which ends first comes first.

    Example:
        >>> logits = tf.constant([[[1.0, 0.0], [5.0, 0.0], [0.0, 2.0], [-3.0, 9.0]]])
        >>> every = tf.fill([1, 4], True)
        >>> [part.numpy().tolist() for part in best_spans(logits, every, lengths=[4], max_length=2, count=2)]
        [[[9.0, 7.0]], [[2, 1]], [[3, 2]]]
    """
    rows, pieces = tf.unstack(tf.shape(logits)[:2])
    inside = tf.sequence_mask(lengths, pieces)
    starts = tf.where(may_start & inside, logits[..., 0], NEVER)
    ends = tf.pad(tf.where(inside, logits[..., 1], NEVER), [[0, 0], [0, max_length - 1]], constant_values=NEVER)
    ends = tf.gather(ends, tf.range(pieces)[:, None] + tf.range(max_length), axis=1)  # [rows, pieces, max_length]
    scores = tf.reshape(starts[..., None] + ends, tf.stack([rows, pieces * max_length]))
    scores = tf.pad(scores, [[0, 0], [0, count]], constant_values=NEVER)  # there may be fewer than count
    scores, index = tf.math.top_k(scores, count)
    start = index // max_length
    return Spans(scores, start, start + index % max_length)


def best_of_windows(spans: Spans, rows: tf.Tensor, batch: tf.Tensor) -> Spans:
    """The best spans of each row's windows -> the best of the row, as many.

    Args:
        spans: of each window, in pieces of the row.
        rows: int64 `[windows]`: of which row; each has one window or more, one after the other.
        batch: int: how many rows there are.

    Example:
        >>> places = tf.constant([[0, 1], [2, 3]])
        >>> spans = Spans(tf.constant([[3.0, 1.0], [4.0, 2.0]]), starts=places, ends=places)
        >>> best_of_windows(spans, rows=tf.constant([0, 0], tf.int64), batch=1).scores.numpy().tolist()
        [[4.0, 3.0]]
    """
    count = spans.scores.shape[1]
    scores = tf.reshape(spans.scores, [-1])
    row = tf.repeat(rows, count)
    by_score = tf.argsort(scores, direction="DESCENDING", stable=True)
    order = tf.gather(by_score, tf.argsort(tf.gather(row, by_score), stable=True))  # by row, then by score
    first = tf.searchsorted(row, tf.range(tf.cast(batch, tf.int64)))  # [batch]
    best = tf.gather(order, first[:, None] + tf.range(count))  # [batch, count]
    return Spans(*(tf.gather(tf.reshape(part, [-1]), best) for part in spans))

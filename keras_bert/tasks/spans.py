"""Spans of text as answers to questions: the training loss, and the search for the best spans."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops

# The score of an impossible span: finite, so that differences and means are never NaN, and far below any real score.
NEVER = -1e9


@keras.saving.register_keras_serializable(package="keras_bert")
class SpanLoss(keras.losses.Loss):
    """The mean of two cross-entropies over the tokens of a row: one for the start, one for the end.

    Call arguments:
        y_true: int `[batch, 2]`: positions of the answer's first and last token.
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
        scores: float32 `[rows, count]`: the start logit plus the end logit. If a row has fewer spans, its last scores
            are `NEVER` or less, and their starts and ends are meaningless.
        starts, ends: int `[rows, count]`: the first and the last token.
    """

    scores: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor


def best_spans(logits: tf.Tensor, may_start: tf.Tensor, lengths: tf.Tensor, max_length: int, count: int) -> Spans:
    """The best spans of each row.

    Args:
        logits: float32 `[rows, tokens, 2]`: the start and the end logit.
        may_start: bool `[rows, tokens]`: where a span may start.
        lengths: int `[rows]`: the number of tokens of each row.
        max_length: the most tokens in a span.
        count: the number of spans. On a tie, the earlier start comes first, then the earlier end.

    Example:
        >>> logits = tf.constant([[[1.0, 0.0], [5.0, 0.0], [0.0, 2.0], [-3.0, 9.0]]])
        >>> every = tf.fill([1, 4], True)
        >>> [part.numpy().tolist() for part in best_spans(logits, every, lengths=[4], max_length=2, count=2)]
        [[[9.0, 7.0]], [[2, 1]], [[3, 2]]]
    """
    rows, tokens = tf.unstack(tf.shape(logits)[:2])
    inside = tf.sequence_mask(lengths, tokens)
    starts = tf.where(may_start & inside, logits[..., 0], NEVER)
    ends = tf.pad(tf.where(inside, logits[..., 1], NEVER), [[0, 0], [0, max_length - 1]], constant_values=NEVER)
    ends = tf.gather(ends, tf.range(tokens)[:, None] + tf.range(max_length), axis=1)  # [rows, tokens, max_length]
    scores = tf.reshape(starts[..., None] + ends, tf.stack([rows, tokens * max_length]))
    scores = tf.pad(scores, [[0, 0], [0, count]], constant_values=NEVER)  # there may be fewer than count
    scores, index = tf.math.top_k(scores, count)
    start = index // max_length
    return Spans(scores, start, start + index % max_length)


def best_of_windows(spans: Spans, rows: tf.Tensor, batch: tf.Tensor) -> Spans:
    """The best spans of each window -> the same number of best spans of each row.

    Args:
        spans: the spans of each window; starts and ends count tokens of the row.
        rows: int64 `[windows]`: the row of each window, in ascending order; every row has a window.
        batch: int: the number of rows.

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

"""Cuts long segments into several rows that overlap (for SQuAD, Devlin et al. 2018 call it a sliding window)."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from keras_bert.text.packing import first_tokens


class Windows(NamedTuple):
    """Windows over the last segment of each row.

    Attributes:
        segments: one for each given, ragged int32 `[windows, (tokens)]`: the windows of a row one after the other; the
            first of two segments is repeated in each.
        rows: int64 `[windows]`: the row of each window.
        starts: int64 `[windows]`: the number of tokens of the row's last segment before the window.
        counts: int64 `[batch]`: the number of windows of each row, at least 1.
    """

    segments: list[tf.RaggedTensor]
    rows: tf.Tensor
    starts: tf.Tensor
    counts: tf.Tensor


def windows(segments: Sequence[tf.RaggedTensor], max_tokens: tf.Tensor | int, stride: int) -> Windows:
    """Cuts the last segment of each row into windows that fit, together with the first segment if there are two.

    A window begins `stride` tokens after the one before it, or sooner if windows are shorter than that, so that no
    token is lost. The last one ends where the segment does.

    Args:
        segments: one or two ragged integer tensors `[batch, (tokens)]`. The first of two is cut to half of
            `max_tokens`.
        max_tokens: the most tokens in the segments of a row together, at least 2.
        stride: at least 1.

    Example:
        >>> question, context = tf.ragged.constant([[1, 2]]), tf.ragged.constant([[3, 4, 5, 6, 7, 8]])
        >>> cut = windows([question, context], max_tokens=6, stride=2)
        >>> cut.segments[1].to_list(), cut.starts.numpy()
        ([[3, 4, 5, 6], [5, 6, 7, 8]], array([0, 2]))
    """
    *first, last = segments
    most = tf.cast(max_tokens, tf.int64)
    first = [first_tokens(each, tf.minimum(_lengths(each), most // 2)) for each in first]
    lengths = _lengths(last)  # [batch]
    room = most - tf.add_n([_lengths(each) for each in first]) if first else tf.fill(tf.shape(lengths), most)
    step = tf.minimum(tf.cast(stride, tf.int64), room)
    counts = 1 + (tf.maximum(lengths - room, 0) + step - 1) // step
    rows = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)  # [windows]
    starts = tf.ragged.range(counts).values * tf.gather(step, rows)
    tokens = tf.minimum(tf.gather(room, rows), tf.gather(lengths, rows) - starts)
    from_value = tf.gather(tf.cast(last.row_starts(), tf.int64), rows) + starts
    values = tf.gather(last.values, tf.ragged.range(from_value, from_value + tokens).values)
    window = tf.RaggedTensor.from_row_lengths(values, tokens, validate=False)
    return Windows([*(tf.gather(each, rows) for each in first), window], rows, starts, counts)


def _lengths(segment: tf.RaggedTensor) -> tf.Tensor:
    return tf.cast(segment.row_lengths(), tf.int64)

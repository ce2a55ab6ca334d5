"""Splits long segments into overlapping windows (as the code of Devlin et al. 2018 does for SQuAD)."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from keras_bert.text.packing import first_tokens


class Windows(NamedTuple):
    """Windows over the last segment of each row."""

    segments: list[tf.RaggedTensor]  # int32 [windows, (tokens)]; of a pair, the first is repeated in each window
    rows: tf.Tensor  # int64 [windows], the row of each window, ascending
    starts: tf.Tensor  # int64 [windows], the index of each window's first token in the last segment
    counts: tf.Tensor  # int64 [batch], the number of windows of each row, at least 1


def windows(segments: Sequence[tf.RaggedTensor], max_tokens: tf.Tensor | int, stride: int) -> Windows:
    """Splits the last segment of each row into windows that fit, together with the first segment if there are two.

    A window begins `stride` tokens after the one before it, or at its end if it is shorter than the stride. The last
    window ends with the segment. `segments` are ragged integers `[batch, (tokens)]`. In a pair, the first segment is
    cut to half of `max_tokens`, the limit for both together.

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

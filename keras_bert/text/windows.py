"""Segments too long for a row -> several rows that overlap (Devlin et al. 2018 call it a sliding window, for SQuAD)."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from keras_bert.text.packing import first_pieces


class Windows(NamedTuple):
    """Windows over the last segment of each row.

    Attributes:
        segments: as many as were given, each ragged int32 `[windows, (pieces)]`: the windows of a row one after the
            other; a first segment is repeated in each.
        rows: int64 `[windows]`: of which row.
        starts: int64 `[windows]`: how many pieces of the row's last segment come before the window.
        counts: int64 `[batch]`: the number of windows of each row, at least 1.
    """

    segments: list[tf.RaggedTensor]
    rows: tf.Tensor
    starts: tf.Tensor
    counts: tf.Tensor


def windows(segments: Sequence[tf.RaggedTensor], max_pieces: tf.Tensor | int, stride: int) -> Windows:
    """Cuts the last segment of each row into windows, so that with the first one, if there are two, each of them fits.

    A window begins `stride` pieces after the one before it (and sooner where windows are shorter than that: no piece
    is lost), and the last one ends where the segment does.

    Args:
        segments: one or two ragged integer tensors `[batch, (pieces)]`. The first of two is cut to half of
            `max_pieces`.
        max_pieces: how many pieces the segments of a row may have together, at least 2.
        stride: at least 1.

    Example:
        >>> question, context = tf.ragged.constant([[1, 2]]), tf.ragged.constant([[3, 4, 5, 6, 7, 8]])
        >>> cut = windows([question, context], max_pieces=6, stride=2)
        >>> cut.segments[1].to_list(), cut.starts.numpy()
        ([[3, 4, 5, 6], [5, 6, 7, 8]], array([0, 2]))
    """
    *first, last = segments
    most = tf.cast(max_pieces, tf.int64)
    first = [first_pieces(each, tf.minimum(_lengths(each), most // 2)) for each in first]
    lengths = _lengths(last)  # [batch]
    room = most - tf.add_n([_lengths(each) for each in first]) if first else tf.fill(tf.shape(lengths), most)
    step = tf.minimum(tf.cast(stride, tf.int64), room)
    counts = 1 + (tf.maximum(lengths - room, 0) + step - 1) // step
    rows = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)  # [windows]
    starts = tf.ragged.range(counts).values * tf.gather(step, rows)
    pieces = tf.minimum(tf.gather(room, rows), tf.gather(lengths, rows) - starts)
    from_value = tf.gather(tf.cast(last.row_starts(), tf.int64), rows) + starts
    values = tf.gather(last.values, tf.ragged.range(from_value, from_value + pieces).values)
    window = tf.RaggedTensor.from_row_lengths(values, pieces, validate=False)
    return Windows([*(tf.gather(each, rows) for each in first), window], rows, starts, counts)


def _lengths(segment: tf.RaggedTensor) -> tf.Tensor:
    return tf.cast(segment.row_lengths(), tf.int64)

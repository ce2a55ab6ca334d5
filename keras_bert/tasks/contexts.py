"""Questions and contexts -> rows for a model; pieces of a context <-> characters. In the graph, for a server too."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.tasks.long_text import most_context
from keras_bert.text import BertPreprocessor
from keras_bert.text.windows import windows


class Contexts(NamedTuple):
    """Questions, and the windows of their contexts.

    Attributes:
        segments: three ragged int32 tensors `[windows, (pieces)]`: the question, cut to half of a row; the window; and
            for each piece of the window 1 if this is the window where it has the most context, else 0.
        rows: int64 `[windows]`: of which question.
        begins: int64 `[windows]`: how many pieces of the context come before the window.
        starts, ends: ragged int64 `[batch, (pieces)]`: the bytes of each piece of the contexts.
    """

    segments: tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]
    rows: tf.Tensor
    begins: tf.Tensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


def read_contexts(preprocessor: BertPreprocessor, questions: tf.Tensor, contexts: tf.Tensor) -> Contexts:
    """Tokenizes, and cuts into windows that fit into a row together with the question.

    Args:
        preprocessor: has a stride.
        questions, contexts: string `[batch]`.
    """
    tokenizer = preprocessor.tokenizer
    pieces, starts, ends = tokenizer.tokenize_with_offsets(contexts)
    longest = preprocessor.sequence_length or preprocessor.max_sequence_length
    room = longest - tokenizer.pair_format.special_tokens(2)
    cut = windows([tokenizer.tokenize(questions), pieces], room, preprocessor.stride)
    question, window = cut.segments
    is_best = tf.cast(most_context(cut.rows, cut.starts, window.row_lengths()), tf.int32)
    return Contexts((question, window, is_best), cut.rows, cut.starts, starts, ends)


def row_lengths(preprocessor: BertPreprocessor, read: Contexts) -> tf.Tensor:
    """int64 `[windows]`: pieces of each row, with its special tokens."""
    question, window, _ = read.segments
    return pieces_before(preprocessor, question) + window.row_lengths() + 1


def pieces_before(preprocessor: BertPreprocessor, questions: tf.RaggedTensor) -> tf.Tensor:
    """int64 `[windows]`: pieces of each row that come before its window, with their special tokens."""
    return 1 + questions.row_lengths() + preprocessor.tokenizer.pair_format.separators


def pieces_of(read: Contexts, starts: tf.Tensor, ends: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Bytes of each context -> the first and the last of the pieces that have some of them.

    Args:
        read: the contexts.
        starts, ends: int64 `[batch]`, the end exclusive.

    Returns:
        int64 `[batch]` twice. The last is before the first if there is no such piece.
    """
    piece = tf.ragged.range(read.starts.row_lengths()).values  # [pieces], the number in its context
    row, batch = read.starts.value_rowids(), read.starts.nrows()
    touches = (read.ends.values > tf.gather(starts, row)) & (read.starts.values < tf.gather(ends, row))
    piece, row = tf.boolean_mask(piece, touches), tf.boolean_mask(row, touches)
    return tf.math.unsorted_segment_min(piece, row, batch), tf.math.unsorted_segment_max(piece, row, batch)


def span_targets(
    preprocessor: BertPreprocessor, read: Contexts, starts: np.ndarray, ends: np.ndarray
) -> tuple[tf.Tensor, np.ndarray]:
    """Where in their packed windows answers are.

    Args:
        preprocessor: packs them.
        read: the contexts.
        starts, ends: int64 `[batch]`, in bytes, the end exclusive; equal where there is no answer.

    Returns:
        int32 `[windows, 2]`: the places of the first and last piece in the row; 0 and 0, `[CLS]`, in a window that does
        not have all of the answer (run_squad.py of google-research/bert, `convert_examples_to_features`).
        int64 `[lost]`: the numbers of answers of which the tokenizer leaves nothing.
    """
    firsts, lasts = pieces_of(read, starts, ends)  # [batch]
    first, last = (tf.gather(each, read.rows) - read.begins for each in (firsts, lasts))  # [windows]
    question, window, _ = read.segments
    is_inside = tf.gather(firsts <= lasts, read.rows) & (first >= 0) & (last < window.row_lengths())
    place = tf.stack([first, last], axis=1) + pieces_before(preprocessor, question)[:, None]
    targets = tf.cast(tf.where(is_inside[:, None], place, 0), tf.int32)
    return targets, np.flatnonzero((starts < ends) & (firsts > lasts))


def bytes_of(read: Contexts, firsts: tf.Tensor, lasts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Pieces of each context -> the bytes from the first to the last of them.

    Args:
        read: the contexts.
        firsts, lasts: int `[batch, count]`. What is no piece becomes 0 and 0.

    Returns:
        int64 `[batch, count]` twice, the end exclusive.
    """
    lengths = read.starts.row_lengths()[:, None]
    firsts, lasts = tf.cast(firsts, tf.int64), tf.cast(lasts, tf.int64)
    are_pieces = (firsts >= 0) & (firsts <= lasts) & (lasts < lengths)
    # One more, at the end, for what is no piece: there may be none at all.
    starts, ends = (tf.concat([each.values, [0]], 0) for each in (read.starts, read.ends))
    origin, nowhere = read.starts.row_starts()[:, None], tf.size(starts, tf.int64) - 1
    return (
        tf.gather(starts, tf.where(are_pieces, origin + firsts, nowhere)),
        tf.gather(ends, tf.where(are_pieces, origin + lasts, nowhere)),
    )


def characters_of(texts: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Bytes -> characters (code points, as Python counts): all that have some of these bytes.

    Args:
        texts: string `[batch]`, UTF-8.
        starts, ends: int64 `[batch, count]`, the end exclusive. A piece of byte pairs may be a part of a character.

    Returns:
        int32 `[batch, count]` twice, the end exclusive.

    Example:
        >>> place = tf.constant([[5]], tf.int64), tf.constant([[9]], tf.int64)
        >>> [each.numpy().tolist() for each in characters_of(["Zoë 😀"], *place)]
        [[[4]], [[5]]]
    """
    texts = tf.tile(tf.convert_to_tensor(texts)[:, None], [1, tf.shape(starts)[1]])  # [batch, count]

    def characters_before(place: tf.Tensor) -> tf.Tensor:
        before = tf.strings.substr(texts, tf.zeros_like(place), place)
        return tf.strings.length(before, unit="UTF8_CHAR")  # counts first bytes

    start = tf.where(starts == ends, characters_before(starts), characters_before(starts + 1) - 1)
    return start, characters_before(ends)

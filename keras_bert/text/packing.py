"""Packs segments of ids into the three dense tensors that a BERT encoder reads."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import tensorflow as tf

from keras_bert.text.arguments import check_many
from keras_bert.text.pairs import BERT_PAIRS, PairFormat, kept_head, kept_tokens
from keras_bert.text.strings import require

Ids = Sequence[int] | Sequence[Sequence[int]] | np.ndarray | tf.Tensor | tf.RaggedTensor


def as_ids(ids: Ids, ragged_rank: int | None = None) -> tf.Tensor | tf.RaggedTensor:
    """Converts lists or arrays to ragged int64 `[batch, (tokens)]` or, without a `ragged_rank` of 1, `[tokens]`."""
    tensor = cast("tf.Tensor | tf.RaggedTensor", ids)
    if not tf.is_tensor(ids):
        if not isinstance(ids, np.ndarray):
            check_many(ids, "ids", "list of ids")
        try:
            tensor = tf.ragged.constant(ids, dtype=tf.int64, ragged_rank=ragged_rank)
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"ids are {ids!r:.60}; expected integers: for each text, a list of its ids") from None
    if not tensor.dtype.is_integer or tensor.shape.rank not in (1, 2) or (ragged_rank and tensor.shape.rank != 2):
        raise ValueError(f"got {tensor.dtype.name} of shape {tensor.shape}; expected integer ids [batch, (tokens)]")
    return tensor


def count_tokens(packed: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Counts the tokens of each row of packed inputs, in all its windows, special tokens included: int32 `[batch]`."""
    mask = packed["input_mask"]
    return tf.reduce_sum(mask, axis=[*range(1, len(mask.shape))])


def truncate(
    segments: Sequence[tf.RaggedTensor], max_tokens: tf.Tensor | int, truncation: str = "longest_first"
) -> list[tf.RaggedTensor]:
    """Shortens one or two segments, ragged integers `[batch, (tokens)]`, to `max_tokens` tokens per row in total.

    `truncation` is one of

    - `"longest_first"`: the longer segment loses its last token until both fit, the second one on a tie
      (`_truncate_seq_pair` of the original BERT), so the first gets the odd place of a room that both fill;
    - `"odd_to_longer"`: the same, but the odd place goes to the longer segment, to the second one on a tie (Hugging
      Face's `tokenizers`);
    - `"round_robin"`: the segments get room in turn, token by token (TF Hub's preprocessing models). For two segments
      this equals `"longest_first"`;
    - `"waterfall"`: the first segment gets all the room that it needs, and the second gets the rest. Use it if the
      first text, such as a question, must stay whole;
    - `"head_tail"`: lengths as under `"longest_first"`, but a long segment loses its middle: a quarter of the kept
      tokens is from its beginning, the rest from its end. Use it to classify long documents (Sun et al. 2019, section
      5.3.1);
    - `"error"`: a row that does not fit raises ValueError (in a graph, tf.errors.InvalidArgumentError).

    Example:
        >>> pair = tf.ragged.constant([[1, 2, 3, 4, 5]]), tf.ragged.constant([[6, 7]])
        >>> [segment.to_list() for segment in truncate(pair, 5)]
        [[[1, 2, 3]], [[6, 7]]]
    """
    lengths = [_row_lengths(segment) for segment in segments]  # each [batch]
    room = tf.cast(max_tokens, tf.int64)
    if truncation == "error":
        total = tf.add_n(lengths)
        too_long = tf.where(total > room)[:1, 0]
        message = "too long, and truncation is error: the row, its tokens, and the limit without special tokens, are"
        require(tf.equal(tf.size(too_long), 0), message, too_long, tf.gather(total, too_long), room)
        return list(segments)
    kept = kept_tokens(lengths, room, truncation, tf)
    if truncation != "head_tail":
        return [first_tokens(segment, count) for segment, count in zip(segments, kept, strict=True)]
    heads = [kept_head(count, length, tf) for count, length in zip(kept, lengths, strict=True)]
    return [_ends(segment, head, count - head) for segment, head, count in zip(segments, heads, kept, strict=True)]


def first_tokens(segment: tf.RaggedTensor, count: tf.Tensor) -> tf.RaggedTensor:
    """Takes the first `count` values of each row; `count` is int64 `[batch]`."""
    starts = tf.cast(segment.row_starts(), tf.int64)
    values = tf.gather(segment.values, tf.ragged.range(starts, starts + count).values)
    return tf.RaggedTensor.from_row_lengths(values, count, validate=False)


def _ends(segment: tf.RaggedTensor, head: tf.Tensor, tail: tf.Tensor) -> tf.RaggedTensor:
    """Takes the first `head` and the last `tail` values of each row, int64 `[batch]`."""
    starts, ends = (tf.cast(limit, tf.int64) for limit in (segment.row_starts(), segment.row_limits()))
    rows = tf.concat([tf.ragged.range(starts, starts + head), tf.ragged.range(ends - tail, ends)], axis=1)
    return tf.RaggedTensor.from_row_lengths(tf.gather(segment.values, rows.values), head + tail, validate=False)


def pack(
    segments: Sequence[tf.RaggedTensor],
    sequence_length: tf.Tensor | int,
    cls_id: int,
    sep_id: int,
    pad_id: int,
    pair_format: PairFormat = BERT_PAIRS,
    unk_id: int = -1,
) -> dict[str, tf.Tensor]:
    """Packs segments, one or two ragged int32 `[batch, (tokens)]` that fit, into padded rows: `[CLS] a [SEP]`."""
    # Returns int32 `[batch, sequence_length]` each: `input_word_ids`; `input_mask`, 1 for a token and 0 for padding;
    # `input_type_ids`, the format's `second_type_id` for the second segment with its special tokens, else 0. The format
    # may leave out `[CLS]` and `[SEP]`, and mask unknown tokens.
    batch = segments[0].nrows()
    cls, sep = tf.fill([batch, 1], cls_id), tf.fill([batch, 1], sep_id)
    first, *second = (tf.cast(segment, tf.int32) for segment in segments)
    between = [sep] * pair_format.separators + [cls] * pair_format.second_cls
    parts = [cls, first, *(between if second else []), *second, sep]
    row = tf.concat(parts if pair_format.packing == "special" else [first, *second], axis=1)
    shape = tf.stack([-1, sequence_length]) if tf.is_tensor(sequence_length) else [None, sequence_length]
    word_ids = row.to_tensor(pad_id, shape=shape)
    mask = tf.sequence_mask(row.row_lengths(), sequence_length, tf.int32)
    if pair_format.packing == "known":
        mask *= tf.cast(word_ids != unk_id, tf.int32)
    if not second or pair_format.packing != "special":
        type_ids = tf.zeros_like(mask)
    else:
        before = 1 + first.row_lengths() + pair_format.separators
        type_ids = (mask - tf.sequence_mask(before, sequence_length, tf.int32)) * pair_format.second_type_id
    return {"input_word_ids": word_ids, "input_mask": mask, "input_type_ids": type_ids}


# -- Splits long segments into overlapping windows (as the code of Devlin et al. 2018 does for SQuAD).


class Windows(NamedTuple):
    """Windows over the last segment of each row."""

    segments: list[tf.RaggedTensor]  # int32 [windows, (tokens)]; of a pair, the first is repeated in each window
    rows: tf.Tensor  # int64 [windows], the row of each window, ascending
    starts: tf.Tensor  # int64 [windows], the index of each window's first token in the last segment
    counts: tf.Tensor  # int64 [batch], the number of windows of each row, at least 1


def windows(segments: Sequence[tf.RaggedTensor], max_tokens: tf.Tensor | int, stride: int) -> Windows:
    """Splits the last segment of each row, ragged `[batch, (tokens)]`, into windows, each with a pair's first."""
    # A window begins `stride` tokens after the one before it, or where that one ends if it is shorter. The last window
    # ends with the segment. `max_tokens` limits both of a pair together; the first is truncated to half of it.
    *first, last = segments
    most = tf.cast(max_tokens, tf.int64)
    first = [first_tokens(each, tf.minimum(_row_lengths(each), most // 2)) for each in first]
    lengths = _row_lengths(last)  # [batch]
    room = most - tf.add_n([_row_lengths(each) for each in first]) if first else tf.fill(tf.shape(lengths), most)
    step = tf.minimum(tf.cast(stride, tf.int64), room)
    counts = 1 + (tf.maximum(lengths - room, 0) + step - 1) // step
    rows = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)  # [windows]
    starts = tf.ragged.range(counts).values * tf.gather(step, rows)
    tokens = tf.minimum(tf.gather(room, rows), tf.gather(lengths, rows) - starts)
    value_starts = tf.gather(tf.cast(last.row_starts(), tf.int64), rows) + starts
    values = tf.gather(last.values, tf.ragged.range(value_starts, value_starts + tokens).values)
    window = tf.RaggedTensor.from_row_lengths(values, tokens, validate=False)
    return Windows([*(tf.gather(each, rows) for each in first), window], rows, starts, counts)


def _row_lengths(segment: tf.RaggedTensor) -> tf.Tensor:
    return tf.cast(segment.row_lengths(), tf.int64)

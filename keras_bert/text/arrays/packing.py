"""Packs lists of ids into the arrays that a BERT encoder reads: `packing.py` in NumPy, without TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from keras_bert.text.pairs import PairFormat, kept_head, kept_tokens

Column = Sequence[Sequence[int]]  # the ids of one text of each row, without special tokens


def lengths_of(column: Column) -> np.ndarray:
    """Counts the tokens of each row, int64 `[batch]`."""
    return np.fromiter(map(len, column), np.int64, len(column))


def truncate(segments: Sequence[Column], room: int, truncation: str) -> Sequence[Column]:
    """Shortens one or two segments to `room` tokens per row in total; see `packing.truncate`."""
    if max((sum(map(len, row)) for row in zip(*segments, strict=True)), default=0) <= room:
        return segments
    lengths = [lengths_of(column) for column in segments]
    if truncation == "error":
        total = np.sum(lengths, axis=0)
        row = int(np.argmax(total > room))
        raise ValueError(
            f"row {row} (from 0) is too long, and truncation is error: it has {total[row]} tokens, and the limit "
            f"without special tokens is {room}"
        )
    kept = kept_tokens(lengths, room, truncation, np)
    shortened = []
    for column, before, count in zip(segments, lengths, kept, strict=True):
        column, heads = list(column), kept_head(count, before, np) if truncation == "head_tail" else count
        for row in np.flatnonzero(count < before).tolist():
            ids, head = column[row], int(heads[row])
            column[row] = [*ids[:head], *ids[len(ids) - (int(count[row]) - head) :]]
        shortened.append(column)
    return shortened


def pack(
    segments: Sequence[Column],
    sequence_length: int | None,
    longest: int,
    multiple: int,
    cls_id: int,
    sep_id: int,
    pad_id: int,
    pair_format: PairFormat,
    unk_id: int = -1,
) -> dict[str, np.ndarray]:
    """Packs segments that fit into rows as `packing.pack`; None: as long as the longest, up to a `multiple`."""
    first, *second = segments
    if pair_format.packing != "special":
        rows = [[*chain(*texts)] for texts in zip(*segments, strict=True)]
    elif second:
        between = [*[sep_id] * pair_format.separators, *[cls_id] * pair_format.second_cls]
        pairs = zip(first, second[0], strict=True)
        rows = [[cls_id, *ids, *between, *others, sep_id] for ids, others in pairs]
    else:
        rows = [[cls_id, *ids, sep_id] for ids in first]
    lengths = [*map(len, rows)]
    if sequence_length is None:
        length = max(3, *lengths, 0)
        sequence_length = min((length + multiple - 1) // multiple * multiple, longest)
    shape = len(rows), sequence_length
    if lengths.count(sequence_length) == len(rows):  # no padding, as of one text: fewer operations
        word_ids, mask = np.array(rows, np.int32).reshape(shape), np.ones(shape, np.int32)
    else:
        is_token = np.arange(sequence_length) < np.array(lengths)[:, None]
        word_ids, mask = np.full(shape, pad_id, np.int32), is_token.astype(np.int32)
        word_ids[is_token] = np.fromiter(chain.from_iterable(rows), np.int32, sum(lengths))
    if pair_format.packing == "known":
        mask *= word_ids != unk_id
    type_ids = np.zeros(shape, np.int32)
    if second and pair_format.second_type_id and pair_format.packing == "special":
        before = 1 + lengths_of(first)[:, None] + pair_format.separators
        type_ids = mask * (np.arange(sequence_length) >= before) * np.int32(pair_format.second_type_id)
    return {"input_word_ids": word_ids, "input_mask": mask, "input_type_ids": type_ids}


class Windows(NamedTuple):
    """Windows over the last text of each row."""

    rows: np.ndarray  # int64 [windows], the row of each window, ascending
    starts: np.ndarray  # int64 [windows], the index of each window's first token in the last text
    segments: tuple[Column, ...]  # the ids of each window; of a pair, the first text is repeated in each


def windows(segments: Sequence[Column], room: int, stride: int) -> Windows:
    """Splits the last segment of each row into windows that fit, with the first of a pair; see `packing.windows`."""
    *first, last = segments
    first = [[ids[: room // 2] for ids in column] for column in first]
    lengths = lengths_of(last)
    rooms = room - sum(map(lengths_of, first), np.zeros_like(lengths))
    steps = np.minimum(stride, rooms)
    counts = 1 + -(-np.maximum(lengths - rooms, 0) // steps)
    rows = np.repeat(np.arange(len(counts)), counts)
    starts = (np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)) * steps[rows]
    bounds = zip(rows.tolist(), starts.tolist(), (starts + rooms[rows]).tolist(), strict=True)
    window = [last[row][start:end] for row, start, end in bounds]
    return Windows(rows, starts, (*([column[row] for row in rows.tolist()] for column in first), window))


def most_context(windows: Windows) -> list[np.ndarray]:
    """Finds the window in which each token of a row has the most context, bool `[tokens]` for each window."""
    lengths = lengths_of(windows.segments[-1])
    if not len(lengths):
        return []
    window = np.repeat(np.arange(len(lengths)), lengths)  # of each token of each window
    position = np.arange(len(window)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    # A token of a row has the same key in all its windows.
    key = windows.rows[window] * (windows.starts + lengths).max() + windows.starts[window] + position
    # As `_check_is_max_context` of google-research/bert (run_squad.py): the first of equal windows wins.
    score = 100 * np.minimum(position, lengths[window] - 1 - position) + lengths[window]
    order = np.lexsort((window, -score, key))
    is_best = np.zeros(len(window), bool)
    is_best[order[np.diff(key[order], prepend=-1) != 0]] = True
    return np.split(is_best, np.cumsum(lengths)[:-1])

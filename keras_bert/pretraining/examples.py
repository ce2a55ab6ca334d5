"""Makes pre-training examples from documents (Devlin et al. 2018, appendix A.2; Lan et al. 2020, section 3.1)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.choices import OBJECTIVES, check_choice


class PretrainingExamples(NamedTuple):
    """The result of `make_examples`."""

    segments: tuple[tf.RaggedTensor, ...]  # one or two int32 [examples, (tokens)], without special tokens
    labels: np.ndarray | None  # int32 [examples]: 0 if the second segment follows the first, else 1; None without pairs
    cut: int  # the number of tokens in no example: cut off a long pair, or alone in their document


def make_examples(
    tokens: tf.RaggedTensor,
    document_lengths: np.ndarray,
    room: int,
    objective: str = "next_sentence",
    seed: int | list[int] = 0,
    shorter: float = 0.1,
) -> PretrainingExamples:
    """Fills sequences with the sentences of documents, and shuffles the sequences.

    Args:
        tokens: int32 `[sentences, (tokens)]`, document after document.
        document_lengths: int `[documents]`: the number of sentences in each document.
        room: the number of tokens in a sequence, without special tokens.
        objective: the kind of sequence:
            - "next_sentence" (BERT): two segments. In half of the examples, the second follows the first. In the
              others, it is from another document.
            - "sentence_order" (ALBERT): two successive segments, swapped in half of the examples.
            - "sentences" (RoBERTa's DOC-SENTENCES: Liu et al. 2019, section 4.2): one segment, with as many whole
              sentences of a document as fit.
        seed: the same seed gives the same examples.
        shorter: the share of pairs with a random shorter length, so that the model sees short sequences.

    Raises:
        ValueError: the objective is unknown, or "next_sentence" has only one document.

    Example:
        >>> tokens = tf.ragged.constant([[1, 2], [3], [4, 5, 6], [7], [8, 9]])  # five sentences, two documents
        >>> examples = make_examples(tokens, np.array([3, 2]), room=6, objective="sentences")
        >>> sorted(examples.segments[0].to_list())
        [[1, 2, 3, 4, 5, 6], [7, 8, 9]]
    """
    check_choice("objective", objective, OBJECTIVES)
    generator = np.random.default_rng(seed)
    documents = _find_sentence_borders(tokens, document_lengths, room)
    if objective == "next_sentence" and len(documents) == 1:
        raise ValueError("there is only one document, but next_sentence needs several; add documents")
    if objective == "sentences":
        sentence_spans = [span for borders in documents for span in _group_whole_sentences(borders, room)]
        spans, labels, cut = np.array(sentence_spans, np.int64).reshape(-1, 1, 2), None, 0
    else:
        make_rows = _make_next_sentence_rows if objective == "next_sentence" else _make_sentence_order_rows
        rows = [row for i in range(len(documents)) for row in make_rows(documents, i, room, shorter, generator)]
        spans = np.array([row[:4] for row in rows], np.int64).reshape(-1, 2, 2)
        labels = np.array([row[4] for row in rows], np.int32)
        spans, cut = _shorten_pairs(spans, room, generator)
        if objective == "sentence_order":  # a document may end with a single token
            cut = len(tokens.values) - int(np.sum(spans[:, :, 1] - spans[:, :, 0]))
    order = generator.permutation(len(spans))
    segments = tuple(_gather_ranges(tokens.values, *each) for each in spans[order].transpose(1, 2, 0))
    return PretrainingExamples(segments, None if labels is None else labels[order], cut)


def _find_sentence_borders(tokens: tf.RaggedTensor, document_lengths: np.ndarray, room: int) -> list[np.ndarray]:
    """Finds the first start and all ends of the sentences in each document with tokens; splits long sentences."""
    splits = tokens.row_splits.numpy()
    document_ends = np.concatenate([[0], np.cumsum(document_lengths)])
    documents = []
    for first, last in itertools.pairwise(document_ends):
        borders = np.unique(splits[first : last + 1])  # no sentence is empty
        too_long = np.flatnonzero(np.diff(borders) > room)
        pieces = (np.arange(int(borders[i]), int(borders[i + 1]), room) for i in too_long)
        borders = np.unique(np.concatenate([borders, *pieces]))
        if len(borders) > 1:
            documents.append(borders)
    return documents


def _group_whole_sentences(borders: np.ndarray, room: int) -> Iterator[tuple[int, int]]:
    i = 0
    while i < len(borders) - 1:
        j = int(np.searchsorted(borders, borders[i] + room, side="right")) - 1
        yield borders[i], borders[j]
        i = j


def _find_chunk_end(borders: np.ndarray, i: int, target: int) -> int:
    """Finds the end of a chunk: it begins with sentence `i`, and has at least `target` tokens or all that are left."""
    return min(int(np.searchsorted(borders, borders[i] + target)), len(borders) - 1)


def _draw_target_length(room: int, shorter: float, generator: np.random.Generator) -> int:
    return int(generator.integers(2, room + 1)) if generator.random() < shorter else room


def _make_next_sentence_rows(
    documents: list[np.ndarray], number: int, room: int, shorter: float, generator: np.random.Generator
) -> Iterator[tuple[int, ...]]:
    """Yields rows `(start, end, second start, second end, label)` of one document, as Google's code makes them."""
    borders, i = documents[number], 0
    while i < len(borders) - 1:
        target = _draw_target_length(room, shorter, generator)
        last = _find_chunk_end(borders, i, target)
        middle = i + 1 if last - i < 2 else i + int(generator.integers(1, last - i))
        if last - i > 1 and generator.random() < 0.5:
            yield borders[i], borders[middle], borders[middle], borders[last], 0
            i = last
        else:
            other = (number + int(generator.integers(1, len(documents)))) % len(documents)
            other_borders = documents[other]
            start = int(generator.integers(len(other_borders) - 1))
            stop = _find_chunk_end(other_borders, start, max(target - int(borders[middle] - borders[i]), 1))
            yield borders[i], borders[middle], other_borders[start], other_borders[stop], 1
            i = middle  # the next chunk begins with the unused sentences


def _make_sentence_order_rows(
    documents: list[np.ndarray], number: int, room: int, shorter: float, generator: np.random.Generator
) -> Iterator[tuple[int, ...]]:
    """Yields rows as `_make_next_sentence_rows` does. A chunk of one sentence is split inside the sentence."""
    borders, i = documents[number], 0
    while i < len(borders) - 1:
        last = _find_chunk_end(borders, i, _draw_target_length(room, shorter, generator))
        inside = np.arange(borders[i] + 1, borders[last]) if last - i < 2 else borders[i + 1 : last]
        if len(inside):  # not for a single token
            middle = generator.choice(inside)
            segments = (borders[i], middle, middle, borders[last])
            yield (*segments, 0) if generator.random() < 0.5 else (*segments[2:], *segments[:2], 1)
        i = last


def _shorten_pairs(spans: np.ndarray, room: int, generator: np.random.Generator) -> tuple[np.ndarray, int]:
    """Shortens long pairs token by token, at a random end of the longer segment; also counts the cut tokens."""
    lengths = spans[:, :, 1] - spans[:, :, 0]  # [examples, 2]
    first = np.clip(room - lengths[:, 1], (room + 1) // 2, None)  # at least half; more if the second is short
    kept = np.minimum(lengths, np.stack([first, room - np.minimum(lengths[:, 0], first)], axis=1))
    excess = lengths - kept
    head_cut = generator.binomial(excess, 0.5)
    return np.stack([spans[:, :, 0] + head_cut, spans[:, :, 1] - (excess - head_cut)], axis=2), int(excess.sum())


def _gather_ranges(values: tf.Tensor, starts: np.ndarray, ends: np.ndarray) -> tf.RaggedTensor:
    lengths = ends - starts
    splits = np.concatenate([[0], np.cumsum(lengths)])
    index = np.arange(splits[-1]) + np.repeat(starts - splits[:-1], lengths)
    return tf.RaggedTensor.from_row_splits(tf.gather(values, index), splits, validate=False)


# -- Packs several short texts into each sequence.

_MAX_UNFILLED = 64  # the largest number of unfilled sequences at a time


def group_into_sequences(lengths: np.ndarray, room: int) -> list[list[int]]:
    """Lists the texts of each sequence, by index. A text goes into the fullest sequence that has room for it."""
    full: list[list[int]] = []
    unfilled: list[tuple[int, list[int]]] = []  # the room that is left, and the texts
    for number, length in enumerate(lengths):
        fitting = [each for each in unfilled if each[0] >= length]
        best = min(fitting, key=lambda each: each[0], default=(room, []))
        if fitting:
            unfilled.remove(best)
        best[1].append(number)
        unfilled.append((best[0] - int(length), best[1]))
        if len(unfilled) > _MAX_UNFILLED:
            fullest = min(unfilled, key=lambda each: each[0])
            unfilled.remove(fullest)
            full.append(fullest[1])
    return sorted(full + [texts for _, texts in unfilled])


def join_rows(packed: dict[str, tf.Tensor], counts: tf.Tensor, pad_id: int = 0) -> dict[str, tf.Tensor]:
    """Joins rows of one text into rows of `counts` texts, and adds the number of each token's text, 0 at padding."""
    lengths = tf.reduce_sum(packed["input_mask"], axis=1)
    row_ids = tf.ragged.range(1, counts + 1).values  # [rows]
    document_ids = tf.cast(row_ids[:, None], tf.int32) * packed["input_mask"]
    joined_rows = {}
    for name, value in {**packed, "input_document_ids": document_ids}.items():
        texts = tf.RaggedTensor.from_row_lengths(tf.RaggedTensor.from_tensor(value, lengths), counts)
        padding = pad_id if name == "input_word_ids" else 0
        joined_rows[name] = texts.merge_dims(1, 2).to_tensor(padding, shape=[None, value.shape[1]])
    return joined_rows

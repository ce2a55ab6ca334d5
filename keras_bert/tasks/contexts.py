"""Questions and contexts: checks, rows for a model, tokens and characters. TensorFlow ops only, so it can be served."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.tasks.long_text import most_context
from keras_bert.text import BertPreprocessor
from keras_bert.text.arguments import list_of_str
from keras_bert.text.packing import windows


def checked_questions(questions: Any, contexts: Any) -> tuple[list[str], list[str]]:
    """Two lists of the same length, of str that are not empty. Raises TypeError or ValueError."""
    if isinstance(questions, str) or isinstance(contexts, str):
        raise TypeError("one of question and context is a str, the other is not; pass two str, or two lists")
    questions, contexts = list_of_str(questions, "question", "question"), list_of_str(contexts, "context", "context")
    if len(questions) != len(contexts):
        raise ValueError(f"there are {len(questions):,} questions, but {len(contexts):,} contexts")
    for name, texts in (("question", questions), ("context", contexts)):
        for number, text in enumerate(texts):
            if not text or text.isspace():
                raise ValueError(f"{name} {number} (from 0) is empty")
    return questions, contexts


def bytes_of_answer(number: int, context: str, answers: Any) -> tuple[int, int]:
    """The first answer's byte offsets in the context; the end is exclusive. -1 and -1 if there is no answer."""
    check_answers(number, answers)
    if not answers:
        return -1, -1
    text, start = answers[0]
    if not text or start < 0 or not context.startswith(text, start):
        raise ValueError(f"question {number} (from 0): its answer {text!r} is not at character {start} of its context")
    first = len(context[:start].encode())
    return first, first + len(text.encode())


def check_answers(number: int, answers: Any) -> None:
    """Raises ValueError if the answers to a question are no pairs of a text and its start."""
    if isinstance(answers, str) or not isinstance(answers, Sequence) or not all(map(_is_answer, answers)):
        raise ValueError(
            f"the answers to question {number} (from 0) are {answers!r:.60}; expected [(text, start), ...]"
        )


def _is_answer(answer: Any) -> bool:
    is_pair = isinstance(answer, tuple | list) and len(answer) == 2
    return is_pair and isinstance(answer[0], str) and isinstance(answer[1], Integral)


class Contexts(NamedTuple):
    """Questions, and the windows of their contexts.

    Attributes:
        segments: three ragged int32 tensors `[windows, (tokens)]`: the question, cut to half of a row; the window; and
            a mask: 1 for the tokens that have the most context in this window, else 0.
        rows: int64 `[windows]`: the index of the question.
        begins: int64 `[windows]`: the index of the window's first token in the context.
        starts, ends: ragged int64 `[batch, (tokens)]`: byte offsets of the contexts' tokens.
    """

    segments: tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]
    rows: tf.Tensor
    begins: tf.Tensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


def read_contexts(preprocessor: BertPreprocessor, questions: tf.Tensor, contexts: tf.Tensor) -> Contexts:
    """Tokenizes, and splits contexts into windows, each of which fits into a row with the question.

    Args:
        preprocessor: one with a stride.
        questions, contexts: string `[batch]`.
    """
    tokenizer = preprocessor.tokenizer
    tokens, starts, ends = tokenizer.tokenize_with_offsets(contexts)
    room = preprocessor.longest - tokenizer.pair_format.special_tokens(2)
    cut = windows([tokenizer.tokenize(questions), tokens], room, preprocessor.stride)
    question, window = cut.segments
    is_best = tf.cast(most_context(cut.rows, cut.starts, window.row_lengths()), tf.int32)
    return Contexts((question, window, is_best), cut.rows, cut.starts, starts, ends)


def row_lengths(preprocessor: BertPreprocessor, read: Contexts) -> tf.Tensor:
    """int64 `[windows]`: the number of tokens of each row, special tokens included."""
    question, window, _ = read.segments
    return tokens_before(preprocessor, question) + window.row_lengths() + 1


def tokens_before(preprocessor: BertPreprocessor, questions: tf.RaggedTensor) -> tf.Tensor:
    """int64 `[windows]`: the number of tokens before the window in each row, special tokens included."""
    return 1 + questions.row_lengths() + preprocessor.tokenizer.pair_format.between


def tokens_of(read: Contexts, starts: tf.Tensor, ends: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """A span of bytes in each context -> the first and the last token that overlap it.

    Args:
        read: the contexts.
        starts, ends: int64 `[batch]`; the end is exclusive.

    Returns:
        int64 `[batch]` twice. The last is before the first if there is no such token.
    """
    token = tf.ragged.range(read.starts.row_lengths()).values  # [tokens], the index in the context
    row, batch = read.starts.value_rowids(), read.starts.nrows()
    touches = (read.ends.values > tf.gather(starts, row)) & (read.starts.values < tf.gather(ends, row))
    token, row = tf.boolean_mask(token, touches), tf.boolean_mask(row, touches)
    return tf.math.unsorted_segment_min(token, row, batch), tf.math.unsorted_segment_max(token, row, batch)


def span_targets(
    preprocessor: BertPreprocessor, read: Contexts, starts: np.ndarray, ends: np.ndarray
) -> tuple[tf.Tensor, np.ndarray]:
    """The positions of the answers in their packed windows.

    Args:
        preprocessor: the one that packs them.
        read: the contexts.
        starts, ends: int64 `[batch]`, in bytes; the end is exclusive. Both are equal if there is no answer.

    Returns:
        int32 `[windows, 2]`: positions of the first and last token in the row; 0 and 0, the position of `[CLS]`, if the
        window does not hold the whole answer (run_squad.py of google-research/bert, `convert_examples_to_features`).
        int64 `[lost]`: the indices of answers that have no token.
    """
    firsts, lasts = tokens_of(read, starts, ends)  # [batch]
    first, last = (tf.gather(each, read.rows) - read.begins for each in (firsts, lasts))  # [windows]
    question, window, _ = read.segments
    is_inside = tf.gather(firsts <= lasts, read.rows) & (first >= 0) & (last < window.row_lengths())
    place = tf.stack([first, last], axis=1) + tokens_before(preprocessor, question)[:, None]
    targets = tf.cast(tf.where(is_inside[:, None], place, 0), tf.int32)
    return targets, np.flatnonzero((starts < ends) & (firsts > lasts))


def bytes_of(read: Contexts, firsts: tf.Tensor, lasts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Spans of tokens in each context -> spans of bytes.

    Args:
        read: the contexts.
        firsts, lasts: int `[batch, count]`. An invalid span becomes 0 and 0.

    Returns:
        int64 `[batch, count]` twice, the end exclusive.
    """
    lengths = read.starts.row_lengths()[:, None]
    firsts, lasts = tf.cast(firsts, tf.int64), tf.cast(lasts, tf.int64)
    are_tokens = (firsts >= 0) & (firsts <= lasts) & (lasts < lengths)
    # An extra entry at the end, for invalid spans: a context may have no token.
    starts, ends = (tf.concat([each.values, [0]], 0) for each in (read.starts, read.ends))
    origin, nowhere = read.starts.row_starts()[:, None], tf.size(starts, tf.int64) - 1
    return (
        tf.gather(starts, tf.where(are_tokens, origin + firsts, nowhere)),
        tf.gather(ends, tf.where(are_tokens, origin + lasts, nowhere)),
    )


def characters_of(texts: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Spans of bytes -> spans of the characters (code points) that they touch.

    Args:
        texts: string `[batch]`, UTF-8.
        starts, ends: int64 `[batch, count]`, the end exclusive. A BPE token may be a part of a character.

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
        return tf.strings.length(before, unit="UTF8_CHAR")  # counts the first bytes of characters

    start = tf.where(starts == ends, characters_before(starts), characters_before(starts + 1) - 1)
    return start, characters_before(ends)

"""Splits contexts into windows, and finds answers as spans of their tokens (Devlin et al. 2018, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.answers.spans import NEVER, check_answers
from keras_bert.tasks.heads.long_text import most_context
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor
from keras_bert.text.packing import windows
from keras_bert.text.strings import SPACES


def answer_byte_span(number: int, context: str, answers: Sequence[tuple[str, int]]) -> tuple[int, int]:
    """Finds the first answer's byte offsets in the context, the end exclusive; -1 and -1 if there is no answer."""
    check_answers(number, answers)
    if not answers:
        return -1, -1
    text, start = answers[0]
    if not text or start < 0 or not context.startswith(text, start):
        raise ValueError(f"question {number} (from 0): its answer {text!r} is not at character {start} of its context")
    first = len(context[:start].encode())
    return first, first + len(text.encode())


class Contexts(NamedTuple):
    """Questions, and the windows of their contexts."""

    # int32 [windows, (tokens)]: the question, at most half a row; the window; 1 where this window has the most context
    segments: tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]
    rows: tf.Tensor  # int64 [windows], the index of the window's question
    begins: tf.Tensor  # int64 [windows], the index of the window's first token in the context
    starts: tf.RaggedTensor  # int64 [batch, (tokens)], byte offsets of the contexts' tokens
    ends: tf.RaggedTensor


def read_contexts(preprocessor: BertPreprocessor, questions: tf.Tensor, contexts: tf.Tensor) -> Contexts:
    """Tokenizes texts, string `[batch]`, and splits contexts into windows that fit into a row with their question."""
    tokenizer = preprocessor.tokenizer
    tokens, starts, ends = tokenizer.tokenize_with_offsets(contexts)
    max_tokens = preprocessor.longest - tokenizer.pair_format.special_tokens(2)
    assert preprocessor.stride is not None  # a question answerer's preprocessor has one
    split = windows([tokenizer.tokenize(questions), tokens], max_tokens, preprocessor.stride)
    question, window = split.segments
    is_best = tf.cast(most_context(split.rows, split.starts, window.row_lengths()), tf.int32)
    return Contexts((question, window, is_best), split.rows, split.starts, starts, ends)


def row_lengths(preprocessor: BertPreprocessor, tokenized: Contexts) -> tf.Tensor:
    """Counts the tokens of each row, special tokens included, int64 `[windows]`."""
    question, window, _ = tokenized.segments
    return tokens_before(preprocessor, question) + window.row_lengths() + 1


def tokens_before(preprocessor: BertPreprocessor, questions: tf.RaggedTensor) -> tf.Tensor:
    """Counts the tokens before the window in each row, special tokens included, int64 `[windows]`."""
    return 1 + questions.row_lengths() + preprocessor.tokenizer.pair_format.between


def token_spans(tokenized: Contexts, starts: tf.Tensor, ends: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the first and the last token, int64 `[batch]`, that overlap a span of bytes; without one, last < first."""
    token = tf.ragged.range(tokenized.starts.row_lengths()).values  # [tokens], the index in the context
    row, batch = tokenized.starts.value_rowids(), tokenized.starts.nrows()
    overlaps = (tokenized.ends.values > tf.gather(starts, row)) & (tokenized.starts.values < tf.gather(ends, row))
    token, row = tf.boolean_mask(token, overlaps), tf.boolean_mask(row, overlaps)
    return tf.math.unsorted_segment_min(token, row, batch), tf.math.unsorted_segment_max(token, row, batch)


def span_targets(
    preprocessor: BertPreprocessor, tokenized: Contexts, starts: np.ndarray, ends: np.ndarray
) -> tuple[tf.Tensor, np.ndarray]:
    """Finds the positions of answers (bytes; equal without one) in packed windows, and the answers without a token."""
    # Positions are int32 `[windows, 2]`, of the first and last token; 0 and 0, of `[CLS]`, if the window does not hold
    # the whole answer (run_squad.py of google-research/bert, `convert_examples_to_features`).
    firsts, lasts = token_spans(tokenized, starts, ends)  # [batch]
    first, last = (tf.gather(each, tokenized.rows) - tokenized.begins for each in (firsts, lasts))  # [windows]
    question, window, _ = tokenized.segments
    is_inside = tf.gather(firsts <= lasts, tokenized.rows) & (first >= 0) & (last < window.row_lengths())
    positions = tf.stack([first, last], axis=1) + tokens_before(preprocessor, question)[:, None]
    targets = tf.cast(tf.where(is_inside[:, None], positions, 0), tf.int32)
    return targets, np.flatnonzero((starts < ends) & (firsts > lasts))


def byte_spans(tokenized: Contexts, firsts: tf.Tensor, lasts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Converts spans of tokens, int `[batch, count]`, to spans of bytes, int64; an invalid span becomes 0 and 0."""
    lengths = tokenized.starts.row_lengths()[:, None]
    firsts, lasts = tf.cast(firsts, tf.int64), tf.cast(lasts, tf.int64)
    are_tokens = (firsts >= 0) & (firsts <= lasts) & (lasts < lengths)
    # Invalid spans read an extra entry at the end, as a context may have no token.
    starts, ends = (tf.concat([each.values, [0]], 0) for each in (tokenized.starts, tokenized.ends))
    row_starts, last_entry = tokenized.starts.row_starts()[:, None], tf.size(starts, tf.int64) - 1
    return (
        tf.gather(starts, tf.where(are_tokens, row_starts + firsts, last_entry)),
        tf.gather(ends, tf.where(are_tokens, row_starts + lasts, last_entry)),
    )


def character_spans(texts: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Converts spans of bytes, int64 `[batch, count]`, to those of the characters touched, int32."""
    texts = tf.tile(tf.convert_to_tensor(texts)[:, None], [1, tf.shape(starts)[1]])  # [batch, count]

    def characters_before(offset: tf.Tensor) -> tf.Tensor:
        before = tf.strings.substr(texts, tf.zeros_like(offset), offset)
        return tf.strings.length(before, unit="UTF8_CHAR")  # counts the characters whose first byte is in `before`

    start = tf.where(starts == ends, characters_before(starts), characters_before(starts + 1) - 1)
    return start, characters_before(ends)


# -- The training loss, and the search for the best spans in the graph.


@keras.saving.register_keras_serializable(package="keras_bert")
class SpanLoss(keras.losses.Loss):
    """The mean of two cross-entropies over the tokens of a row: one for the start, one for the end.

    `y_true`: int `[batch, 2]`, positions; `y_pred`: float `[batch, seq_length, 2]` (Devlin et al. 2018, section 4.2).
    """

    def __init__(self, name: str = "span_loss", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        logits = ops.transpose(y_pred, (0, 2, 1))  # [batch, 2, seq_length]
        losses = keras.losses.sparse_categorical_crossentropy(y_true, logits, from_logits=True)  # [batch, 2]
        return ops.mean(losses, axis=-1)


class Spans(NamedTuple):
    """The best spans of each row, best first; if there are fewer than `count`, the last scores are `NEVER` or less."""

    scores: tf.Tensor  # float32 [rows, count], the start logit plus the end logit
    starts: tf.Tensor  # int [rows, count], the first token
    ends: tf.Tensor


def best_spans(logits: tf.Tensor, may_start: tf.Tensor, lengths: tf.Tensor, max_length: int, count: int) -> Spans:
    """Finds the best spans of each row. On a tie, the earlier start comes first, then the earlier end."""
    rows, tokens = tf.unstack(tf.shape(logits)[:2])
    is_token = tf.sequence_mask(lengths, tokens)
    starts = tf.where(may_start & is_token, logits[..., 0], NEVER)
    ends = tf.pad(tf.where(is_token, logits[..., 1], NEVER), [[0, 0], [0, max_length - 1]], constant_values=NEVER)
    ends = tf.gather(ends, tf.range(tokens)[:, None] + tf.range(max_length), axis=1)  # [rows, tokens, max_length]
    scores = tf.reshape(starts[..., None] + ends, tf.stack([rows, tokens * max_length]))
    scores = tf.pad(scores, [[0, 0], [0, count]], constant_values=NEVER)  # there may be fewer than count
    scores, index = tf.math.top_k(scores, count)
    start = index // max_length
    return Spans(scores, start, start + index % max_length)


def best_of_windows(spans: Spans, rows: tf.Tensor, batch: tf.Tensor) -> Spans:
    """Selects the best spans of each row, `[batch, count]`, from those of its windows, which count the row's tokens."""
    count = spans.scores.shape[1]
    scores = tf.reshape(spans.scores, [-1])
    row = tf.repeat(rows, count)
    by_score = tf.argsort(scores, direction="DESCENDING", stable=True)
    order = tf.gather(by_score, tf.argsort(tf.gather(row, by_score), stable=True))  # by row, then by score
    first = tf.searchsorted(row, tf.range(tf.cast(batch, tf.int64)))  # [batch]
    best = tf.gather(order, first[:, None] + tf.range(count))  # [batch, count]
    return Spans(*(tf.gather(tf.reshape(part, [-1]), best) for part in spans))


# -- Ranks the best spans of all windows of a context, and converts them to offsets in characters.


class Answers(NamedTuple):
    """The best answers to each question, best first: `[batch, top_k]` each."""

    start: tf.Tensor  # int32, offset in characters; 0 for "no answer"
    end: tf.Tensor
    score: tf.Tensor  # float32, the start logit plus the end logit; for "no answer", those of [CLS]
    probability: tf.Tensor  # float64, a softmax over all ranked scores
    no_answer_score: tf.Tensor  # float32, the score of "no answer" minus that of the best answer; one a question
    exists: tf.Tensor  # bool, False if there are fewer answers than top_k


def rank_answers(
    tokenized: Contexts, contexts: tf.Tensor, window_spans: tf.Tensor, threshold: float | None, top_k: int
) -> Answers:
    """Ranks the spans of all windows, together with "no answer", as run_squad.py does (`write_predictions`)."""
    # `window_spans` is float32 `[windows, count, 4]`: score, first and last token, and the window's score of "no
    # answer". Of these scores, the lowest counts. "no answer" ranks above every span whose score is lower by more than
    # the threshold; without one, only if no valid span exists.
    no_answer = tf.math.segment_min(window_spans[:, 0, 3], tokenized.rows)[:, None]  # [batch, 1]
    firsts, lasts = (tokenized.begins[:, None] + tf.cast(window_spans[..., i], tf.int64) for i in (1, 2))
    spans = Spans(window_spans[..., 0], firsts, lasts)  # each [windows, count]
    spans = best_of_windows(spans, tokenized.rows, tf.size(contexts))  # each [batch, count]
    starts, ends = byte_spans(tokenized, spans.starts, spans.ends)
    # If a character has several tokens, only one of them covers it. The others cover no text and are no answer; nor is
    # white space, which has tokens in byte pairs.
    start, end = character_spans(contexts, starts, ends)
    texts = tf.repeat(tf.convert_to_tensor(contexts)[:, None], tf.shape(start)[1], axis=1)
    texts = tf.strings.substr(texts, start, end - start, unit="UTF8_CHAR")
    is_text = (starts < ends) & ~tf.strings.regex_full_match(texts, f"{SPACES}*")
    scores = tf.where((spans.scores > NEVER / 2) & is_text, spans.scores, NEVER)
    no_answer_score = no_answer - tf.reduce_max(scores, axis=1, keepdims=True)  # [batch, 1]

    last = NEVER / 4  # below every real span, above NEVER
    rank = tf.fill(tf.shape(no_answer), last if threshold is None else -float(threshold))
    rank, order = tf.math.top_k(tf.concat([scores - no_answer, rank], axis=1), top_k)  # on a tie, the span wins
    ranked = tf.concat([scores, no_answer + last if threshold is None else no_answer], axis=1)
    probability = tf.nn.softmax(tf.cast(ranked, tf.float64))  # values near 1 differ for longer
    is_first = tf.range(top_k) == 0
    no_offset = tf.zeros_like(no_answer, tf.int32)
    return Answers(
        _reorder(start, no_offset, order),
        _reorder(end, no_offset, order),
        _reorder(scores, no_answer, order),
        tf.gather(probability, order, batch_dims=1),
        tf.repeat(no_answer_score, top_k, axis=1),
        (rank > last / 2) | is_first,
    )


def _reorder(span_values: tf.Tensor, no_answer_values: tf.Tensor, order: tf.Tensor) -> tf.Tensor:
    return tf.gather(tf.concat([span_values, no_answer_values], axis=1), order, batch_dims=1)

"""Ranks the spans found in all windows of a context, and gives their offsets in characters."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from keras_bert.tasks.contexts import Contexts, bytes_of, characters_of
from keras_bert.tasks.spans import NEVER, Spans, best_of_windows


class Answers(NamedTuple):
    """The best answers to each question, best first: `[batch, top_k]` each.

    Attributes:
        start, end: int32: offsets in the context, in characters; both 0 for no answer.
        score: float32: the start logit plus the end logit; for no answer, the two logits of `[CLS]`.
        probability: float32, 0 to 1: a softmax over all ranked scores.
        no_answer_score: float32: the score of no answer minus that of the best answer; one value per question.
        exists: bool: False if there are fewer answers than `top_k`.
    """

    start: tf.Tensor
    end: tf.Tensor
    score: tf.Tensor
    probability: tf.Tensor
    no_answer_score: tf.Tensor
    exists: tf.Tensor


def rank_answers(read: Contexts, contexts: tf.Tensor, found: tf.Tensor, threshold: float | None, top_k: int) -> Answers:
    """Ranks the spans of all windows, together with "no answer".

    Args:
        read: the tokenized contexts.
        contexts: string `[batch]`.
        found: float32 `[windows, count, 4]`: for each of a window's best spans: its score; the indices of its first and
            last token in the window; and the window's score of no answer.
        threshold: "no answer" ranks above every span whose score is lower by more than this. None: it ranks last, and
            is the answer only if there is no span.
        top_k: at most `count`.

    Source: run_squad.py of google-research/bert (`write_predictions`), which also takes the lowest no-answer score of
        all windows.
    """
    none = tf.math.segment_min(found[:, 0, 3], read.rows)[:, None]  # [batch, 1]
    firsts, lasts = (read.begins[:, None] + tf.cast(found[..., i], tf.int64) for i in (1, 2))
    spans = best_of_windows(Spans(found[..., 0], firsts, lasts), read.rows, tf.size(contexts))  # each [batch, count]
    starts, ends = bytes_of(read, spans.starts, spans.ends)
    # A token may cover no text: if a character has several tokens, only one covers it.
    scores = tf.where((spans.scores > NEVER / 2) & (starts < ends), spans.scores, NEVER)
    no_answer_score = none - tf.reduce_max(scores, axis=1, keepdims=True)  # [batch, 1]

    last = NEVER / 4  # below every real span, above NEVER
    rank = tf.fill(tf.shape(none), last if threshold is None else -float(threshold))
    rank, order = tf.math.top_k(tf.concat([scores - none, rank], axis=1), top_k)  # on a tie, the span wins
    probability = tf.nn.softmax(tf.concat([scores, none + last if threshold is None else none], axis=1))
    is_first = tf.range(top_k) == 0
    nowhere = tf.zeros_like(none, tf.int64)
    starts, ends = (_ranked(each, nowhere, order) for each in (starts, ends))
    start, end = characters_of(contexts, starts, ends)
    return Answers(
        start,
        end,
        _ranked(scores, none, order),
        tf.gather(probability, order, batch_dims=1),
        tf.repeat(no_answer_score, top_k, axis=1),
        (rank > last / 2) | is_first,
    )


def _ranked(of_spans: tf.Tensor, of_none: tf.Tensor, order: tf.Tensor) -> tf.Tensor:
    return tf.gather(tf.concat([of_spans, of_none], axis=1), order, batch_dims=1)

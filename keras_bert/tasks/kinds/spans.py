"""The kind Spans: the answer to a question is a span of its context, or "no answer"."""

from __future__ import annotations

import keras

from keras_bert.answers.spans import SpanAnswer, SpanAnswers
from keras_bert.tasks.heads.spans import SpanLoss
from keras_bert.tasks.kinds import Kind


class Spans(SpanAnswers, Kind[list[SpanAnswer]]):
    """`SpanAnswers`, learned as the positions of the first and the last token."""

    def loss(self) -> keras.losses.Loss:
        return SpanLoss()

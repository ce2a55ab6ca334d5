"""The kinds of BERT's two objectives of pre-training: masked tokens, and whether a text follows another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from keras_bert.answers.tokens import FilledAnswers, NextSentenceAnswers
from keras_bert.tasks.kinds import Kind


class MaskedTokens(FilledAnswers, Kind[Mapping[str, object]]):
    """Ids of tokens at masked positions. The padding of the positions has the sample weight 0."""

    def loss(self) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")


class Pretraining(Kind[Any]):
    """Both objectives: a dict of the labels of each output."""

    def plain(self, labels: Any) -> Any:
        return labels


class NextSentence(NextSentenceAnswers, Kind[float]):
    """Labels of pairs: 0 (the second text follows) or 1 (it does not)."""

    def loss(self) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

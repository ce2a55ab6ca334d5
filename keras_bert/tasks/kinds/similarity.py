"""The kind of a sentence encoder: rows of texts that are compared, with scores, a better model's vectors or nothing."""

from __future__ import annotations

import keras

from keras_bert.answers.columns import Targets
from keras_bert.answers.similarity import TextVectors, VectorAnswers, are_text_numbers, are_vectors
from keras_bert.tasks import losses
from keras_bert.tasks.kinds import Kind
from keras_bert.tasks.losses.sentence_losses import VectorMSELoss


class Similarity(VectorAnswers, Kind[TextVectors]):
    """The vectors of rows; `VectorAnswers` lists what the labels and the default losses are."""

    def loss(self) -> keras.losses.Loss:
        return losses.default("vectors")

    def loss_for(self, targets: Targets, columns: int) -> keras.losses.Loss:
        if are_text_numbers(targets):
            return self.loss()
        if are_vectors(targets, columns):
            return VectorMSELoss()
        return losses.default("vectors", is_pair=columns == 2, has_scores=True)

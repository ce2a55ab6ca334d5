"""The kind WordLabels: a label for each word of a sentence; entities if the labels follow a scheme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.answers.columns import Targets, label_index, rare_label_warnings
from keras_bert.answers.entities import WordAnswer
from keras_bert.answers.words import WordAnswers, check_labels
from keras_bert.tasks.kinds import Kind, TaughtBatch
from keras_bert.tasks.kinds.class_weights import ClassWeight, balanced_weights, chosen_weights
from keras_bert.tasks.steps.training_step import LossTerm, averaged, divergence, weighted_mean
from keras_bert.tensors import Tensor

if TYPE_CHECKING:
    from keras_bert.tasks.heads import ClassifierHead
    from keras_bert.tasks.heads.crf import CRF

IGNORED = -1  # the target of all but a word's first token


class WordLabels(WordAnswers, Kind[list[WordAnswer]]):
    """One of `labels` for each word. With a CRF, the labels of a sentence depend on each other."""

    def __init__(self, labels: list[str], crf: CRF | None = None) -> None:
        super().__init__(labels)
        self.crf = crf

    def loss(self) -> keras.losses.Loss:
        if self.crf is not None:
            return self.crf.loss
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=IGNORED)

    def _targets(self, labels: Any) -> Any:
        """Checks arrays of the labels of tokens: indices, or -1 where ignored."""
        are_numbers = isinstance(labels, np.ndarray) and labels.dtype.kind in "biuf"
        if are_numbers and (bad := labels[~np.isin(labels, np.arange(IGNORED, len(self.labels)))]).size:
            raise ValueError(
                f"labels are an array with {bad[0]}; expected the indices of {', '.join(self.labels)}, from 0, and "
                f"{IGNORED} for tokens to ignore"
            )
        return labels

    def indices(self, words: Sequence[Sequence[str]], labels: Sequence[Sequence[str | int]]) -> tf.Tensor:
        """Converts the labels of sentences to indices, int32 `[words]`."""
        indices = []
        for number, each in enumerate(zip(words, labels, strict=True)):
            check_labels(number, *each)
            try:
                indices += [label_index(label, self.labels) for label in each[1]]
            except ValueError as error:
                raise ValueError(f"sentence {number} (from 0): {error}") from None
        return tf.constant(indices, tf.int32)

    def warnings(self, targets: tf.RaggedTensor) -> list[str]:
        return rare_label_warnings(self.labels, self._counts(targets), "words")

    def _counts(self, targets: Targets | tf.RaggedTensor) -> np.ndarray:
        """Counts the words of each label, int64 `[labels]`."""
        numbers = np.ravel(getattr(targets, "flat_values", targets))
        return np.bincount(numbers[numbers >= 0], minlength=len(self.labels))

    def initialize_head(self, head: ClassifierHead | None, targets: tf.RaggedTensor) -> None:
        """Sets the bias to the log frequencies of the labels, and initializes a new CRF from their sequences."""
        # At the rates of fine-tuning, a bias hardly moves: without this, a head must learn how rare labels are through
        # its kernel.
        if head is not None and head.is_new:
            counts = 1 + self._counts(targets)
            head.logits.bias.assign(np.log(counts / counts.sum()))
        if self.crf is not None:
            self.crf.start_from(row[row >= 0] for row in map(np.array, targets.to_list()))

    def class_weights(self, weights: ClassWeight, targets: Targets | None) -> np.ndarray:
        """Lists the weight of each label, float32 `[labels]`."""
        if self.crf is not None:
            raise ValueError(
                "class_weight weighs single words, but a CRF's loss is that of whole sentences; use crf=False"
            )
        if isinstance(weights, Mapping):
            return chosen_weights(weights, self.labels)
        assert targets is not None  # `fit` refuses to balance a dataset
        return balanced_weights(self._counts(targets))

    def sample_weights(self, targets: Tensor, class_weights: np.ndarray) -> Tensor:
        """Computes a weight for each token, float32 of the shape of the targets; 0 where they are ignored."""
        weights = tf.gather(class_weights, tf.maximum(targets, 0))
        return tf.where(targets == IGNORED, 0.0, weights)

    def check_teacher(self, teacher: Kind[list[WordAnswer]]) -> None:
        assert isinstance(teacher, WordLabels)
        if teacher.crf is None:
            return
        if self.crf is None:
            raise ValueError(
                "the teacher has a CRF, but the student has none; the teacher's emissions are no answers without its "
                "transition scores; make the student with crf=True"
            )
        if teacher.crf.scheme != self.crf.scheme:
            raise ValueError(
                f"the scheme of the teacher's CRF: {teacher.crf.scheme}, of the student's: {self.crf.scheme}; they "
                "must be the same"
            )

    def distillation_terms(self, batch: TaughtBatch) -> list[LossTerm]:
        """Averages the loss on labels and the divergence from the teacher's logits (a CRF's emissions) per word."""
        (label_term,) = batch.terms
        divergences = divergence(*batch.outputs, batch.temperature)  # the shape of the targets
        if batch.sample_weight is not None:
            weights = ops.cast(batch.sample_weight, divergences.dtype)
            axes = len(divergences.shape) - len(weights.shape)  # of sentences, or of words
            divergences = divergences * ops.reshape(weights, (*ops.shape(weights), *(1,) * axes))
        return [averaged(label_term, weighted_mean(divergences, ops.not_equal(batch.targets, IGNORED)))]

"""Kinds of tasks: how a task learns from labels, beside how it answers (`answers/`). Nothing asks which kind it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert.answers import A, Answers
from keras_bert.answers.columns import Labels, Targets
from keras_bert.tasks.kinds.class_weights import ClassWeight
from keras_bert.tasks.steps.training_step import LossTerm
from keras_bert.tensors import Tensor

if TYPE_CHECKING:
    from keras_bert.tasks.heads import ClassifierHead


class TaughtBatch(NamedTuple):
    """A batch of a student that learns from labels and from a teacher."""

    terms: list[LossTerm]  # of the loss on the labels
    inputs: Any
    targets: Any
    outputs: tuple[Any, Any]  # of teacher and student
    sample_weight: Any
    loss: Any  # Keras's, on the labels
    temperature: float


class Kind(Answers[A]):
    """`Answers` with what learns. This one is of tasks without labels."""

    # -- Labels in training. `targets` are what the loss takes.

    def loss(self) -> keras.losses.Loss:
        """Makes the loss to compile with."""
        raise TypeError("this model has no loss of its own; compile it with a loss, and call fit")

    def loss_for(self, targets: Targets, columns: int) -> keras.losses.Loss:
        """Makes the default loss for these targets, and so many columns of texts. Raises ValueError for bad targets."""
        return self.loss()

    def targets(self, labels: Labels | None) -> Targets:
        """Converts labels to targets. Arrays of targets and tensors are only checked; datasets stay as they are."""
        labels = self.plain(labels)
        if isinstance(labels, tf.Tensor) and (read := getattr(labels, "numpy", None)):  # not in a graph
            self._check_tensor(read())
        is_done = labels is None or tf.is_tensor(labels) or isinstance(labels, tf.data.Dataset)
        return labels if is_done else self._targets(labels)

    def _check_tensor(self, values: np.ndarray) -> None:
        """Raises ValueError for the values of a tensor that cannot be targets."""
        self._targets(values)

    def warnings(self, targets: Targets) -> list[str]:
        """Lists warnings of targets from which a model learns little, such as rare labels."""
        return []

    def initialize_head(self, head: ClassifierHead | None, targets: Targets) -> None:
        """Initializes a new head from the targets; a trained one stays as it is."""

    def learning_rate_factors(self, head: ClassifierHead | None, targets: Targets) -> dict[str, np.ndarray]:
        """Computes factors for the learning rates of weights, by a weight's path; see `AdamW`."""
        return {}

    def class_weights(self, weights: ClassWeight, targets: Targets | None) -> np.ndarray:
        """Makes the array of class weights for `sample_weights`, last axis `labels`; `targets`: all, or None."""
        raise ValueError("class_weight is for classes of texts or words, not for numbers, vectors or rankings")

    def sample_weights(self, targets: Tensor, class_weights: np.ndarray) -> Tensor:
        """Computes the weights of a batch's targets in the loss, float32, from those of classes."""
        raise NotImplementedError

    # -- Learning from a teacher of the same kind

    def check_teacher(self, teacher: Kind[A]) -> None:
        """Raises ValueError if a model of this kind cannot learn from such a teacher."""

    def distillation_terms(self, batch: TaughtBatch) -> list[LossTerm]:
        """Combines the terms on the labels with a loss on the `outputs` of teacher and student."""
        raise NotImplementedError

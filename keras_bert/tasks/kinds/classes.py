"""Kinds of texts' labels: Classes (one a text), Several (any number) and Numbers. They differ in their loss."""

from __future__ import annotations

from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.answers import A
from keras_bert.answers.classes import ClassAnswers, LabelAnswer, NumberAnswers, SeveralAnswers, TextAnswers, is_yes
from keras_bert.answers.columns import Targets, numeric_label_warnings, rare_label_warnings
from keras_bert.extras import import_extra
from keras_bert.tasks.heads import ClassifierHead
from keras_bert.tasks.kinds import Kind, TaughtBatch
from keras_bert.tasks.kinds.class_weights import ClassWeight, balanced_weights, chosen_weights
from keras_bert.tasks.losses.class_losses import ScaledMeanSquaredError
from keras_bert.tasks.steps.training_step import LossTerm, averaged, divergence, weighted_mean
from keras_bert.tensors import Tensor

_LOW_LOGIT = -10.0  # of a class without examples
ACTIVATIONS = {"softmax": ops.softmax, "sigmoid": ops.sigmoid, "identity": lambda logits: logits}


class OfTexts(TextAnswers[A], Kind[A]):
    """A kind of labels of whole texts, with an output of the head for each of `labels`."""

    def similarities(self, targets: Tensor) -> Tensor:
        """Computes the similarity of every two texts by their classes, 0 to 1: float32 `[texts, texts]`."""
        raise ValueError(f"few_shot is for classes; the problem_type of this model is {self.PROBLEM_TYPE}")

    def logistic_regression(
        self, features: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fits the last layer of a head: `[hidden, labels]` and `[labels]`; see `BertClassifier.fit_head`."""
        raise NotImplementedError

    def values(self, logits: Tensor) -> Tensor:
        """Computes probabilities or numbers, float32 `[batch, labels]`, from logits of that shape."""
        return ACTIVATIONS[self.ACTIVATION](logits)

    def serving_outputs(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """Names the outputs of a serving signature, in the graph."""
        raise NotImplementedError

    def distance(self, teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
        """Computes the distance of a student's logits from a teacher's, float32 `[batch]`."""
        raise NotImplementedError

    def distillation_terms(self, batch: TaughtBatch) -> list[LossTerm]:
        """Averages the loss on the labels and the distance from the teacher, as in DistilBERT's fine-tuning."""
        (label_term,) = batch.terms
        units = batch.loss.deviations if isinstance(batch.loss, ScaledMeanSquaredError) else 1.0
        teacher, student = batch.outputs
        distances = self.distance(teacher / units, student / units, batch.temperature)
        if batch.sample_weight is not None:  # of texts; or of their labels, of which the mean counts
            weights = batch.sample_weight
            weights = ops.mean(weights, axis=-1) if len(weights.shape) == 2 else weights
            distances = distances * ops.cast(weights, distances.dtype)
        return [averaged(label_term, weighted_mean(distances, ops.ones_like(distances)))]


class Classes(ClassAnswers, OfTexts[LabelAnswer]):
    """One class per text."""

    def loss(self) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def loss_for(self, targets: Targets, columns: int) -> keras.losses.Loss:
        if len(targets.shape) > 1:
            raise ValueError(
                f"labels are an array of shape {tuple(targets.shape)}; pass one label a text, such as "
                "labels.argmax(axis=1), or a loss for such labels"
            )
        return self.loss()

    def warnings(self, targets: Targets) -> list[str]:
        if np.ndim(targets) > 1:
            return []
        counts = np.bincount(np.ravel(targets), minlength=len(self.labels))
        return [*numeric_label_warnings(self.labels), *rare_label_warnings(self.labels, counts, "texts")]

    def class_weights(self, weights: ClassWeight, targets: Targets | None) -> np.ndarray:
        """Lists the weight of each class, float32 `[labels]`."""
        if isinstance(weights, Mapping):
            return chosen_weights(weights, self.labels)
        assert targets is not None  # `fit` refuses to balance a dataset
        numbers = _class_indices(tf.convert_to_tensor(targets))
        return balanced_weights(np.bincount(np.ravel(numbers), minlength=len(self.labels)))

    def sample_weights(self, targets: Tensor, class_weights: np.ndarray) -> Tensor:
        return tf.gather(class_weights, _class_indices(targets))

    def similarities(self, targets: Tensor) -> Tensor:
        indices = _class_indices(targets)
        return tf.cast(indices[:, None] == indices[None], tf.float32)

    def logistic_regression(
        self, features: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fits all classes that occur. Of the others nothing is known: their logits are always low."""
        classes = np.asarray(_class_indices(tf.convert_to_tensor(targets)))
        present = np.unique(classes)
        if len(present) < 2:
            raise ValueError(f"few_shot needs texts of two classes; all are of {self.labels[present[0]]}")
        fitted, intercepts = _regress(features, classes, sample_weight)
        if len(present) == 2:  # scikit-learn has the difference of the logits of two classes
            fitted = np.concatenate([-fitted, fitted], axis=1) / 2
            intercepts = np.concatenate([-intercepts, intercepts]) / 2
        kernel, bias = np.zeros([features.shape[1], len(self.labels)]), np.full(len(self.labels), _LOW_LOGIT)
        kernel[:, present], bias[present] = fitted, intercepts
        return kernel, bias

    def serving_outputs(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        names, values = tf.constant(self.labels), self.values(logits)
        best = {"label": tf.gather(names, tf.argmax(logits, axis=-1)), "probability": tf.reduce_max(values, axis=-1)}
        return {**_label_outputs(names, values), **best}

    def distance(self, teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
        return divergence(teacher, student, temperature)


class Several(SeveralAnswers, OfTexts[list[LabelAnswer]]):
    """Any number of classes per text."""

    def loss(self) -> keras.losses.Loss:
        return keras.losses.BinaryCrossentropy(from_logits=True)

    def warnings(self, targets: Targets) -> list[str]:
        return rare_label_warnings(self.labels, np.count_nonzero(is_yes(targets), axis=0), "texts")

    def class_weights(self, weights: ClassWeight, targets: Targets | None) -> np.ndarray:
        """Lists the weights of a text without and with each label, float32 `[2, labels]`."""
        # Chosen weights are those of texts with the label; texts without it have 1. Balanced weights are those of two
        # classes for each label, as in scikit-learn's one-vs-rest.
        if isinstance(weights, Mapping):
            chosen = chosen_weights(weights, self.labels)
            return np.stack([np.ones_like(chosen), chosen])
        assert targets is not None  # `fit` refuses to balance a dataset
        positives = np.count_nonzero(is_yes(targets), axis=0)
        return balanced_weights(np.stack([len(targets) - positives, positives], axis=-1)).T

    def sample_weights(self, targets: Tensor, class_weights: np.ndarray) -> Tensor:
        targets = tf.cast(targets, tf.float32)
        return (1 - targets) * class_weights[0] + targets * class_weights[1]  # [batch, labels]

    def similarities(self, targets: Tensor) -> Tensor:
        targets = tf.cast(targets, tf.float32)
        common = tf.matmul(targets, targets, transpose_b=True)
        counts = tf.reduce_sum(targets, axis=1)
        union = counts[:, None] + counts[None] - common
        return tf.where(union > 0, tf.math.divide_no_nan(common, union), 1.0)

    def logistic_regression(
        self, features: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fits each label by itself. For a label that all texts or no texts have, the logit is a constant."""
        kernels, biases = [], []
        for label, column in enumerate(is_yes(targets).T):
            weights = None if sample_weight is None else sample_weight[:, label]
            if column.all() or not column.any():
                odds = (column.sum() + 0.5) / (len(column) - column.sum() + 0.5)
                kernel, bias = np.zeros([features.shape[1], 1]), np.log([odds])
            else:
                kernel, bias = _regress(features, column, weights)
            kernels.append(kernel)
            biases.append(bias)
        return np.concatenate(kernels, axis=1), np.concatenate(biases)

    def serving_outputs(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return _label_outputs(tf.constant(self.labels), self.values(logits))

    def distance(self, teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
        return ops.mean(divergence(_two_class_logits(teacher), _two_class_logits(student), temperature), axis=-1)


class Numbers(NumberAnswers, OfTexts[dict[str, float]]):
    """One or more numbers per text. Their names are the labels."""

    def loss(self) -> keras.losses.Loss:
        return keras.losses.MeanSquaredError()

    def loss_for(self, targets: Targets, columns: int) -> keras.losses.Loss:
        return ScaledMeanSquaredError(_location_and_scale(targets)[1])

    def initialize_head(self, head: ClassifierHead | None, targets: Targets) -> None:
        """Sets the bias to the targets' mean, and scales the kernel by their deviation: all units are learned alike."""
        if head is not None and head.is_new:
            mean, deviation = _location_and_scale(targets)
            head.logits.bias.assign(mean)
            head.logits.kernel.assign(ops.convert_to_numpy(head.logits.kernel) * deviation)

    def learning_rate_factors(self, head: ClassifierHead | None, targets: Targets) -> dict[str, np.ndarray]:
        """Computes the deviations of the targets."""
        weights = () if head is None else head.logits.weights
        return {weight.path: _location_and_scale(targets)[1] for weight in weights}

    def serving_outputs(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"values": self.values(logits)}

    def distance(self, teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
        return ops.mean(ops.square(student - teacher), axis=-1)


KINDS = {each.PROBLEM_TYPE: each for each in (Classes, Several, Numbers)}


def _label_outputs(names: tf.Tensor, probabilities: tf.Tensor) -> dict[str, tf.Tensor]:
    return {"labels": tf.tile(names[None], [tf.shape(probabilities)[0], 1]), "probabilities": probabilities}


def _regress(
    features: np.ndarray, classes: np.ndarray, sample_weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Fits an L2 logistic regression: kernel `[hidden, classes]`, bias `[classes]`; of two, the second's."""
    regression = import_extra("sklearn.linear_model", "scikit-learn").LogisticRegression(max_iter=2000)
    length = np.linalg.norm(features, axis=1).mean()
    regression.fit(np.float64(features) / length, classes, sample_weight)
    return regression.coef_.T / length, regression.intercept_


def _class_indices(targets: Tensor) -> Tensor:
    """Finds the index of each text's class, int `[batch]`; of soft labels, `[batch, labels]`, the most probable."""
    if len(targets.shape) > 1 and targets.shape[-1] != 1:
        return tf.argmax(targets, axis=-1)
    return tf.cast(tf.reshape(targets, [-1]), tf.int64)


def _two_class_logits(logits: Tensor) -> Tensor:
    """Adds a last axis with the logits of "yes" and "no" for each label: `sigmoid(x) = softmax([x, 0])[0]`."""
    return ops.stack([logits, ops.zeros_like(logits)], axis=-1)


def _location_and_scale(targets: Targets) -> tuple[np.ndarray, np.ndarray]:
    """Computes the mean and the standard deviation, 1 for equal targets, of each number, `[labels]`."""
    deviation = np.std(targets, axis=0, dtype=np.float64)
    return np.asarray(np.mean(targets, axis=0, dtype=np.float64)), np.where(deviation > 0, deviation, 1.0)

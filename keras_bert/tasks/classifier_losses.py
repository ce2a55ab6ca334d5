"""The three problem types of a classifier: their losses, and what logits, labels and answers mean in each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypedDict, TypeVar

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.extras import import_extra
from keras_bert.tasks import metrics
from keras_bert.tasks.class_weights import ClassWeight, balanced_weights, chosen_weights
from keras_bert.tasks.columns import (
    Labels,
    Targets,
    as_float32,
    label_index,
    numeric_label_warnings,
    plain_labels,
    rare_label_warnings,
)
from keras_bert.tasks.training_step import divergence
from keras_bert.tensors import Tensor

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class LabelAnswer(TypedDict):
    """A predicted label, and its probability, 0 to 1."""

    label: str
    probability: float


# The prediction for a text, by problem type: a LabelAnswer, a list[LabelAnswer], or for regression a dict[str, float].
TextAnswer: TypeAlias = "LabelAnswer | Any"


A = TypeVar("A")  # the prediction for a text
_LOW_LOGIT = -10.0  # of a class without examples


class ProblemType(Generic[A]):
    """A kind of classifier: its loss, and the conversion of labels to targets and of logits to predictions.

    Each problem type is a class with the same methods, so that `BertClassifier` never tests which one it has:

        SingleLabel    one class per text: softmax, cross-entropy
        MultiLabel     any number of classes per text: a sigmoid and binary cross-entropy for each
        Regression     numbers: the logits themselves, mean squared error

    Args:
        labels: the names of the classes, or numbers, in the order of the logits.
    """

    NAME: ClassVar[str]  # Hugging Face's
    LEAST_LABELS: ClassVar[int] = 1
    VALUES: ClassVar[str] = "probabilities"  # the name of `values` in serving signatures
    # The field of `answer_fields` that holds a prediction; None: a prediction is already a dict of fields.
    FIELD: ClassVar[str | None] = None

    def __init__(self, labels: list[str]) -> None:
        self.labels = labels

    def loss(self) -> keras.losses.Loss:
        """Makes the loss to compile with."""
        raise NotImplementedError

    def loss_for(self, targets: tf.Tensor) -> keras.losses.Loss:
        """Makes the loss to train on these targets with. Raises ValueError if it cannot take them."""
        return self.loss()

    def targets(self, y: Labels | None) -> Targets:
        """Turns labels, names or indices, into targets of the loss; see `BertClassifier.targets`."""
        y = plain_labels(y, self.labels)
        return y if y is None or tf.is_tensor(y) or isinstance(y, tf.data.Dataset) else self._targets(y)

    def _targets(self, y: Labels) -> np.ndarray:
        raise NotImplementedError

    def target_warnings(self, targets: Targets) -> list[str]:
        """Lists warnings about targets from which little can be learned; see `BertTask.target_warnings`."""
        return []

    def location_and_scale(self, targets: Targets) -> tuple[np.ndarray, np.ndarray] | None:
        """Computes the mean and the standard deviation that a new head's logits should have, `[labels]` each.

        None stands for 0 and 1: the head needs no change.
        """
        return None

    def class_weights(self, weights: ClassWeight, targets: Targets | None) -> np.ndarray:
        """Lists the weights of classes; see `BertTask.class_weights`. Raises ValueError if there are no classes."""
        raise ValueError("class_weight is for classes; this model predicts numbers")

    def sample_weights(self, targets: Tensor, class_weights: np.ndarray) -> Tensor:
        """Computes the weights of texts, float32 `[batch]`, or of their labels, `[batch, labels]`."""
        raise NotImplementedError

    def similarities(self, targets: Tensor) -> Tensor:
        """Computes the similarity of every two texts; see `BertClassifier.similarities`."""
        raise ValueError(f"few_shot is for classes; the problem_type of this model is {self.NAME}")

    def logistic_regression(
        self, features: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fits the last layer of a head: `[hidden, labels]` and `[labels]`; see `BertClassifier.fit_head`."""
        raise NotImplementedError

    def values(self, logits: Tensor) -> Tensor:
        """Computes probabilities (regression: numbers), float32 `[batch, labels]`, from logits of that shape."""
        raise NotImplementedError

    def answer(self, values: np.ndarray) -> A:
        """Makes the prediction for a text from its values, `[labels]`."""
        raise NotImplementedError

    def serving_outputs(self, values: tf.Tensor) -> dict[str, tf.Tensor]:
        """Names the outputs of a serving signature, in the graph."""
        raise NotImplementedError

    def distance(self, teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
        """Computes the distance of a student's logits from a teacher's, float32 `[batch]`."""
        raise NotImplementedError

    def measures(self, answers: Sequence[A], y: Labels) -> dict[str, float]:
        raise NotImplementedError

    def details(self, answers: Sequence[A], y: Labels | None) -> dict[str, float]:
        return {}

    def _predicted_labels(self, answer: A) -> str | list[str]:
        """Reads the labels of a prediction, in the form that `targets` takes."""
        raise NotImplementedError

    def mistakes(self, answers: Sequence[A], y: Labels) -> list[int]:
        """Finds the indices of wrong predictions."""
        is_wrong = np.asarray(self.targets(y)) != np.asarray(
            self.targets([self._predicted_labels(each) for each in answers])
        )
        return np.flatnonzero(is_wrong.reshape(len(answers), -1).any(axis=1)).tolist()

    def worst(self, answers: Sequence[A], y: Labels) -> list[int]:
        raise NotImplementedError

    def compared(self, answer: A, label: Any) -> list[dict[str, object]]:
        raise NotImplementedError

    def answer_columns(self, answer: A) -> dict[str, object]:
        """Converts a prediction to columns of a table; see `BertTask.answer_columns`."""
        return {"answer": answer}

    def confusion(self, answers: Sequence[A], y: Labels) -> tuple[list[str], np.ndarray] | None:
        return None

    def _sort_by_probability(self, values: np.ndarray) -> list[LabelAnswer]:
        order = np.argsort(-values, kind="stable")
        return [{"label": self.labels[index], "probability": float(values[index])} for index in order]


class SingleLabel(ProblemType[LabelAnswer]):
    """One class per text."""

    NAME = "single_label_classification"
    LEAST_LABELS = 2

    def loss(self) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def loss_for(self, targets: tf.Tensor) -> keras.losses.Loss:
        if len(targets.shape) > 1:
            raise ValueError(
                f"labels are an array of shape {tuple(targets.shape)}; pass one label a text, such as "
                "labels.argmax(axis=1), or a loss for such labels"
            )
        return self.loss()

    def _targets(self, y: Labels) -> np.ndarray:
        if isinstance(y, np.ndarray) and y.ndim > 1 and y.dtype.kind in "biuf":  # soft labels, for another loss
            return y
        if len(y) and np.ndim(y[0]):
            return as_float32(y, "rows of labels")
        return np.array([label_index(label, self.labels) for label in y], np.int32)

    def target_warnings(self, targets: Targets) -> list[str]:
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

    def values(self, logits: Tensor) -> Tensor:
        return ops.softmax(logits)

    def answer(self, values: np.ndarray) -> LabelAnswer:
        return self._sort_by_probability(values)[0]

    def serving_outputs(self, values: tf.Tensor) -> dict[str, tf.Tensor]:
        names = tf.constant(self.labels)
        best = {"label": tf.gather(names, tf.argmax(values, axis=-1)), "probability": tf.reduce_max(values, axis=-1)}
        return {**_label_outputs(names, values), **best}

    def distance(self, teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
        return divergence(teacher, student, temperature)

    def measures(self, answers: Sequence[LabelAnswer], y: Labels | None) -> dict[str, float]:
        return metrics.accuracy(self.targets(y), self.targets([answer["label"] for answer in answers]))

    def details(self, answers: Sequence[LabelAnswer], y: Labels | None) -> dict[str, float]:
        reference = [self.labels[number] for number in self.targets(y)]
        return metrics.by_class(reference, [answer["label"] for answer in answers], self.labels)

    def _predicted_labels(self, answer: LabelAnswer) -> str:
        return answer["label"]

    def worst(self, answers: Sequence[LabelAnswer], y: Labels) -> list[int]:
        return sorted(self.mistakes(answers, y), key=lambda i: -answers[i]["probability"])

    def compared(self, answer: LabelAnswer, label: str | int) -> list[dict[str, object]]:
        return [{"label": label, **self.answer_columns(answer)}]

    def answer_columns(self, answer: LabelAnswer) -> dict[str, object]:
        return {"answer": answer["label"], "probability": answer["probability"]}

    def confusion(self, answers: Sequence[LabelAnswer], y: Labels) -> tuple[list[str], np.ndarray] | None:
        reference = [self.labels[number] for number in self.targets(y)]
        return self.labels, metrics.confusion_matrix(reference, [answer["label"] for answer in answers], self.labels)


class MultiLabel(ProblemType[list[LabelAnswer]]):
    """Any number of classes per text."""

    NAME = "multi_label_classification"
    FIELD = "labels"

    def loss(self) -> keras.losses.Loss:
        return keras.losses.BinaryCrossentropy(from_logits=True)

    def _targets(self, y: Labels) -> np.ndarray:
        if isinstance(y, np.ndarray) and y.dtype.kind in "biuf":
            _check_width(y, self.labels)
            return y
        if len(self.labels) > 1 and len(y) and all(_is_multi_hot(names, len(self.labels)) for names in y):
            raise ValueError(
                f"labels are rows of 0 and 1, which a list could also mean as indices; pass np.array(labels) if each "
                f"number stands for one of {', '.join(self.labels)}, or pass their names"
            )
        multi_hot = np.zeros((len(y), len(self.labels)), np.float32)
        for row, names in enumerate(y):
            multi_hot[row, self._label_indices(row, names)] = 1
        return multi_hot

    def _label_indices(self, row: int, names: object) -> list[int]:
        """Finds the indices of a text's labels."""
        if isinstance(names, str | bytes) or not isinstance(names, Collection):
            raise TypeError(f"labels[{row}] is {names!r:.60}; expected a list, since a text may have several labels")
        return [label_index(name, self.labels) for name in names]

    def target_warnings(self, targets: Targets) -> list[str]:
        return rare_label_warnings(self.labels, np.count_nonzero(targets, axis=0), "texts")

    def class_weights(self, weights: ClassWeight, targets: Targets | None) -> np.ndarray:
        """Lists the weights of a text without and with each label, float32 `[2, labels]`.

        Chosen weights are those of texts with the label; texts without it have 1. Balanced weights are those of two
        classes for each label, as in scikit-learn's one-vs-rest.
        """
        if isinstance(weights, Mapping):
            chosen = chosen_weights(weights, self.labels)
            return np.stack([np.ones_like(chosen), chosen])
        assert targets is not None  # `fit` refuses to balance a dataset
        positives = np.count_nonzero(targets, axis=0)
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
        for label, column in enumerate(np.asarray(targets).T > 0.5):
            weights = None if sample_weight is None else sample_weight[:, label]
            if column.all() or not column.any():
                odds = (column.sum() + 0.5) / (len(column) - column.sum() + 0.5)
                kernel, bias = np.zeros([features.shape[1], 1]), np.log([odds])
            else:
                kernel, bias = _regress(features, column, weights)
            kernels.append(kernel)
            biases.append(bias)
        return np.concatenate(kernels, axis=1), np.concatenate(biases)

    def values(self, logits: Tensor) -> Tensor:
        return ops.sigmoid(logits)

    def answer(self, values: np.ndarray) -> list[LabelAnswer]:
        return [each for each in self._sort_by_probability(values) if each["probability"] >= 0.5]

    def serving_outputs(self, values: tf.Tensor) -> dict[str, tf.Tensor]:
        return _label_outputs(tf.constant(self.labels), values)

    def distance(self, teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
        return ops.mean(divergence(_two_class_logits(teacher), _two_class_logits(student), temperature), axis=-1)

    def measures(self, answers: Sequence[list[LabelAnswer]], y: Labels | None) -> dict[str, float]:
        predicted = self.targets([self._predicted_labels(answer) for answer in answers])
        reference = np.asarray(self.targets(y))
        scores = metrics.f1(reference.astype(int), predicted.astype(int), "micro")
        return {"micro_f1": scores.pop("micro_f1"), **scores, **metrics.accuracy(reference, predicted)}

    def details(self, answers: Sequence[list[LabelAnswer]], y: Labels | None) -> dict[str, float]:
        predicted = self.targets([self._predicted_labels(answer) for answer in answers])
        return metrics.by_class(np.asarray(self.targets(y)).astype(int), predicted.astype(int), self.labels)

    def _predicted_labels(self, answer: list[LabelAnswer]) -> list[str]:
        return [each["label"] for each in answer]

    def worst(self, answers: Sequence[list[LabelAnswer]], y: Labels) -> list[int]:
        predicted = self.targets([self._predicted_labels(answer) for answer in answers])
        wrong_labels = np.count_nonzero(predicted != np.asarray(self.targets(y)), axis=1)
        return sorted(self.mistakes(answers, y), key=lambda i: -wrong_labels[i])

    def compared(self, answer: list[LabelAnswer], label: Sequence[str]) -> list[dict[str, object]]:
        predicted = ", ".join(f"{each['label']} ({each['probability']:.4f})" for each in answer)
        return [{"label": ", ".join(label), "answer": predicted}]


@keras.saving.register_keras_serializable(package="keras_bert")
class ScaledMeanSquaredError(keras.losses.Loss):
    """The mean squared error of numbers in units of their standard deviation: labels of any scale have the same loss.

    `fine_tune` takes it for regression. A model that always predicts the mean of the labels has a loss of about 1.

    Args:
        deviations: the standard deviation of each number, `[labels]`.

    Call arguments:
        y_true, y_pred: float `[batch, labels]`, in the user's unit.
    """

    def __init__(self, deviations: ArrayLike, name: str = "scaled_mean_squared_error", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.deviations = np.asarray(deviations, np.float32)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return ops.mean(ops.square((y_pred - ops.cast(y_true, y_pred.dtype)) / self.deviations), axis=-1)

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "deviations": self.deviations.tolist()}


class Regression(ProblemType[dict[str, float]]):
    """One or more numbers per text. Their names are the labels."""

    NAME = "regression"
    VALUES = "values"
    FIELD = "values"

    def loss(self) -> keras.losses.Loss:
        return keras.losses.MeanSquaredError()

    def loss_for(self, targets: tf.Tensor) -> keras.losses.Loss:
        return ScaledMeanSquaredError(self.location_and_scale(targets)[1])

    def _targets(self, y: Labels) -> np.ndarray:
        numbers = np.reshape(as_float32(y, "labels"), (len(y), -1 if len(y) else len(self.labels)))
        if not_finite := np.flatnonzero(~np.isfinite(numbers).all(axis=1)).tolist():
            raise ValueError(
                f"label {not_finite[0]} (from 0) is {numbers[not_finite[0]].tolist()}, which is not finite"
            )
        _check_width(numbers, self.labels)
        return numbers

    def location_and_scale(self, targets: Targets) -> tuple[np.ndarray, np.ndarray]:
        """Computes the mean and the standard deviation of the targets, 1 for equal targets.

        A head that starts from them learns equally well in any unit.
        """
        deviation = np.std(targets, axis=0, dtype=np.float64)
        return np.asarray(np.mean(targets, axis=0, dtype=np.float64)), np.where(deviation > 0, deviation, 1.0)

    def values(self, logits: Tensor) -> Tensor:
        return logits

    def answer(self, values: np.ndarray) -> dict[str, float]:
        return {label: float(value) for label, value in zip(self.labels, values, strict=True)}

    def serving_outputs(self, values: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"values": values}

    def distance(self, teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
        return ops.mean(ops.square(student - teacher), axis=-1)

    def measures(self, answers: Sequence[dict[str, float]], y: Labels | None) -> dict[str, float]:
        deviation = np.std(self.targets(y), axis=0)  # the RMSE of always predicting the mean of the labels
        labels, predictions = np.reshape(np.asarray(y, np.float64), (len(answers), -1)), _stack_numbers(answers)
        by_name = metrics.correlation(labels, predictions)
        correlations = {"spearman": by_name["spearman"], "pearson": by_name["pearson"]}
        return {**correlations, **metrics.errors(labels, predictions), "rmse_baseline": float(deviation.mean())}

    def mistakes(self, answers: Sequence[dict[str, float]], y: Labels) -> list[int]:
        """Finds the texts with an error of at least the root of the mean squared error, the largest error first.

        Of several numbers, each is compared with the root of its own column.
        """
        errors = self._relative_errors(answers, y)
        return [i for i in self.worst(answers, y) if errors[i] >= 1]

    def worst(self, answers: Sequence[dict[str, float]], y: Labels) -> list[int]:
        return np.argsort(-self._relative_errors(answers, y), kind="stable").tolist()

    def _relative_errors(self, answers: Sequence[dict[str, float]], y: Labels) -> np.ndarray:
        """Divides each text's errors by the root of their column's mean squared error; the largest, `[texts]`."""
        errors = np.abs(_stack_numbers(answers) - self.targets(y))
        root = np.sqrt(np.square(errors).mean(axis=0))
        return np.divide(errors, root, out=np.zeros_like(errors), where=root > 0).max(axis=1)

    def answer_columns(self, answer: dict[str, float]) -> dict[str, object]:
        return {"answer": answer[self.labels[0]] if len(self.labels) == 1 else answer}

    def compared(self, answer: dict[str, float], label: float | Sequence[float]) -> list[dict[str, object]]:
        return [
            {"number": name, "label": number, "answer": value}
            for (name, value), number in zip(answer.items(), np.ravel(label).tolist(), strict=True)
        ]


PROBLEM_TYPES = {each.NAME: each for each in (SingleLabel, MultiLabel, Regression)}


def _label_outputs(names: tf.Tensor, probabilities: tf.Tensor) -> dict[str, tf.Tensor]:
    return {"labels": tf.tile(names[None], [tf.shape(probabilities)[0], 1]), "probabilities": probabilities}


def _regress(
    features: np.ndarray, classes: np.ndarray, sample_weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Fits a logistic regression with scikit-learn's L2 penalty, after scaling features to a mean length of 1.

    The result is for features that are not scaled.

    Returns:
        kernel `[hidden, classes]` and bias `[classes]`; for two classes, those of the second one, of width 1.
    """
    regression = import_extra("sklearn.linear_model", "scikit-learn").LogisticRegression(max_iter=2000)
    length = np.linalg.norm(features, axis=1).mean()
    regression.fit(np.float64(features) / length, classes, sample_weight)
    return regression.coef_.T / length, regression.intercept_


def _class_indices(targets: Tensor) -> Tensor:
    """Finds the index of each text's class, int `[batch]`; of soft labels, `[batch, labels]`, the most probable."""
    if len(targets.shape) > 1 and targets.shape[-1] != 1:
        return tf.argmax(targets, axis=-1)
    return tf.cast(tf.reshape(targets, [-1]), tf.int64)


def _check_width(rows: np.ndarray, labels: Sequence[str]) -> None:
    if rows.ndim != 2 or rows.shape[1] != len(labels):
        raise ValueError(f"labels are an array of shape {rows.shape}; expected {(len(rows), len(labels))}")


def _is_multi_hot(row: object, width: int) -> bool:
    """Checks whether a text's labels could also be a row of 0 and 1, one for each label."""
    if not isinstance(row, Collection) or len(row) != width:
        return False
    return all(isinstance(each, int) and each in (0, 1) for each in row)


def _two_class_logits(logits: Tensor) -> Tensor:
    """Adds a last axis with the logits of "yes" and "no" for each label: `sigmoid(x) = softmax([x, 0])[0]`."""
    return ops.stack([logits, ops.zeros_like(logits)], axis=-1)


def _stack_numbers(answers: Sequence[Mapping[str, float]]) -> np.ndarray:
    """Stacks predicted numbers as float64 `[answers, labels]`."""
    return np.array([list(answer.values()) for answer in answers])

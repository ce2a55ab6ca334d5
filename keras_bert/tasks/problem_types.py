"""The three problem types of a classifier: what its logits, labels and answers mean.

Each is a class with the same methods, so that `BertClassifier` asks nowhere which one it has:

    SingleLabel    one class per text: softmax, cross-entropy
    MultiLabel     any number of classes per text: a sigmoid and binary cross-entropy for each
    Regression     numbers: the logits themselves, mean squared error
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.tasks import metrics
from keras_bert.tasks.columns import number_of, numbers_of, numeric, plain_labels, rare
from keras_bert.tasks.training_step import divergence


class ProblemType:
    """What the three have in common.

    Args:
        labels: the names of the classes, or numbers, in the order of the logits.
    """

    NAME: ClassVar[str]  # Hugging Face's
    LEAST_LABELS: ClassVar[int] = 1
    VALUES: ClassVar[str] = "probabilities"  # the name of `values` in signatures
    # The field of `answer_fields` that holds an answer; None: an answer is a dict of fields.
    FIELD: ClassVar[str | None] = None

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = labels

    def check_loss_targets(self, targets: tf.Tensor) -> None:
        """Raises ValueError if the loss cannot take these targets."""

    def targets(self, y: Any) -> Any:
        """Turns labels, names or indices, into targets of the loss; see `BertClassifier.targets`."""
        y = plain_labels(y, self.labels)
        return y if y is None or tf.is_tensor(y) or isinstance(y, tf.data.Dataset) else self._targets(y)

    def target_warnings(self, targets: Any) -> list[str]:
        """Warns of targets with which little can be learned; see `BertTask.target_warnings`."""
        return []

    def location_and_scale(self, targets: Any) -> tuple[np.ndarray, np.ndarray] | None:
        """Computes what a head's logits are to be like, `[labels]` each; None: like 0 and 1."""
        return None

    def class_weights(self, weights: Mapping[Any, float]) -> dict[int, float]:
        """Numbers the weights of classes by index. Raises ValueError if texts have no single class."""
        raise ValueError("class_weight is only for classifiers that give each text one class")

    def details(self, answers: Sequence[Any], y: Any) -> dict[str, float]:
        return {}

    def mistakes(self, answers: Sequence[Any], y: Any) -> list[int]:
        """Finds the texts with a wrong answer."""
        wrong = np.asarray(self.targets(y)) != np.asarray(self.targets([self._predicted(each) for each in answers]))
        return np.flatnonzero(wrong.reshape(len(answers), -1).any(axis=1)).tolist()

    def answer_columns(self, answer: Any) -> dict[str, Any]:
        """Names the columns of an answer; see `BertTask.answer_columns`."""
        return {"answer": answer}

    def confusion(self, answers: Sequence[Any], y: Any) -> tuple[list[str], np.ndarray] | None:
        return None

    def _by_probability(self, values: np.ndarray) -> list[dict[str, Any]]:
        order = np.argsort(-values, kind="stable")
        return [{"label": self.labels[i], "probability": float(values[i])} for i in order]


class SingleLabel(ProblemType):
    """One class per text."""

    NAME = "single_label_classification"
    LEAST_LABELS = 2

    def loss(self) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def check_loss_targets(self, targets: tf.Tensor) -> None:
        if len(targets.shape) > 1:
            raise ValueError(
                f"labels are an array of shape {tuple(targets.shape)}; pass one label a text, such as "
                "labels.argmax(axis=1), or a loss for such labels"
            )

    def _targets(self, y: Any) -> np.ndarray:
        if isinstance(y, np.ndarray) and y.ndim > 1 and y.dtype.kind in "biuf":  # probabilities, for another loss
            return y
        if len(y) and np.ndim(y[0]):
            return numbers_of(y, "rows of labels")
        return np.array([number_of(label, self.labels) for label in y], np.int32)

    def target_warnings(self, targets: Any) -> list[str]:
        if np.ndim(targets) > 1:
            return []
        counts = np.bincount(np.ravel(targets), minlength=len(self.labels))
        return [*numeric(self.labels), *rare(self.labels, counts, "texts")]

    def class_weights(self, weights: Mapping[Any, float]) -> dict[int, float]:
        numbered: dict[int, float] = {}
        for label, weight in weights.items():
            try:
                number = number_of(label, self.labels)
            except ValueError:
                known = ", ".join(self.labels)
                raise ValueError(f"class_weight names {label}, but the labels are {known}") from None
            if number in numbered:
                raise ValueError(f"class_weight has {self.labels[number]} twice: by its name, and as {number}")
            numbered[number] = float(weight)
        return {number: numbered.get(number, 1.0) for number in range(len(self.labels))}

    def values(self, logits: Any) -> Any:
        """Computes probabilities, or numbers, float32 `[batch, labels]`, from logits of that shape."""
        return ops.softmax(logits)

    def answer(self, values: np.ndarray) -> Any:
        """Makes the answer to a text from its values, `[labels]`."""
        return self._by_probability(values)[0]

    def served(self, values: tf.Tensor) -> dict[str, tf.Tensor]:
        """Names the outputs of a serving signature, in the graph."""
        names = tf.constant(self.labels)
        best = {"label": tf.gather(names, tf.argmax(values, axis=-1)), "probability": tf.reduce_max(values, axis=-1)}
        return {**_named(names, values), **best}

    def distance(self, teacher: Any, student: Any, temperature: float) -> Any:
        """Computes how far a student's logits are from a teacher's, float32 `[batch]`."""
        return divergence(teacher, student, temperature)

    def measures(self, answers: Sequence[Any], y: Any) -> dict[str, float]:
        return metrics.accuracy(self.targets(y), self.targets([answer["label"] for answer in answers]))

    def details(self, answers: Sequence[Any], y: Any) -> dict[str, float]:
        reference = [self.labels[number] for number in self.targets(y)]
        return metrics.by_class(reference, [answer["label"] for answer in answers], self.labels)

    def _predicted(self, answer: Any) -> Any:
        """The labels of an answer, as `targets` takes them."""
        return answer["label"]

    def worst(self, answers: Sequence[Any], y: Any) -> list[int]:
        return sorted(self.mistakes(answers, y), key=lambda i: -answers[i]["probability"])

    def compared(self, answer: Any, label: Any) -> list[dict[str, Any]]:
        return [{"label": label, **self.answer_columns(answer)}]

    def answer_columns(self, answer: Any) -> dict[str, Any]:
        return {"answer": answer["label"], "probability": answer["probability"]}

    def confusion(self, answers: Sequence[Any], y: Any) -> tuple[list[str], np.ndarray] | None:
        return self.labels, metrics.confusion_matrix(y, [answer["label"] for answer in answers], self.labels)


class MultiLabel(ProblemType):
    """Any number of classes per text."""

    NAME = "multi_label_classification"
    FIELD = "labels"

    def loss(self) -> keras.losses.Loss:
        return keras.losses.BinaryCrossentropy(from_logits=True)

    def _targets(self, y: Any) -> np.ndarray:
        if isinstance(y, np.ndarray) and y.dtype.kind in "biuf":
            _check_width(y, self.labels)
            return y
        hot = np.zeros((len(y), len(self.labels)), np.float32)
        for row, names in enumerate(y):
            hot[row, self._numbers(row, names)] = 1
        if len(self.labels) > 1 and len(y) and all(_is_hot(names, len(self.labels)) for names in y):
            raise ValueError(
                f"labels are rows of 0 and 1, which a list could also mean as indices; pass np.array(labels) if each "
                f"number stands for one of {', '.join(self.labels)}, or pass their names"
            )
        return hot

    def _numbers(self, row: int, names: Any) -> list[int]:
        """The indices of a text's labels."""
        if isinstance(names, str | bytes) or not isinstance(names, Collection):
            raise TypeError(f"labels[{row}] is {names!r:.60}; expected a list, since a text may have several labels")
        return [number_of(name, self.labels) for name in names]

    def target_warnings(self, targets: Any) -> list[str]:
        return rare(self.labels, np.count_nonzero(targets, axis=0), "texts")

    def values(self, logits: Any) -> Any:
        return ops.sigmoid(logits)

    def answer(self, values: np.ndarray) -> Any:
        return [each for each in self._by_probability(values) if each["probability"] >= 0.5]

    def served(self, values: tf.Tensor) -> dict[str, tf.Tensor]:
        return _named(tf.constant(self.labels), values)

    def distance(self, teacher: Any, student: Any, temperature: float) -> Any:
        return ops.mean(divergence(_or_not(teacher), _or_not(student), temperature), axis=-1)

    def measures(self, answers: Sequence[Any], y: Any) -> dict[str, float]:
        predicted = self.targets([self._predicted(answer) for answer in answers])
        reference = np.asarray(self.targets(y))
        measured = metrics.f1(reference.astype(int), predicted.astype(int), "micro")
        return {"micro_f1": measured.pop("micro_f1"), **measured, **metrics.accuracy(reference, predicted)}

    def details(self, answers: Sequence[Any], y: Any) -> dict[str, float]:
        predicted = self.targets([self._predicted(answer) for answer in answers])
        return metrics.by_class(np.asarray(self.targets(y)).astype(int), predicted.astype(int), self.labels)

    def _predicted(self, answer: Any) -> Any:
        return [each["label"] for each in answer]

    def worst(self, answers: Sequence[Any], y: Any) -> list[int]:
        wrong = [set(self._predicted(answer)) ^ set(label) for answer, label in zip(answers, y, strict=True)]
        return sorted(self.mistakes(answers, y), key=lambda i: -len(wrong[i]))

    def compared(self, answer: Any, label: Any) -> list[dict[str, Any]]:
        predicted = ", ".join(f"{each['label']} ({each['probability']:.4f})" for each in answer)
        return [{"label": ", ".join(label), "answer": predicted}]


class Regression(ProblemType):
    """Numbers. Their names are the labels."""

    NAME = "regression"
    VALUES = "values"
    FIELD = "values"

    def loss(self) -> keras.losses.Loss:
        return keras.losses.MeanSquaredError()

    def _targets(self, y: Any) -> np.ndarray:
        numbers = np.reshape(numbers_of(y, "labels"), (len(y), -1 if len(y) else len(self.labels)))
        if bad := np.flatnonzero(~np.isfinite(numbers).all(axis=1)).tolist():
            raise ValueError(f"label {bad[0]} (from 0) is {numbers[bad[0]].tolist()}, which is not finite")
        _check_width(numbers, self.labels)
        return numbers

    def location_and_scale(self, targets: Any) -> tuple[np.ndarray, np.ndarray] | None:
        """Computes the mean and the standard deviation of the targets: a head learns the rest, in any unit alike."""
        spread = np.std(targets, axis=0, dtype=np.float64)
        return np.mean(targets, axis=0, dtype=np.float64), np.where(spread > 0, spread, 1.0)

    def values(self, logits: Any) -> Any:
        return logits

    def answer(self, values: np.ndarray) -> Any:
        return {label: float(value) for label, value in zip(self.labels, values, strict=True)}

    def served(self, values: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"values": values}

    def distance(self, teacher: Any, student: Any, temperature: float) -> Any:
        return ops.mean(ops.square(student - teacher), axis=-1)

    def measures(self, answers: Sequence[Any], y: Any) -> dict[str, float]:
        labels, predictions = np.ravel(np.asarray(y, np.float64)), np.ravel(_numbers(answers))
        measured = metrics.correlation(labels, predictions)
        ranks = {"spearman": measured["spearman"], "pearson": measured["pearson"]}
        spread = np.std(self.targets(y), axis=0)  # the RMSE of always saying the mean of the labels
        baseline = {"rmse_baseline": float(np.sqrt(np.square(spread).mean()))}
        return {**ranks, **metrics.errors(labels, predictions), **baseline}

    def mistakes(self, answers: Sequence[Any], y: Any) -> list[int]:
        """Finds the texts with an error of at least the root of the mean squared error, the largest error first."""
        errors = np.abs(_numbers(answers) - self.targets(y)).max(axis=1)
        large = (errors >= metrics.errors(self.targets(y), _numbers(answers))["rmse"]) & (errors > 0)
        return [i for i in self.worst(answers, y) if large[i]]

    def worst(self, answers: Sequence[Any], y: Any) -> list[int]:
        return np.argsort(-np.abs(_numbers(answers) - self.targets(y)).max(axis=1), kind="stable").tolist()

    def answer_columns(self, answer: Any) -> dict[str, Any]:
        return {"answer": answer[self.labels[0]] if len(self.labels) == 1 else answer}

    def compared(self, answer: Any, label: Any) -> list[dict[str, Any]]:
        return [
            {"number": name, "label": number, "answer": value}
            for (name, value), number in zip(answer.items(), np.ravel(label).tolist(), strict=True)
        ]


PROBLEM_TYPES = {each.NAME: each for each in (SingleLabel, MultiLabel, Regression)}


def _named(names: tf.Tensor, probabilities: tf.Tensor) -> dict[str, tf.Tensor]:
    return {"labels": tf.tile(names[None], [tf.shape(probabilities)[0], 1]), "probabilities": probabilities}


def _check_width(rows: np.ndarray, labels: Sequence[str]) -> None:
    if rows.ndim != 2 or rows.shape[1] != len(labels):
        raise ValueError(f"labels are an array of shape {rows.shape}; expected {(len(rows), len(labels))}")


def _is_hot(row: Any, width: int) -> bool:
    """Whether a text's labels look like a row of 0 and 1, one for each label."""
    return len(row) == width and all(isinstance(each, int) and each in (0, 1) for each in row)


def _or_not(logits: Any) -> Any:
    """Logits of labels -> logits of "yes" and "no" for each label, on a new last axis."""
    return ops.stack([logits, ops.zeros_like(logits)], axis=-1)


def _numbers(answers: Sequence[Mapping[str, float]]) -> np.ndarray:
    """float64 `[answers, labels]`."""
    return np.array([list(answer.values()) for answer in answers])

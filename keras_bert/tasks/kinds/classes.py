"""Kinds of texts' labels: Classes (one a text), Several (any number) and Numbers. They differ in loss and answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypedDict

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.extras import import_extra
from keras_bert.tasks import metrics
from keras_bert.tasks.base.columns import (
    Labels,
    Targets,
    as_float32,
    label_index,
    numeric_label_warnings,
    rare_label_warnings,
)
from keras_bert.tasks.heads import ClassifierHead
from keras_bert.tasks.kinds import A, Kind, Score, TaughtBatch, only_answer, share_of_most_frequent
from keras_bert.tasks.kinds.class_weights import ClassWeight, balanced_weights, chosen_weights
from keras_bert.tasks.losses.class_losses import ScaledMeanSquaredError
from keras_bert.tasks.training_step import LossTerm, averaged, divergence, weighted_mean
from keras_bert.tensors import Tensor

if TYPE_CHECKING:
    pass


class LabelAnswer(TypedDict):
    """A predicted label, and its probability, 0 to 1."""

    label: str
    probability: float


# The prediction for a text, by problem type: a LabelAnswer, a list[LabelAnswer], or for regression a dict[str, float].
TextAnswer: TypeAlias = "LabelAnswer | Any"


_LOW_LOGIT = -10.0  # of a class without examples


class OfTexts(Kind[A]):
    """A kind of labels of whole texts, with an output of the head for each of `labels`.

    ========  =======================================================================
    Kind      Measures
    ========  =======================================================================
    Classes   `accuracy`
    Several   `micro_f1`, `micro_precision`, `micro_recall`, `accuracy`
    Numbers   `spearman`, `pearson`, `mae`, `rmse`, and `rmse_baseline`, the `rmse` of
              always predicting the mean of the labels
    ========  =======================================================================
    """

    PROBLEM_TYPE: ClassVar[str]  # Hugging Face's
    LEAST_LABELS: ClassVar[int] = 1
    VALUES: ClassVar[str] = "probabilities"  # the name of `values` in serving signatures

    def __init__(self, labels: list[str]) -> None:
        self.labels = self.label_columns = labels

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
        raise NotImplementedError

    def answers(self, logits: np.ndarray) -> list[A]:
        """Makes the answers for texts, with values in float64, whose values near 1 differ for longer."""
        return [*map(self.answer, logits, ops.convert_to_numpy(self.values(logits.astype(np.float64))))]

    def answer(self, logits: np.ndarray, values: np.ndarray) -> A:
        """Makes the answer for a text from its values, `[labels]`, in the order of its logits."""
        raise NotImplementedError

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

    def right_answers(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> list[Any]:
        values = np.asarray(self.targets(labels))
        values = values if values.ndim == 2 else np.eye(len(self.labels))[values]
        return [*map(self.answer, values, values)]

    def _most_probable_first(self, logits: np.ndarray, values: np.ndarray) -> list[LabelAnswer]:
        order = np.argsort(-logits, kind="stable")
        return [{"label": self.labels[index], "probability": float(values[index])} for index in order]


class Classes(OfTexts[LabelAnswer]):
    """One class per text."""

    PROBLEM_TYPE = "single_label_classification"
    LEAST_LABELS = 2

    def loss(self) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def loss_for(self, targets: Targets, columns: int) -> keras.losses.Loss:
        if len(targets.shape) > 1:
            raise ValueError(
                f"labels are an array of shape {tuple(targets.shape)}; pass one label a text, such as "
                "labels.argmax(axis=1), or a loss for such labels"
            )
        return self.loss()

    def _targets(self, labels: Labels) -> np.ndarray:
        if len(labels) and np.ndim(labels[0]):  # soft labels, for another loss; or a column of indices
            if isinstance(labels, np.ndarray) and labels.dtype.kind in "biuf":
                rows = labels
            else:
                rows = as_float32(labels, "rows of labels")
            if rows.shape[1:] == (1,):
                self._targets(rows[:, 0])  # raises
            else:
                _check_rows(rows, self.labels)
            return rows
        return np.array([label_index(label, self.labels) for label in labels], np.int32)

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

    def values(self, logits: Tensor) -> Tensor:
        return ops.softmax(logits)

    def answer(self, logits: np.ndarray, values: np.ndarray) -> LabelAnswer:
        return self._most_probable_first(logits, values)[0]

    def serving_outputs(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        names, values = tf.constant(self.labels), self.values(logits)
        best = {"label": tf.gather(names, tf.argmax(logits, axis=-1)), "probability": tf.reduce_max(values, axis=-1)}
        return {**_label_outputs(names, values), **best}

    def distance(self, teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
        return divergence(teacher, student, temperature)

    def score(self, answers: Sequence[LabelAnswer], labels: Labels | None) -> Score:
        """Measures `accuracy`. The error of a wrong answer is its probability."""
        reference, names = np.asarray(self.targets(labels)), [answer["label"] for answer in answers]
        predicted = self.targets(names)
        measures = metrics.accuracy(reference, predicted)
        columns = [self.labels[number] for number in reference.ravel()], names, self.labels
        return Score(
            measures,
            np.where(reference == predicted, 0.0, [answer["probability"] for answer in answers]),
            compute_details=lambda: metrics.by_class(*columns),
            compute_confusion=lambda: (self.labels, metrics.confusion_matrix(*columns)),
            baselines={"accuracy": share_of_most_frequent(columns[0])},
            only_answer=only_answer(names, columns[0]),
        )

    def fields(self, answer: LabelAnswer) -> Mapping[str, object]:
        return answer

    def columns(self, answer: LabelAnswer) -> dict[str, object]:
        return {"answer": answer["label"], "probability": answer["probability"]}


class Several(OfTexts[list[LabelAnswer]]):
    """Any number of classes per text."""

    PROBLEM_TYPE = "multi_label_classification"

    def loss(self) -> keras.losses.Loss:
        return keras.losses.BinaryCrossentropy(from_logits=True)

    def _targets(self, labels: Labels) -> np.ndarray:
        if isinstance(labels, np.ndarray) and labels.dtype.kind in "biuf":
            _check_rows(labels, self.labels, lowest=0, highest=1)
            return labels
        if len(self.labels) > 1 and len(labels) and all(_is_multi_hot(names, len(self.labels)) for names in labels):
            raise ValueError(
                f"labels are rows of 0 and 1, which a list could also mean as indices; pass np.array(labels) if each "
                f"number stands for one of {', '.join(self.labels)}, or pass their names"
            )
        multi_hot = np.zeros((len(labels), len(self.labels)), np.float32)
        for row, names in enumerate(labels):
            if isinstance(names, str | bytes) or not isinstance(names, Collection):
                raise TypeError(
                    f"labels[{row}] is {names!r:.60}; expected a list, since a text may have several labels"
                )
            multi_hot[row, [label_index(name, self.labels) for name in names]] = 1
        return multi_hot

    def warnings(self, targets: Targets) -> list[str]:
        return rare_label_warnings(self.labels, np.count_nonzero(_is_yes(targets), axis=0), "texts")

    def class_weights(self, weights: ClassWeight, targets: Targets | None) -> np.ndarray:
        """Lists the weights of a text without and with each label, float32 `[2, labels]`.

        Chosen weights are those of texts with the label; texts without it have 1. Balanced weights are those of two
        classes for each label, as in scikit-learn's one-vs-rest.
        """
        if isinstance(weights, Mapping):
            chosen = chosen_weights(weights, self.labels)
            return np.stack([np.ones_like(chosen), chosen])
        assert targets is not None  # `fit` refuses to balance a dataset
        positives = np.count_nonzero(_is_yes(targets), axis=0)
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
        for label, column in enumerate(_is_yes(targets).T):
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

    def answer(self, logits: np.ndarray, values: np.ndarray) -> list[LabelAnswer]:
        return [each for each in self._most_probable_first(logits, values) if each["probability"] >= 0.5]

    def serving_outputs(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return _label_outputs(tf.constant(self.labels), self.values(logits))

    def distance(self, teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
        return ops.mean(divergence(_two_class_logits(teacher), _two_class_logits(student), temperature), axis=-1)

    def score(self, answers: Sequence[list[LabelAnswer]], labels: Labels | None) -> Score:
        """Measures `micro_f1` and others; 0.5 is a yes. The error of an answer is its number of wrong labels."""
        predicted = self.targets([[each["label"] for each in answer] for answer in answers])
        columns = _is_yes(self.targets(labels)).astype(int), _is_yes(predicted).astype(int)
        scores = metrics.f1(*columns, "micro")
        names = np.array(self.labels)
        rows = [[", ".join(names[row > 0]) or "no label" for row in each] for each in columns]
        return Score(
            {"micro_f1": scores.pop("micro_f1"), **scores, **metrics.accuracy(*columns)},
            np.count_nonzero(np.not_equal(*columns), axis=1).astype(float),
            compute_details=lambda: metrics.by_class(*columns, self.labels),
            baselines={"accuracy": share_of_most_frequent(rows[0])},
            only_answer=only_answer(rows[1], rows[0]),
        )

    def fields(self, answer: list[LabelAnswer]) -> Mapping[str, object]:
        return {"labels": answer}

    def compared(self, answer: list[LabelAnswer], label: Sequence[str]) -> list[dict[str, object]]:
        predicted = ", ".join(f"{each['label']} ({each['probability']:.4f})" for each in answer)
        return [{"label": ", ".join(label), "answer": predicted}]


class Numbers(OfTexts[dict[str, float]]):
    """One or more numbers per text. Their names are the labels."""

    PROBLEM_TYPE = "regression"
    VALUES = "values"

    def loss(self) -> keras.losses.Loss:
        return keras.losses.MeanSquaredError()

    def loss_for(self, targets: Targets, columns: int) -> keras.losses.Loss:
        return ScaledMeanSquaredError(_location_and_scale(targets)[1])

    def _targets(self, labels: Labels) -> np.ndarray:
        numbers = np.reshape(as_float32(labels, "labels"), (len(labels), -1 if len(labels) else len(self.labels)))
        _check_rows(numbers, self.labels)
        return numbers

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

    def values(self, logits: Tensor) -> Tensor:
        return logits

    def answer(self, logits: np.ndarray, values: np.ndarray) -> dict[str, float]:
        return {label: float(value) for label, value in zip(self.labels, values, strict=True)}

    def serving_outputs(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"values": self.values(logits)}

    def distance(self, teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
        return ops.mean(ops.square(student - teacher), axis=-1)

    def score(self, answers: Sequence[dict[str, float]], labels: Labels | None) -> Score:
        """Measures `spearman` and others. An answer's error is that in units of the column's `rmse`, from 1 a mistake.

        Of several numbers, each is measured by itself: measures are means over the numbers, the error is the largest.
        """
        reference, predictions = self.targets(labels), np.array([list(answer.values()) for answer in answers])
        deviation = np.std(reference, axis=0)  # the RMSE of always predicting the mean of the labels
        exact = np.reshape(np.asarray(labels, np.float64), (len(answers), -1))
        measures = {**metrics.correlation(exact, predictions), **metrics.errors(exact, predictions)}
        measures["rmse_baseline"] = float(deviation.mean())
        errors = np.abs(predictions - reference)
        root = np.sqrt(np.square(errors).mean(axis=0))
        errors = np.divide(errors, root, out=np.zeros_like(errors), where=root > 0).max(axis=1)
        mean_errors = metrics.errors(exact, np.broadcast_to(exact.mean(axis=0), exact.shape))
        return Score(measures, errors, least_mistake=1, baselines={"mae": mean_errors["mae"]})

    def fields(self, answer: dict[str, float]) -> Mapping[str, object]:
        return {"values": answer}

    def columns(self, answer: dict[str, float]) -> dict[str, object]:
        return {"answer": answer[self.labels[0]] if len(self.labels) == 1 else answer}

    def compared(self, answer: dict[str, float], label: float | Sequence[float]) -> list[dict[str, object]]:
        return [
            {"number": name, "label": number, "answer": value}
            for (name, value), number in zip(answer.items(), np.ravel(label).tolist(), strict=True)
        ]


KINDS = {each.PROBLEM_TYPE: each for each in (Classes, Several, Numbers)}


def _label_outputs(names: tf.Tensor, probabilities: tf.Tensor) -> dict[str, tf.Tensor]:
    return {"labels": tf.tile(names[None], [tf.shape(probabilities)[0], 1]), "probabilities": probabilities}


def _regress(
    features: np.ndarray, classes: np.ndarray, sample_weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Fits a logistic regression, L2: kernel `[hidden, classes]` and bias `[classes]`; of two classes, the second's.

    Features are scaled to a mean length of 1 before; the result is for features that are not.
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


def _check_rows(
    rows: np.ndarray, labels: Sequence[str], lowest: float | None = None, highest: float | None = None
) -> None:
    """Raises ValueError unless each row has a finite number, within the limits, for each of `labels`."""
    if rows.ndim != 2 or rows.shape[1] != len(labels):
        raise ValueError(f"labels are an array of shape {rows.shape}; expected {(len(rows), len(labels))}")
    if not_finite := np.flatnonzero(~np.isfinite(rows).all(axis=1)).tolist():
        raise ValueError(f"label {not_finite[0]} (from 0) is {rows[not_finite[0]].tolist()}, which is not finite")
    if lowest is not None and (bad := np.flatnonzero(((rows < lowest) | (rows > highest)).any(axis=1)).tolist()):
        raise ValueError(
            f"label {bad[0]} (from 0) is {rows[bad[0]].tolist()}; expected numbers from {lowest} (no) to {highest} "
            f"(yes), one for each of {', '.join(labels)}"
        )


def _is_yes(targets: Targets) -> np.ndarray:
    """Decides soft labels, `[texts, labels]`: 0.5 is a yes."""
    return np.asarray(targets) >= 0.5


def _is_multi_hot(row: object, width: int) -> bool:
    """Checks whether a text's labels could also be a row of 0 and 1, one for each label."""
    if not isinstance(row, Collection) or len(row) != width:
        return False
    return all(isinstance(each, int) and each in (0, 1) for each in row)


def _two_class_logits(logits: Tensor) -> Tensor:
    """Adds a last axis with the logits of "yes" and "no" for each label: `sigmoid(x) = softmax([x, 0])[0]`."""
    return ops.stack([logits, ops.zeros_like(logits)], axis=-1)


def _location_and_scale(targets: Targets) -> tuple[np.ndarray, np.ndarray]:
    """Computes the mean and the standard deviation, 1 for equal targets, of each number, `[labels]`."""
    deviation = np.std(targets, axis=0, dtype=np.float64)
    return np.asarray(np.mean(targets, axis=0, dtype=np.float64)), np.where(deviation > 0, deviation, 1.0)

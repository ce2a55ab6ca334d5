"""BertClassifier: classification and regression of texts or pairs (Devlin et al. 2018, section 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeAlias, TypedDict, TypeVar, overload

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.data import TextExamples
from keras_bert.encoder import BertEncoder
from keras_bert.formats import hugging_face
from keras_bert.tasks import metrics
from keras_bert.tasks.by_length import ByLength
from keras_bert.tasks.columns import (
    Inputs,
    Labels,
    Targets,
    Texts,
    as_float32,
    checked_labels,
    columns_of,
    label_index,
    numeric_label_warnings,
    one_or_many,
    plain_labels,
    rare_label_warnings,
)
from keras_bert.tasks.long_text import POOLINGS, classify_texts
from keras_bert.tasks.storable import Settings, TaskPreset
from keras_bert.tasks.task import BertTask, TokenizedExamples
from keras_bert.tasks.training_step import Part, divergence, weighted_mean
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor


class LabelAnswer(TypedDict):
    """A predicted label, and its probability, 0 to 1."""

    label: str
    probability: float


# The prediction for a text, by problem type: a LabelAnswer, a list[LabelAnswer], or for regression a dict[str, float].
TextAnswer: TypeAlias = "LabelAnswer | Any"


@keras.saving.register_keras_serializable(package="keras_bert")
class BertClassifier(BertTask):
    """An encoder with a head that predicts the class of a text, or of a pair of texts.

    Use it for sentiment or topics (single texts), entailment or paraphrase (pairs), tags (multi-label classification)
    and graded similarity (regression).

    Args:
        encoder, preprocessor: see `BertTask`. A preprocessor with a stride splits long texts into windows; another one
            truncates them.
        labels: the names of the classes; for regression, the names of the numbers.
        problem_type: "single_label_classification" (one class per text), "multi_label_classification" (any number of
            classes) or "regression".
        pairs: whether inputs are pairs of texts.
        window_pooling: "mean" or "max": how to pool the windows of a long text.
        dropout: the rate before the head; by default the encoder's `hidden_dropout`.

    Call arguments:
        inputs: texts, pairs, or packed inputs, see `BertTask`.

    Returns:
        float32 `[batch, labels]`: logits; for regression the numbers themselves.

    Raises:
        TypeError: the encoder or the preprocessor has another class, or `labels` is not an ordered collection of str.
        ValueError: `problem_type`, `window_pooling` or `dropout` is invalid, or there are too few or equal labels.

    Example:
        >>> model = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["good", "bad"])
        >>> tuple(model(["What a film!", "Never again."]).shape)
        (2, 2)
        >>> [answer["label"] in ("good", "bad") for answer in model.classify(["What a film!", "Never again."])]
        [True, True]
    """

    preprocessor: BertPreprocessor
    _by_length: ByLength

    HEAD = "sequence"
    EXAMPLES = TextExamples
    SETTINGS_IN_OTHER_FILES = ("labels", "problem_type")
    ANSWERS_PROGRAM = """\
labels = open("labels.txt", encoding="utf-8").read().splitlines()
for values in outputs.get("probabilities", outputs.get("values")):
    print(dict(zip(labels, values.tolist())))"""

    def __init__(
        self,
        encoder: BertEncoder,
        preprocessor: BertPreprocessor,
        labels: Sequence[str],
        problem_type: str = "single_label_classification",
        pairs: bool = False,
        window_pooling: str = "mean",
        dropout: float | None = None,
        **kwargs: Any,
    ) -> None:
        if problem_type not in PROBLEM_TYPES:
            raise ValueError(f"problem_type is {problem_type!r}; expected {', '.join(PROBLEM_TYPES)}")
        if window_pooling not in POOLINGS:
            raise ValueError(f"window_pooling is {window_pooling!r}; expected {' or '.join(POOLINGS)}")
        problem = PROBLEM_TYPES[problem_type]
        labels = checked_labels(labels, min_count=problem.LEAST_LABELS)
        super().__init__(encoder, preprocessor, **kwargs)
        self.labels = labels
        self._problem: ProblemType[Any] = problem(labels)
        self.pairs = pairs
        self.window_pooling = window_pooling
        self._add_head(len(labels), dropout)

    @property
    def problem_type(self) -> str:
        """Hugging Face's name of the problem type."""
        return self._problem.NAME

    @property
    def text_names(self) -> tuple[str, ...]:
        return ("text", "text_pair") if self.pairs else ("text",)

    def call(self, inputs: Inputs, training: bool | None = None) -> Tensor:
        if not isinstance(inputs, dict):
            self._check_pairs(isinstance(inputs, tuple | list))
        logits = classify_texts(self.encoder, self.head, self.packed(inputs), self.window_pooling, training)
        return ops.cast(logits, "float32")

    def training_loss(self) -> keras.losses.Loss:
        """Makes the loss to compile with: cross-entropy, binary cross-entropy per label, or mean squared error."""
        return self._problem.loss()

    def loss_for(self, examples: TokenizedExamples) -> keras.losses.Loss:
        self._problem.check_loss_targets(examples.targets)
        return self.training_loss()

    @overload
    def classify(
        self, text: str, text_pair: str | None = None, batch_tokens: int = 1024, progress: bool | None = None
    ) -> TextAnswer: ...
    @overload
    def classify(
        self,
        text: Iterable[str],
        text_pair: Iterable[str] | None = None,
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> list[TextAnswer]: ...
    def classify(
        self,
        text: str | Iterable[str],
        text_pair: str | Iterable[str] | None = None,
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> TextAnswer | list[TextAnswer]:
        """Predicts the label of a text or pair, or of many.

        Args:
            text: a str, or many.
            text_pair: for pairs, the second text: a str, or as many as there are first texts.
            batch_tokens: the most tokens in a batch, padding included; a longer text is a batch of its own.
            progress: whether to show a progress bar; by default on a terminal, if it takes longer than a second.

        Returns:
            The prediction for a text, or a list of predictions for many texts.

            =============  ======================================================================================
            Problem type   Prediction
            =============  ======================================================================================
            single-label   a dict of `label` and `probability`, 0 to 1
            multi-label    a list of such dicts, for the labels of probability 0.5 or more, most probable first
            regression     a dict from label to number
            =============  ======================================================================================

        Raises:
            TypeError: an item is not a str, or one argument is a single str and the other is not.
            ValueError: the classifier takes pairs but gets single texts, or the reverse; or the numbers of first and
                second texts differ.

        Warns:
            UserWarning: the number of texts that were truncated to the model's maximum length.
        """
        self._check_pairs(text_pair is not None)
        is_one, texts = one_or_many(text, *(() if text_pair is None else (text_pair,)))
        answers: list[TextAnswer] = []
        for chunk in self._by_length(texts, batch_tokens, progress):
            values = ops.convert_to_numpy(self._problem.values(np.stack(chunk)))  # [texts, labels]
            answers.extend(map(self._problem.answer, values))
        return answers[0] if is_one else answers

    @property
    def serve(self) -> Callable[..., dict[str, tf.Tensor]]:
        """The serving signature, for `text`, or for `text` and `text_pair`, string `[batch]` each.

        Its outputs are strings for labels, and float32 for numbers:

        =============  ==========================  ==============================================
        Problem type   `[batch, labels]`           `[batch]`
        =============  ==========================  ==============================================
        single-label   `labels`, `probabilities`   the most probable `label`, its `probability`
        multi-label    `labels`, `probabilities`   none
        regression     `values`                    none
        =============  ==========================  ==============================================
        """

        def serve_texts(text: tf.Tensor) -> dict[str, tf.Tensor]:
            return self._serving_outputs(self(text, training=False))

        def serve_pairs(text: tf.Tensor, text_pair: tf.Tensor) -> dict[str, tf.Tensor]:
            return self._serving_outputs(self((text, text_pair), training=False))

        return serve_pairs if self.pairs else serve_texts

    def _serving_outputs(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._problem.serving_outputs(self._problem.values(logits))

    def serve_packed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `logits`, and `probabilities` (regression: `values`), float32 `[batch, labels]` each."""
        logits = self(inputs, training=False)
        return {"logits": logits, self._problem.VALUES: self._problem.values(logits)}

    def targets(self, y: Labels | None) -> Targets:
        """Converts labels, as names or indices, to targets of the loss.

        Tensors, and arrays with a row per text, stay as they are.

        Raises:
            TypeError: `y` does not hold the labels of many texts.
            ValueError: there is no label of this name or index, a row has more or fewer labels than the model, or for
                regression a value is not a finite number.
        """
        return self._problem.targets(y)

    @property
    def label_columns(self) -> Sequence[str]:
        return self.labels

    def examples(self, x: Texts, y: Labels | None) -> TokenizedExamples:
        self._check_pairs(len(columns_of(x)) > 1)
        return super().examples(x, y)

    def _check_pairs(self, are_pairs: bool) -> None:
        if are_pairs == self.pairs:
            return
        expected = "pairs: two texts, or two lists of texts" if self.pairs else "single texts; pairs need pairs=True"
        raise ValueError(f"this classifier takes {expected}")

    def target_warnings(self, targets: Targets) -> list[str]:
        return self._problem.target_warnings(targets)

    def start_from(self, targets: Targets) -> None:
        """Sets a new regression head's bias to the targets' mean, and scales its kernel by their standard deviation.

        A head of another problem type, or one that has been trained, stays as it is.
        """
        kernel, bias = self.head.logits.kernel, self.head.logits.bias
        statistics = self._problem.location_and_scale(targets)
        is_new = not np.any(ops.convert_to_numpy(bias))  # training leaves no bias at exactly 0
        if statistics is not None and is_new:
            mean, deviation = statistics
            bias.assign(mean)
            kernel.assign(ops.convert_to_numpy(kernel) * deviation)

    def scales(self, targets: Targets) -> dict[str, np.ndarray]:
        """Computes factors of a regression head's learning rate: the standard deviations of the targets."""
        statistics = self._problem.location_and_scale(targets)
        return {} if statistics is None else {weight.path: statistics[1] for weight in self.head.logits.weights}

    def class_weights(self, weights: Mapping[str | int, float]) -> dict[int, float]:
        return self._problem.class_weights(weights)

    # -- Learning from a teacher

    def check_teacher(self, teacher: BertTask) -> None:
        super().check_teacher(teacher)
        for name in ("labels", "problem_type", "pairs"):
            teacher_value, student_value = (getattr(model, name) for model in (teacher, self))
            if teacher_value != student_value:
                raise ValueError(
                    f"{name} of the teacher: {teacher_value}, of the student: {student_value}; they must be the same"
                )

    def distillation_parts(
        self,
        parts: list[Part],
        teacher: BertTask,
        x: Inputs,
        y_pred: Tensor,
        sample_weight: Tensor | None,
        temperature: float,
    ) -> list[Part]:
        """Averages the loss on the labels and the distance from the teacher, as in DistilBERT's fine-tuning."""
        (label_part,) = parts
        teacher_logits = ops.stop_gradient(teacher(x, training=False))  # [batch, labels]
        distances = self._problem.distance(teacher_logits, y_pred, temperature)
        if sample_weight is not None:
            distances = distances * ops.cast(sample_weight, distances.dtype)
        teacher_part = weighted_mean(distances, ops.ones_like(distances))
        return [label_part._replace(mean=0.5 * label_part.mean + 0.5 * teacher_part.mean)]

    # -- Measures

    @property
    def example_settings(self) -> dict[str, str]:
        return {"problem_type": self.problem_type}

    def answers(self, x: Texts) -> list[TextAnswer]:
        text, *pair = columns_of(x)
        return self.classify(text, pair[0] if pair else None, progress=False)

    def measures(self, answers: Sequence[TextAnswer], y: Labels | None) -> dict[str, float]:
        """Computes the metrics of predictions. The first is the one to choose models by.

        =============  ===========================================================
        Problem type   Metrics
        =============  ===========================================================
        single-label   `accuracy`
        multi-label    `micro_f1`, `micro_precision`, `micro_recall`, `accuracy`
        regression     `spearman`, `pearson`, `mae`, `rmse`, `rmse_baseline`
        =============  ===========================================================

        `mae` is the mean absolute error, `rmse` the root of the mean squared error, and `rmse_baseline` the `rmse` of
        always predicting the mean of the labels.
        """
        return self._problem.measures(answers, y)

    def details(self, answers: Sequence[TextAnswer], y: Labels | None) -> dict[str, float]:
        """Computes macro averages, and precision, recall, F1 and support of each class; see `metrics.by_class`.

        For regression, the result is empty.
        """
        return self._problem.details(answers, y)

    def mistakes(self, answers: Sequence[TextAnswer], y: Labels) -> list[int]:
        """Finds the indices of wrong predictions; for regression, of errors of at least `rmse`, the largest first."""
        return self._problem.mistakes(answers, y)

    def worst(self, answers: Sequence[TextAnswer], y: Labels) -> list[int]:
        return self._problem.worst(answers, y)

    def compared(self, answer: TextAnswer, label: Any) -> list[dict[str, object]]:
        return self._problem.compared(answer, label)

    def answer_columns(self, answer: TextAnswer) -> dict[str, object]:
        return self._problem.answer_columns(answer)

    def confusion(self, answers: Sequence[TextAnswer], y: Labels) -> tuple[list[str], np.ndarray] | None:
        return self._problem.confusion(answers, y)

    def answer_fields(self, *texts: list[str]) -> Iterable[Mapping[str, object]]:
        text, *pair = texts
        answers, name = self.classify(text, pair[0] if pair else None, progress=False), self._problem.FIELD
        return answers if name is None else [{name: answer} for answer in answers]

    # -- Files

    @classmethod
    def _arguments(cls, preset: TaskPreset, user_settings: Settings) -> Settings:
        problem_type = preset.hugging_face.get("problem_type") if preset.has_head else None
        labels = preset.labels(user_settings.pop("labels", None))
        return {"problem_type": problem_type or SingleLabel.NAME, **preset.settings, **user_settings, "labels": labels}

    def _loads_head(self, preset: TaskPreset) -> bool:
        return preset.head_fits(self.labels)

    def settings(self) -> Settings:
        return {
            "labels": self.labels,
            "problem_type": self.problem_type,
            "pairs": self.pairs,
            "window_pooling": self.window_pooling,
            "dropout": self.dropout_rate,
        }

    def hugging_face_settings(self) -> dict[str, object]:
        return {**hugging_face.label_names(self.labels), "problem_type": self.problem_type}


A = TypeVar("A")  # the prediction for a text


class ProblemType(Generic[A]):
    """A kind of classification: the loss, and the conversion of labels to targets and of logits to predictions.

    Each problem type is a class with the same methods, so that `BertClassifier` never tests which one it has:

        SingleLabel    one class per text: softmax, cross-entropy
        MultiLabel     any number of classes per text: a sigmoid and binary cross-entropy for each
        Regression     numbers: the logits themselves, mean squared error

    Args:
        labels: the names of the classes, or numbers, in the order of the logits.
    """

    NAME: ClassVar[str]  # Hugging Face's
    LEAST_LABELS: ClassVar[int] = 1
    VALUES: ClassVar[str] = "probabilities"  # the name of `values` in signatures
    # The field of `answer_fields` that holds a prediction; None: a prediction is already a dict of fields.
    FIELD: ClassVar[str | None] = None

    def __init__(self, labels: list[str]) -> None:
        self.labels = labels

    def loss(self) -> keras.losses.Loss:
        """Makes the loss to compile with."""
        raise NotImplementedError

    def check_loss_targets(self, targets: tf.Tensor) -> None:
        """Raises ValueError if the loss cannot take these targets."""

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

    def class_weights(self, weights: Mapping[str | int, float]) -> dict[int, float]:
        """Maps the indices of all classes to their weights. Raises ValueError if texts have no single class."""
        raise ValueError("class_weight is only for classifiers that give each text one class")

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

    def check_loss_targets(self, targets: tf.Tensor) -> None:
        if len(targets.shape) > 1:
            raise ValueError(
                f"labels are an array of shape {tuple(targets.shape)}; pass one label a text, such as "
                "labels.argmax(axis=1), or a loss for such labels"
            )

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

    def class_weights(self, weights: Mapping[str | int, float]) -> dict[int, float]:
        by_index: dict[int, float] = {}
        for label, weight in weights.items():
            try:
                index = label_index(label, self.labels)
            except ValueError:
                names = ", ".join(self.labels)
                raise ValueError(f"class_weight names {label}, but the labels are {names}") from None
            if index in by_index:
                raise ValueError(f"class_weight has {self.labels[index]} twice: by its name, and as {index}")
            by_index[index] = float(weight)
        return {index: by_index.get(index, 1.0) for index in range(len(self.labels))}

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
        return self.labels, metrics.confusion_matrix(y, [answer["label"] for answer in answers], self.labels)


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
        multi_hot = np.zeros((len(y), len(self.labels)), np.float32)
        for row, names in enumerate(y):
            multi_hot[row, self._label_indices(row, names)] = 1
        if len(self.labels) > 1 and len(y) and all(_is_multi_hot(names, len(self.labels)) for names in y):
            raise ValueError(
                f"labels are rows of 0 and 1, which a list could also mean as indices; pass np.array(labels) if each "
                f"number stands for one of {', '.join(self.labels)}, or pass their names"
            )
        return multi_hot

    def _label_indices(self, row: int, names: object) -> list[int]:
        """Finds the indices of a text's labels."""
        if isinstance(names, str | bytes) or not isinstance(names, Collection):
            raise TypeError(f"labels[{row}] is {names!r:.60}; expected a list, since a text may have several labels")
        return [label_index(name, self.labels) for name in names]

    def target_warnings(self, targets: Targets) -> list[str]:
        return rare_label_warnings(self.labels, np.count_nonzero(targets, axis=0), "texts")

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
        wrong_labels = [
            set(self._predicted_labels(answer)) ^ set(label) for answer, label in zip(answers, y, strict=True)
        ]
        return sorted(self.mistakes(answers, y), key=lambda i: -len(wrong_labels[i]))

    def compared(self, answer: list[LabelAnswer], label: Sequence[str]) -> list[dict[str, object]]:
        predicted = ", ".join(f"{each['label']} ({each['probability']:.4f})" for each in answer)
        return [{"label": ", ".join(label), "answer": predicted}]


class Regression(ProblemType[dict[str, float]]):
    """One or more numbers per text. Their names are the labels."""

    NAME = "regression"
    VALUES = "values"
    FIELD = "values"

    def loss(self) -> keras.losses.Loss:
        return keras.losses.MeanSquaredError()

    def _targets(self, y: Labels) -> np.ndarray:
        numbers = np.reshape(as_float32(y, "labels"), (len(y), -1 if len(y) else len(self.labels)))
        if not_finite := np.flatnonzero(~np.isfinite(numbers).all(axis=1)).tolist():
            raise ValueError(
                f"label {not_finite[0]} (from 0) is {numbers[not_finite[0]].tolist()}, which is not finite"
            )
        _check_width(numbers, self.labels)
        return numbers

    def location_and_scale(self, targets: Targets) -> tuple[np.ndarray, np.ndarray] | None:
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
        labels, predictions = np.ravel(np.asarray(y, np.float64)), np.ravel(_stack_numbers(answers))
        by_name = metrics.correlation(labels, predictions)
        correlations = {"spearman": by_name["spearman"], "pearson": by_name["pearson"]}
        deviation = np.std(self.targets(y), axis=0)  # the RMSE of always predicting the mean of the labels
        baseline = {"rmse_baseline": float(np.sqrt(np.square(deviation).mean()))}
        return {**correlations, **metrics.errors(labels, predictions), **baseline}

    def mistakes(self, answers: Sequence[dict[str, float]], y: Labels) -> list[int]:
        """Finds the texts with an error of at least the root of the mean squared error, the largest error first."""
        errors = np.abs(_stack_numbers(answers) - self.targets(y)).max(axis=1)
        is_large = (errors >= metrics.errors(self.targets(y), _stack_numbers(answers))["rmse"]) & (errors > 0)
        return [i for i in self.worst(answers, y) if is_large[i]]

    def worst(self, answers: Sequence[dict[str, float]], y: Labels) -> list[int]:
        return np.argsort(-np.abs(_stack_numbers(answers) - self.targets(y)).max(axis=1), kind="stable").tolist()

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


def _check_width(rows: np.ndarray, labels: Sequence[str]) -> None:
    if rows.ndim != 2 or rows.shape[1] != len(labels):
        raise ValueError(f"labels are an array of shape {rows.shape}; expected {(len(rows), len(labels))}")


def _is_multi_hot(row: Collection[object], width: int) -> bool:
    """Checks whether a text's labels could also be a row of 0 and 1, one for each label."""
    return len(row) == width and all(isinstance(each, int) and each in (0, 1) for each in row)


def _two_class_logits(logits: Tensor) -> Tensor:
    """Adds a last axis with the logits of "yes" and "no" for each label: `sigmoid(x) = softmax([x, 0])[0]`."""
    return ops.stack([logits, ops.zeros_like(logits)], axis=-1)


def _stack_numbers(answers: Sequence[Mapping[str, float]]) -> np.ndarray:
    """Stacks predicted numbers as float64 `[answers, labels]`."""
    return np.array([list(answer.values()) for answer in answers])

"""BertClassifier: classification and regression of texts or pairs (Devlin et al. 2018, section 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.data import TextExamples
from keras_bert.encoder import BertEncoder
from keras_bert.formats import hugging_face
from keras_bert.tasks import metrics
from keras_bert.tasks.columns import columns_of, one_or_many, plain_labels
from keras_bert.tasks.label_names import checked_labels, number_of, numbers_of, numeric, rare
from keras_bert.tasks.long_text import POOLINGS, classify_texts
from keras_bert.tasks.loss_means import Part, weighted_mean
from keras_bert.tasks.storable import TaskPreset
from keras_bert.tasks.task import BertTask, TokenizedExamples
from keras_bert.tasks.teaching import divergence
from keras_bert.text import BertPreprocessor

# Hugging Face's names of the problem types.
CLASSES, MULTI_LABEL, REGRESSION = PROBLEMS = (
    "single_label_classification",
    "multi_label_classification",
    "regression",
)
_LOSSES = {
    CLASSES: lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    MULTI_LABEL: lambda: keras.losses.BinaryCrossentropy(from_logits=True),
    REGRESSION: lambda: keras.losses.MeanSquaredError(),
}


@keras.saving.register_keras_serializable(package="keras_bert")
class BertClassifier(BertTask):
    """Predicts the class of a text, or of a pair of texts.

    Args:
        encoder, preprocessor: see `BertTask`. With a preprocessor that makes windows, long texts are read whole.
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
        TypeError, ValueError: a bad argument.

    Example:
        >>> model = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["good", "bad"])
        >>> tuple(model(["What a film!", "Never again."]).shape)
        (2, 2)
        >>> [answer["label"] in ("good", "bad") for answer in model.classify(["What a film!", "Never again."])]
        [True, True]
    """

    HEAD = "sequence"
    EXAMPLES = TextExamples
    STATED_ELSEWHERE = ("labels", "problem_type")
    ANSWERS_PROGRAM = """\
labels = open("labels.txt", encoding="utf-8").read().splitlines()
for values in outputs.get("probabilities", outputs.get("values")):
    print(dict(zip(labels, values.tolist())))"""

    def __init__(
        self,
        encoder: BertEncoder,
        preprocessor: BertPreprocessor,
        labels: Sequence[str],
        problem_type: str = CLASSES,
        pairs: bool = False,
        window_pooling: str = "mean",
        dropout: float | None = None,
        **kwargs: Any,
    ) -> None:
        if problem_type not in PROBLEMS:
            raise ValueError(f"problem_type is {problem_type!r}; expected {', '.join(PROBLEMS)}")
        if window_pooling not in POOLINGS:
            raise ValueError(f"window_pooling is {window_pooling!r}; expected {' or '.join(POOLINGS)}")
        labels = checked_labels(labels, least=2 if problem_type == CLASSES else 1)
        super().__init__(encoder, preprocessor, **kwargs)
        self.labels = labels
        self.problem_type = problem_type
        self.pairs = pairs
        self.window_pooling = window_pooling
        self._add_head(len(labels), dropout)

    @property
    def text_names(self) -> tuple[str, ...]:
        return ("text", "text_pair") if self.pairs else ("text",)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        if not isinstance(inputs, dict):
            self._check_pairs(isinstance(inputs, tuple | list))
        logits = classify_texts(self.encoder, self.head, self.packed(inputs), self.window_pooling, training)
        return ops.cast(logits, "float32")

    def training_loss(self) -> keras.losses.Loss:
        """The loss to compile with: cross-entropy, binary cross-entropy per label, or mean squared error."""
        return _LOSSES[self.problem_type]()

    def loss_for(self, examples: TokenizedExamples) -> keras.losses.Loss:
        if self.problem_type == CLASSES and len(examples.targets.shape) > 1:
            raise ValueError(
                f"labels are an array of shape {tuple(examples.targets.shape)}; pass one label a text, such as "
                "labels.argmax(axis=1), or a loss for such labels"
            )
        return self.training_loss()

    def classify(
        self,
        text: str | Iterable[str],
        text_pair: str | Iterable[str] | None = None,
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> Any:
        """Predicts the label of a text or pair, or of many.

        Args:
            text: a str, or many.
            text_pair: for pairs, the second text: a str, or as many as there are first texts.
            batch_tokens: the most tokens in a batch, padding included; a longer text is a batch of its own.
            progress: whether to show a progress bar; by default on a terminal, if it takes longer than a second.

        Returns:
            A dict: `label`, and `probability`, 0 to 1. For multi-label classification, a list of such dicts, one for
            each label of probability 0.5 or more, most probable first. For regression, a dict from label to number. For
            many texts, a list of these.

        Raises:
            TypeError, ValueError: an item is not a str, the classifier takes pairs but gets single texts, or the
                reverse, or the numbers of first and second texts differ.

        Warns:
            UserWarning: the number of texts that were truncated to the model's maximum length.
        """
        self._check_pairs(text_pair is not None)
        is_one, texts = one_or_many(text, *(() if text_pair is None else (text_pair,)))
        answers = []
        for chunk in self._by_length(texts, batch_tokens, progress):
            answers.extend(self._answer(logits) for logits in chunk)
        return answers[0] if is_one else answers

    def _answer(self, logits: np.ndarray) -> Any:
        values = self._values(tf.constant(logits)).numpy()
        if self.problem_type == REGRESSION:
            return {label: float(value) for label, value in zip(self.labels, values, strict=True)}
        order = np.argsort(-values, kind="stable")
        answers = [{"label": self.labels[i], "probability": float(values[i])} for i in order]
        if self.problem_type == CLASSES:
            return answers[0]
        return [answer for answer in answers if answer["probability"] >= 0.5]

    def _values(self, logits: Any) -> Any:
        """Logits -> probabilities, or numbers."""
        if self.problem_type == REGRESSION:
            return logits
        return ops.softmax(logits) if self.problem_type == CLASSES else ops.sigmoid(logits)

    @property
    def serve(self) -> Callable[..., dict[str, Any]]:
        """The serving signature, for `text`, or for `text` and `text_pair`, string `[batch]` each.

        It returns, for regression, `values`, float32 `[batch, labels]`; else `labels`, string `[batch, labels]`, and
        `probabilities`, float32 of that shape; with one class per text also its `label` and `probability`, `[batch]`.
        """

        def serve_texts(text: Any) -> dict[str, Any]:
            return self._served(self(text, training=False))

        def serve_pairs(text: Any, text_pair: Any) -> dict[str, Any]:
            return self._served(self((text, text_pair), training=False))

        return serve_pairs if self.pairs else serve_texts

    def _served(self, logits: Any) -> dict[str, Any]:
        values = self._values(logits)
        if self.problem_type == REGRESSION:
            return {"values": values}
        names = tf.constant(self.labels)
        served = {"labels": tf.tile(names[None], [tf.shape(values)[0], 1]), "probabilities": values}
        if self.problem_type == CLASSES:
            served["label"] = tf.gather(names, tf.argmax(values, axis=-1))
            served["probability"] = tf.reduce_max(values, axis=-1)
        return served

    def serve_packed(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """`logits`, and `probabilities` (regression: `values`), float32 `[batch, labels]` each."""
        logits = self(inputs, training=False)
        values = "values" if self.problem_type == REGRESSION else "probabilities"
        return {"logits": logits, values: self._values(logits)}

    def targets(self, y: Any) -> Any:
        """Labels, as names or indices -> targets of the loss. Tensors, and arrays with a row per text, stay as they
        are.

        Raises:
            TypeError: these are not labels of many texts.
            ValueError: there is no label of this name or index, a row has another number of labels than the model, or
                for regression a value is not a finite number.
        """
        y = plain_labels(y, self.label_columns)
        if y is None or tf.is_tensor(y) or isinstance(y, tf.data.Dataset):
            return y
        if self.problem_type == REGRESSION:
            numbers = np.reshape(numbers_of(y, "labels"), (len(y), -1 if len(y) else len(self.labels)))
            self._check_width(numbers)
            if bad := np.flatnonzero(~np.isfinite(numbers).all(axis=1)).tolist():
                raise ValueError(f"label {bad[0]} (from 0) is {numbers[bad[0]].tolist()}, which is not finite")
            return numbers
        if self.problem_type == CLASSES:
            if isinstance(y, np.ndarray) and y.ndim > 1 and y.dtype.kind in "biuf":  # probabilities, for another loss
                return y
            if len(y) and np.ndim(y[0]):
                return numbers_of(y, "rows of labels")
            return np.array([number_of(label, self.labels) for label in y], np.int32)
        if isinstance(y, np.ndarray) and y.dtype.kind in "biuf":
            self._check_width(y)
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

    def _check_width(self, rows: np.ndarray) -> None:
        if rows.ndim != 2 or rows.shape[1] != len(self.labels):
            raise ValueError(f"labels are an array of shape {rows.shape}; expected {(len(rows), len(self.labels))}")

    @property
    def label_columns(self) -> Sequence[str]:
        return self.labels

    def examples(self, x: Any, y: Any) -> TokenizedExamples:
        self._check_pairs(len(columns_of(x)) > 1)
        return super().examples(x, y)

    def _check_pairs(self, are_pairs: bool) -> None:
        if are_pairs == self.pairs:
            return
        wanted = "pairs: two texts, or two lists of texts" if self.pairs else "single texts; pairs need pairs=True"
        raise ValueError(f"this classifier takes {wanted}")

    def doubts(self, targets: Any) -> list[str]:
        if self.problem_type == REGRESSION:
            return []
        if self.problem_type == MULTI_LABEL:
            return rare(self.labels, np.count_nonzero(targets, axis=0), "texts")
        if np.ndim(targets) > 1:
            return []
        counts = np.bincount(np.ravel(targets), minlength=len(self.labels))
        return [*numeric(self.labels), *rare(self.labels, counts, "texts")]

    def start_from(self, targets: Any) -> None:
        """For regression: sets the bias of a new head to the mean of the targets."""
        bias = self.head.logits.bias
        is_new = not np.any(ops.convert_to_numpy(bias))  # training leaves no bias at exactly 0
        if self.problem_type == REGRESSION and is_new:
            bias.assign(np.mean(targets, axis=0, dtype=np.float64))

    def class_weights(self, weights: Mapping[Any, float]) -> dict[int, float]:
        if self.problem_type != CLASSES:
            return super().class_weights(weights)  # raises
        found = {}
        for label, weight in weights.items():
            try:
                number = number_of(label, self.labels)
            except ValueError:
                known = ", ".join(self.labels)
                raise ValueError(f"class_weight names {label}, but the labels are {known}") from None
            if number in found:
                raise ValueError(f"class_weight has {self.labels[number]} twice: by its name, and as {number}")
            found[number] = float(weight)
        return {number: found.get(number, 1.0) for number in range(len(self.labels))}

    # -- Learning from a teacher

    def check_teacher(self, teacher: Any) -> None:
        super().check_teacher(teacher)
        for name in ("labels", "problem_type", "pairs"):
            theirs, ours = (getattr(model, name) for model in (teacher, self))
            if theirs != ours:
                raise ValueError(f"{name} of the teacher: {theirs}, of the student: {ours}; they must be the same")

    def distillation_parts(
        self, parts: list[Part], teacher: Any, x: Any, y_pred: Any, sample_weight: Any, temperature: float
    ) -> list[Part]:
        """The mean of the loss on the labels and the distance from the teacher, as in DistilBERT's fine-tuning."""
        (of_labels,) = parts
        theirs = ops.stop_gradient(teacher(x, training=False))  # [batch, labels]
        if self.problem_type == REGRESSION:
            apart = ops.mean(ops.square(y_pred - theirs), axis=-1)
        elif self.problem_type == MULTI_LABEL:
            apart = ops.mean(divergence(_or_not(theirs), _or_not(y_pred), temperature), axis=-1)
        else:
            apart = divergence(theirs, y_pred, temperature)
        if sample_weight is not None:
            apart = apart * ops.cast(sample_weight, apart.dtype)
        of_teacher = weighted_mean(apart, ops.ones_like(apart))
        return [of_labels._replace(mean=0.5 * of_labels.mean + 0.5 * of_teacher.mean)]

    # -- Measures

    @property
    def example_settings(self) -> dict[str, Any]:
        return {"problem_type": self.problem_type}

    def answers(self, x: Any) -> list[Any]:
        return self.classify(*columns_of(x), progress=False)

    def measures(self, answers: Sequence[Any], y: Any) -> dict[str, float]:
        """`accuracy`; with several labels per text, `micro_f1` and others; for regression, `spearman` and `pearson`."""
        if self.problem_type == REGRESSION:
            numbers = np.array([list(answer.values()) for answer in answers])
            found = metrics.correlation(np.ravel(np.asarray(y, np.float64)), np.ravel(numbers))
            return {"spearman": found["spearman"], "pearson": found["pearson"]}
        if self.problem_type == MULTI_LABEL:
            predicted = self.targets([[each["label"] for each in answer] for answer in answers])
            labels = np.asarray(self.targets(y))
            measured = metrics.f1(labels.astype(int), predicted.astype(int), "micro")
            return {"micro_f1": measured.pop("micro_f1"), **measured, **metrics.accuracy(labels, predicted)}
        return metrics.accuracy(self.targets(y), self.targets([answer["label"] for answer in answers]))

    def details(self, answers: Sequence[Any], y: Any) -> dict[str, float]:
        """Precision, recall and F1 of each class; for regression, `mae` and `rmse`."""
        if self.problem_type == REGRESSION:
            numbers = np.array([list(answer.values()) for answer in answers])
            return metrics.errors(np.ravel(np.asarray(y, np.float64)), np.ravel(numbers))
        if self.problem_type == MULTI_LABEL:
            return {}
        right = [self.labels[number] for number in self.targets(y)]
        return metrics.by_class(right, [answer["label"] for answer in answers], self.labels)

    def mistakes(self, answers: Sequence[Any], y: Any) -> list[int]:
        if self.problem_type == REGRESSION:
            raise TypeError("a regression has no right and wrong answers, so it has no mistakes to count")
        given = [
            answer["label"] if isinstance(answer, dict) else [each["label"] for each in answer] for answer in answers
        ]
        wrong = np.asarray(self.targets(y)) != np.asarray(self.targets(given))
        return np.flatnonzero(wrong.reshape(len(given), -1).any(axis=1)).tolist()

    def worst(self, answers: Sequence[Any], y: Any) -> list[int]:
        if self.problem_type == REGRESSION:
            numbers = np.array([list(answer.values()) for answer in answers])
            return np.argsort(-np.abs(numbers - self.targets(y)).max(axis=1), kind="stable").tolist()
        mistakes = self.mistakes(answers, y)
        if self.problem_type == MULTI_LABEL:
            wrong = [{each["label"] for each in answer} ^ set(label) for answer, label in zip(answers, y, strict=True)]
            return sorted(mistakes, key=lambda i: -len(wrong[i]))
        return sorted(mistakes, key=lambda i: -answers[i]["probability"])

    def compared(self, answer: Any, label: Any) -> list[dict[str, Any]]:
        if self.problem_type == CLASSES:
            return [{"label": label, "answer": answer["label"], "probability": answer["probability"]}]
        if self.problem_type == REGRESSION:
            right = np.ravel(label).tolist()
            return [
                {"number": name, "label": number, "answer": value}
                for (name, value), number in zip(answer.items(), right, strict=True)
            ]
        given = ", ".join(f"{each['label']} ({each['probability']:.4f})" for each in answer)
        return [{"label": ", ".join(label), "answer": given}]

    def confusion(self, answers: Sequence[Any], y: Any) -> tuple[list[str], np.ndarray] | None:
        if self.problem_type != CLASSES:
            return None
        return self.labels, metrics.confusion_matrix(y, [answer["label"] for answer in answers], self.labels)

    def answer_fields(self, *texts: list[str]) -> Iterable[dict[str, Any]]:
        name = {CLASSES: None, MULTI_LABEL: "labels", REGRESSION: "values"}[self.problem_type]
        answers = self.classify(*texts, progress=False)
        return answers if name is None else [{name: answer} for answer in answers]

    # -- Files

    @classmethod
    def _arguments(cls, found: TaskPreset, given: dict[str, Any]) -> dict[str, Any]:
        stated = found.hugging_face.get("problem_type") if found.has_head else None
        labels = found.labels(given.pop("labels", None))
        return {"problem_type": stated or CLASSES, **found.settings, **given, "labels": labels}

    def _takes_head(self, found: TaskPreset) -> bool:
        return found.head_fits(self.labels)

    def settings(self) -> dict[str, Any]:
        return {
            "labels": self.labels,
            "problem_type": self.problem_type,
            "pairs": self.pairs,
            "window_pooling": self.window_pooling,
            "dropout": self.dropout_rate,
        }

    def hugging_face_settings(self) -> dict[str, Any]:
        return {**hugging_face.label_names(self.labels), "problem_type": self.problem_type}


def _is_hot(row: Any, width: int) -> bool:
    """Whether a text's labels look like a row of 0 and 1, one for each label."""
    return len(row) == width and all(isinstance(each, int) and each in (0, 1) for each in row)


def _or_not(logits: Any) -> Any:
    """Logits of labels -> logits of "yes" and "no" for each label, on a new last axis."""
    return ops.stack([logits, ops.zeros_like(logits)], axis=-1)

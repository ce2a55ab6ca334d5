"""Answers of classifiers: one class a text, several, or numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar, TypeAlias, TypedDict, overload

import numpy as np

from keras_bert.answers import A, Answers, Score, metrics, only_answer, share_of_most_frequent
from keras_bert.answers.activations import ACTIVATIONS
from keras_bert.answers.answerer import DROPOUT, Answerer, Setting
from keras_bert.answers.columns import Labels, Targets, Texts, as_float32, columns_of, label_index, one_or_many


class LabelAnswer(TypedDict):
    """A predicted label, and its probability, 0 to 1."""

    label: str
    probability: float


# The prediction for a text, by problem type: a LabelAnswer, a list[LabelAnswer], or for regression a dict[str, float].
TextAnswer: TypeAlias = "LabelAnswer | Any"


class TextAnswers(Answers[A]):
    """Answers about whole texts, of a head with an output for each of `labels`.

    ========  =======================================================================
    Problem   Measures
    ========  =======================================================================
    Classes   `accuracy`
    Several   `micro_f1`, `micro_precision`, `micro_recall`, `accuracy`
    Numbers   `spearman`, `pearson`, `mae`, `rmse`, and `rmse_baseline`, the `rmse` of
              always predicting the mean of the labels
    ========  =======================================================================
    """

    PROBLEM_TYPE: ClassVar[str]  # Hugging Face's
    LEAST_LABELS: ClassVar[int] = 1
    VALUES: ClassVar[str] = "probabilities"  # their name in serving signatures
    ACTIVATION: ClassVar[str] = "softmax"  # from logits to values

    def __init__(self, labels: list[str]) -> None:
        self.labels = self.label_columns = labels

    def answers(self, logits: np.ndarray) -> list[A]:
        """Makes the answers for texts, with values in float64, whose values near 1 differ for longer."""
        return [*map(self.answer, logits, ACTIVATIONS[self.ACTIVATION](logits.astype(np.float64)))]

    def answer(self, logits: np.ndarray, values: np.ndarray) -> A:
        """Makes the answer for a text from its values, `[labels]`, in the order of its logits."""
        raise NotImplementedError

    def right_answers(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> list[Any]:
        values = np.asarray(self.targets(labels))
        values = values if values.ndim == 2 else np.eye(len(self.labels))[values]
        return [*map(self.answer, values, values)]

    def served(self, logits: np.ndarray) -> dict[str, np.ndarray]:
        """Makes the outputs of a serving signature, by name; strings are bytes."""
        return {self.VALUES: ACTIVATIONS[self.ACTIVATION](logits).astype(np.float32)}

    def _with_names(self, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        names = np.array([label.encode() for label in self.labels], object)
        return {"labels": np.tile(names, (len(outputs[self.VALUES]), 1)), **outputs}

    def _most_probable_first(self, logits: np.ndarray, values: np.ndarray) -> list[LabelAnswer]:
        order = np.argsort(-logits, kind="stable")
        return [{"label": self.labels[index], "probability": float(values[index])} for index in order]


class ClassAnswers(TextAnswers[LabelAnswer]):
    """One class per text."""

    PROBLEM_TYPE = "single_label_classification"
    LEAST_LABELS = 2

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

    def served(self, logits: np.ndarray) -> dict[str, np.ndarray]:
        outputs = self._with_names(super().served(logits))
        label = outputs["labels"][np.arange(len(logits)), logits.argmax(axis=-1)]
        return {**outputs, "label": label, "probability": outputs[self.VALUES].max(axis=-1)}

    def answer(self, logits: np.ndarray, values: np.ndarray) -> LabelAnswer:
        return self._most_probable_first(logits, values)[0]

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

    def columns(self, answer: LabelAnswer) -> dict[str, object]:
        return {"answer": answer["label"], "probability": answer["probability"]}


class SeveralAnswers(TextAnswers[list[LabelAnswer]]):
    """Any number of classes per text."""

    PROBLEM_TYPE = "multi_label_classification"
    FIELD = "labels"
    ACTIVATION = "sigmoid"

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

    def served(self, logits: np.ndarray) -> dict[str, np.ndarray]:
        return self._with_names(super().served(logits))

    def answer(self, logits: np.ndarray, values: np.ndarray) -> list[LabelAnswer]:
        return [each for each in self._most_probable_first(logits, values) if each["probability"] >= 0.5]

    def score(self, answers: Sequence[list[LabelAnswer]], labels: Labels | None) -> Score:
        """Measures `micro_f1` and others; 0.5 is a yes. The error of an answer is its number of wrong labels."""
        predicted = self.targets([[each["label"] for each in answer] for answer in answers])
        columns = is_yes(self.targets(labels)).astype(int), is_yes(predicted).astype(int)
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

    def compared(self, answer: list[LabelAnswer], label: Sequence[str]) -> list[dict[str, object]]:
        predicted = ", ".join(f"{each['label']} ({each['probability']:.4f})" for each in answer)
        return [{"label": ", ".join(label), "answer": predicted}]


class NumberAnswers(TextAnswers[dict[str, float]]):
    """One or more numbers per text. Their names are the labels."""

    PROBLEM_TYPE = "regression"
    VALUES = FIELD = "values"
    ACTIVATION = "identity"

    def _targets(self, labels: Labels) -> np.ndarray:
        numbers = np.reshape(as_float32(labels, "labels"), (len(labels), -1 if len(labels) else len(self.labels)))
        _check_rows(numbers, self.labels)
        return numbers

    def answer(self, logits: np.ndarray, values: np.ndarray) -> dict[str, float]:
        return {label: float(value) for label, value in zip(self.labels, values, strict=True)}

    def score(self, answers: Sequence[dict[str, float]], labels: Labels | None) -> Score:
        """Measures `spearman` and others. An answer's error is in units of the column's `rmse`, from 1 a mistake."""
        # Of several numbers, each is measured by itself: measures are means over the numbers, the error is the largest.
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

    def columns(self, answer: dict[str, float]) -> dict[str, object]:
        return {"answer": answer[self.labels[0]] if len(self.labels) == 1 else answer}

    def compared(self, answer: dict[str, float], label: float | Sequence[float]) -> list[dict[str, object]]:
        return [
            {"number": name, "label": number, "answer": value}
            for (name, value), number in zip(answer.items(), np.ravel(label).tolist(), strict=True)
        ]


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


def is_yes(targets: Targets) -> np.ndarray:
    """Decides soft labels, `[texts, labels]`: 0.5 is a yes."""
    return np.asarray(targets) >= 0.5


def _is_multi_hot(row: object, width: int) -> bool:
    """Checks whether a text's labels could also be a row of 0 and 1, one for each label."""
    if not isinstance(row, Collection) or len(row) != width:
        return False
    return all(isinstance(each, int) and each in (0, 1) for each in row)


ANSWERS = {each.PROBLEM_TYPE: each for each in (ClassAnswers, SeveralAnswers, NumberAnswers)}


class Classifier(Answerer):
    """What classifies texts or pairs."""

    VERB = "classify"
    SETTINGS = (
        Setting("labels", list),
        Setting("problem_type", str),
        Setting("pairs", bool),
        Setting("window_pooling", str),
        DROPOUT,
    )
    kind: TextAnswers[Any]
    labels: list[str]
    pairs: bool

    @property
    def text_names(self) -> tuple[str, ...]:
        return ("text", "text_pair") if self.pairs else ("text",)

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
            progress: whether to show a progress bar; by default on a terminal, if it takes longer than a second,
                elsewhere a line a minute.

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
            ValueError: the classifier takes pairs but gets single texts, or the reverse; the numbers of first and
                second texts differ; or an output is not finite, which a damaged model may cause.

        Warns:
            UserWarning: the number of texts that were truncated to the model's maximum length.
        """
        self.check_pairs(text_pair is not None)
        is_one, texts = one_or_many(text, *(() if text_pair is None else (text_pair,)))
        logits = np.reshape(self._by_length(texts, batch_tokens, progress), (-1, len(self.labels))).astype(np.float32)
        answers = self.kind.answers(logits)
        return answers[0] if is_one else answers

    def columns(self, x: Texts) -> tuple[Sequence[str], ...]:
        columns = columns_of(x)
        self.check_pairs(len(columns) > 1)
        return columns

    def _served(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        return self.kind.served(outputs.reshape(-1, len(self.labels)))

    def check_pairs(self, are_pairs: bool) -> None:
        if are_pairs == self.pairs:
            return
        expected = "pairs: two texts, or two lists of texts" if self.pairs else "single texts; pairs need pairs=True"
        raise ValueError(f"this classifier takes {expected}")

"""From logits to answers, and from answers and labels to measures, in NumPy: no TensorFlow, no Keras.

A kind of tasks has two halves. This is the one that answers: models of Keras, exports to other runtimes, reports and
the command use it. The other one, `tasks/kinds/`, learns: it adds losses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, cast

import numpy as np

from keras_bert.answers.columns import Labels, Targets, plain_labels
from keras_bert.counted import counted

A = TypeVar("A")  # the answer to an example
# Suffix of a measure's baseline: the same measure for predicting the most frequent label, or the mean, for all texts.
BASELINE = "_baseline"
Confusion: TypeAlias = "tuple[list[str], np.ndarray]"  # classes; int64, rows are true classes, columns predicted ones


@dataclass(frozen=True)
class Score:
    """How good the answers to some examples are."""

    measures: dict[str, float]  # metrics by name; the first one is the one to choose models by
    errors: np.ndarray | None = None  # of each example, float [examples], 0 = right; None: neither right nor wrong
    least_mistake: float | None = None  # the least error that counts as a mistake; None: every error does
    compute_details: Callable[[], dict[str, float]] = dict  # computes `details` when they are first read
    compute_confusion: Callable[[], Confusion | None] = lambda: None
    baselines: Mapping[str, float] = field(default_factory=dict)  # measures of the best answer that ignores the text
    only_answer: str | None = None  # the answer to all examples, though their labels differ; None: there are several

    @cached_property
    def details(self) -> dict[str, float]:
        """Further metrics: those of each class, and the baselines."""
        return {**self.compute_details(), **{f"{name}{BASELINE}": value for name, value in self.baselines.items()}}

    @property
    def warning(self) -> str | None:
        """A warning of a model that answers all examples alike."""
        if self.only_answer is None:
            return None
        return f"the model's answer to all examples is {self.only_answer!r}, so it has not learned to tell them apart"

    @cached_property
    def confusion(self) -> Confusion | None:
        """The classes, and int64 `[classes, classes]`: class i predicted as j; None: not one class an example."""
        return self.compute_confusion()

    @property
    def mistakes(self) -> list[int]:
        """The indices of wrong answers; if all examples have some error, of the largest errors, the largest first."""
        errors, least = self._errors, self.least_mistake
        return np.flatnonzero(errors).tolist() if least is None else [i for i in self.worst if errors[i] >= least]

    @property
    def worst(self) -> list[int]:
        """The indices of `mistakes`, worst first; if all examples have some error, of all examples."""
        order = np.argsort(-self._errors, kind="stable").tolist()
        return order if self.least_mistake is not None else [i for i in order if self._errors[i]]

    @property
    def _errors(self) -> np.ndarray:
        if self.errors is None:
            raise TypeError("answers of this model are neither right nor wrong, so it has no mistakes to count")
        return self.errors


def share_of_most_frequent(labels: Iterable[Hashable]) -> float:
    """Computes the accuracy of always answering the most frequent label."""
    counts = Counter(labels).values()
    return max(counts) / sum(counts)


def only_answer(answers: Iterable[str], labels: Iterable[object]) -> str | None:
    """Finds the answer that is the same for all examples, though their labels differ; else None."""
    distinct = set(answers)
    return distinct.pop() if len(distinct) == 1 and len(set(labels)) > 1 else None


class Answers(Generic[A]):
    """What the labels and the answers of a task are. This one is of tasks without labels."""

    # How readers of files read labels: a name in `choices.PROBLEM_TYPES`; None if there is no choice.
    PROBLEM_TYPE: ClassVar[str | None] = None
    FIELD: ClassVar[str | None] = None  # the name of an answer in a line of JSON; None: it is a dict of fields
    label_columns: Sequence[str] = ()  # those that a table of labels must have, in their order; empty: any will do

    # -- Labels. `targets` are numbers: what a loss takes, and what measures compare

    def plain(self, labels: Labels | None) -> Any:
        """Converts labels to a list or an array. Raises TypeError or ValueError if they are not those of many texts."""
        return plain_labels(labels, self.label_columns)

    def targets(self, labels: Labels | None) -> Targets:
        """Converts labels to targets. Arrays of targets are only checked."""
        labels = self.plain(labels)
        return labels if labels is None else self._targets(labels)

    def _targets(self, labels: Any) -> Targets:
        """Converts labels, as `plain` returns them, to targets."""
        return labels

    def targets_of(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> Targets:
        """Converts the labels of examples, whose columns of texts are given, to targets."""
        labels = self.plain(labels)
        if labels is None:
            raise ValueError(f"got {counted(columns[0], 'text')}, but no labels")
        if len({len(column) for column in (*columns, labels)}) > 1:
            counts = " and ".join(counted(column, "text") for column in columns)
            raise ValueError(f"got {counts}, but {counted(labels, 'label')}")
        return self.targets(labels)

    # -- Answers

    def check(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> Score:
        """Raises the errors that `score` would raise, before the model runs. Returns the score without a mistake."""
        if type(self).score is Answers.score:
            self.score([], labels)  # raises
        if not len(columns[0]):
            raise ValueError("there are no examples to evaluate with")
        try:
            self.targets_of(columns, labels)
        except ValueError as error:
            raise ValueError(f"examples to evaluate with: {error}") from None
        self.check_labels(columns, labels)
        labels = self.plain(labels)
        return self.score(self.right_answers(columns, labels), labels)

    def check_labels(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> None:
        """Raises TypeError or ValueError for labels that have targets, but cannot be measured with."""

    def score(self, answers: Sequence[A], labels: Labels | None) -> Score:
        """Measures answers against labels."""
        raise TypeError("this model has no measures; evaluate it with Keras's own metrics")

    def choose(self, labels: Labels | None, answers: Sequence[A] | None = None) -> dict[str, float]:
        """Chooses settings of the model, such as thresholds, that are open: those by which the answers measure best.

        Without answers, they are defaults for such labels. The dict is empty if there is nothing to choose.
        """
        return {}

    def with_settings(self, settings: Mapping[str, float]) -> Answers[A]:
        """Makes the kind of a model with these settings, which `choose` returned."""
        return self

    def right_answers(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> list[Any]:
        """Makes answers without a mistake, so that `score` tells the names of the measures before the model runs."""
        raise NotImplementedError

    def fields(self, answer: A) -> Mapping[str, object]:
        """Names the parts of the answer of the task's verb: the fields of a line of JSON."""
        if self.FIELD is None:
            return cast("Mapping[str, object]", answer)
        return {self.FIELD: answer.tolist() if isinstance(answer, np.ndarray | np.generic) else answer}

    def columns(self, answer: A) -> dict[str, object]:
        """Splits an answer into columns of a table for programs: `answer` and, if it has one, `probability`."""
        return {"answer": answer}

    def compared(self, answer: A, label: Any) -> list[dict[str, object]]:
        """Puts a label and an answer side by side, in a table for people: one row, or several, by column."""
        return [{"label": label, **self.columns(answer)}]

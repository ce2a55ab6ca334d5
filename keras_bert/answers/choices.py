"""Choices: the best of several answers to a question (Devlin et al. 2018, section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from keras_bert.answers import Answers, Score, metrics, only_answer, share_of_most_frequent
from keras_bert.answers.columns import Labels, Targets, as_float32


class ChoiceAnswer(TypedDict):
    """The best choice: its place in the choices, its text, its probability, and the probabilities of all choices."""

    index: int
    text: str
    probability: float
    probabilities: list[float]


class ChoiceAnswers(Answers[ChoiceAnswer]):
    """The number of the right choice, from 0. The measure is `accuracy`."""

    def _targets(self, labels: Any) -> np.ndarray:
        numbers = as_float32(labels, "labels, the numbers of the right choices,")
        is_number = (numbers >= 0) & (numbers == np.round(numbers))
        if numbers.ndim != 1 or not is_number.all():
            raise ValueError(f"labels are {labels!r:.60}; expected the number of the right choice, from 0, for each")
        return numbers.astype(np.int32)

    def targets_of(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> Targets:
        targets = super().targets_of(columns, labels)
        count = len(columns) - 1
        if outside := np.flatnonzero(np.asarray(targets) >= count).tolist():
            label = np.asarray(targets)[outside[0]]
            raise ValueError(f"label {outside[0]} (from 0) is {label}; expected 0 to {count - 1}, for {count} choices")
        return targets

    def score(self, answers: Sequence[ChoiceAnswer], labels: Labels | None) -> Score:
        """Measures `accuracy`. The error of a wrong answer is its probability."""
        reference, chosen = np.asarray(self.targets(labels)), np.array([answer["index"] for answer in answers])
        errors = np.where(reference == chosen, 0.0, [answer["probability"] for answer in answers])
        return Score(
            metrics.accuracy(reference, chosen),
            errors,
            baselines={"accuracy": share_of_most_frequent(reference.tolist())},
            only_answer=only_answer(map(str, chosen), reference.tolist()),
        )

    def right_answers(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> list[ChoiceAnswer]:
        indices = np.asarray(self.targets(labels)).tolist()
        return [ChoiceAnswer(index=index, text="", probability=1, probabilities=[]) for index in indices]

    def fields(self, answer: ChoiceAnswer) -> Mapping[str, object]:
        return answer

    def columns(self, answer: ChoiceAnswer) -> dict[str, object]:
        return {"answer": answer["index"], "probability": answer["probability"]}

"""Answers about tokens and pairs of models that are pre-trained, not fine-tuned, and the weights of sparse encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.answers import Answers, Score, metrics, only_answer, share_of_most_frequent
from keras_bert.answers.columns import Labels, Targets


class FilledAnswers(Answers[Mapping[str, object]]):
    """The tokens in place of masks."""

    def fields(self, answer: Mapping[str, object]) -> Mapping[str, object]:
        return {"filled": answer["text"], "masks": answer["masks"]}


class NextSentenceAnswers(Answers[float]):
    """Labels of pairs: 0 (the second text follows) or 1 (it does not). An answer is the probability of label 0."""

    PROBLEM_TYPE = "regression"  # labels are numbers

    def _targets(self, labels: Any) -> Targets:
        if not isinstance(labels, list | tuple | np.ndarray):
            return labels
        if bad := [row for row, label in enumerate(labels) if label not in (0, 1)]:
            raise ValueError(
                f"label {bad[0]} (from 0) is {labels[bad[0]]!r}; expected 0 (it follows) or 1 (it does not)"
            )
        return np.array(labels, np.int32)

    def score(self, answers: Sequence[float], labels: Labels) -> Score:
        labels, predictions = np.asarray(labels), (np.asarray(answers) < 0.5).astype(int)
        return Score(
            metrics.accuracy(labels, predictions),
            (predictions != labels).astype(float),
            baselines={"accuracy": share_of_most_frequent(labels.tolist())},
            only_answer=only_answer(map(str, predictions), labels.tolist()),
        )

    def right_answers(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> list[float]:
        return [1.0 - label for label in np.asarray(labels)]

    def fields(self, answer: float) -> Mapping[str, object]:
        return {"probability": float(answer)}


class WeightAnswers(Answers[dict[str, float]]):
    """No labels; an answer is the weights of a text's tokens."""

    def fields(self, answer: dict[str, float]) -> Mapping[str, object]:
        return {"weights": answer}

"""Choices: the best of several answers to a question (Devlin et al. 2018, section 4.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypedDict, overload

import numpy as np

from keras_bert.answers import Answers, Score, metrics, only_answer, share_of_most_frequent
from keras_bert.answers.activations import softmax
from keras_bert.answers.answerer import DROPOUT, Answerer
from keras_bert.answers.columns import Labels, Pair, Targets, Texts, as_float32, columns_of, read_lists


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

    def columns(self, answer: ChoiceAnswer) -> dict[str, object]:
        return {"answer": answer["index"], "probability": answer["probability"]}


class Chooser(Answerer):
    """What chooses the best of several answers."""

    VERB = "choose"
    SETTINGS = (DROPOUT,)
    kind = ChoiceAnswers()
    text_names = ("question", "choice")

    @overload
    def choose(
        self, question: str, choices: Iterable[str], batch_tokens: int = 1024, progress: bool | None = None
    ) -> ChoiceAnswer: ...
    @overload
    def choose(
        self,
        question: Iterable[str],
        choices: Iterable[Iterable[str]],
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> list[ChoiceAnswer]: ...
    def choose(
        self,
        question: str | Iterable[str],
        choices: Iterable[str] | Iterable[Iterable[str]],
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> ChoiceAnswer | list[ChoiceAnswer]:
        """Chooses the best of several answers to a question, or to many questions.

        Args:
            question: a str, or many.
            choices: a list of str; for many questions, one such list for each. They may differ in length.
            batch_tokens, progress: see `BertClassifier.classify`, for errors and warnings, too.

        Returns:
            A dict of `index`, the place of the best choice in `choices`; `text`, the choice; `probability`, 0 to 1; and
            `probabilities`, those of all choices. For many questions, a list of such dicts.

        Raises:
            ValueError: a question has no choices, or the numbers of questions and of lists differ.
        """
        is_one, questions, lists = read_lists(question, choices, ("question", "questions", "choice", "choices"))
        if empty := [number for number, texts in enumerate(lists) if not texts]:
            raise ValueError(f"question {empty[0]} (from 0) has no choices")
        self.warn_if_untrained()
        pairs = [Pair(each, text) for each, texts in zip(questions, lists, strict=True) for text in texts]
        logits = np.reshape(self._by_length(pairs, batch_tokens, progress), -1).astype(np.float32)
        answers: list[ChoiceAnswer] = []
        for texts, end in zip(lists, np.cumsum([len(texts) for texts in lists]), strict=True):
            own = logits[end - len(texts) : end]
            probabilities = softmax(own.astype(np.float64)).tolist()
            best = int(np.argmax(own))
            text, probability = texts[best], probabilities[best]
            answers.append(ChoiceAnswer(index=best, text=text, probability=probability, probabilities=probabilities))
        return answers[0] if is_one else answers

    def columns(self, x: Texts) -> tuple[Sequence[str], ...]:
        check_choices(x, 2)
        return columns_of(x, None)

    def answers(self, x: Texts, progress: bool | None = None) -> list[ChoiceAnswer]:
        questions, *choices = self.columns(x)
        return self.choose(questions, [*zip(*choices, strict=True)], progress=progress)

    def _served(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        return {"logit": outputs.reshape(-1).astype(np.float32)}


def check_choices(columns: Any, least: int) -> None:
    if not isinstance(columns, tuple | list) or len(columns) <= least:
        raise ValueError("this model takes a tuple of columns: questions, first choices, second choices, ...")

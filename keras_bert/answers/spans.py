"""Answers to questions: a span of the context, or "no answer" (Devlin et al. 2018, section 4.2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypedDict

import numpy as np

from keras_bert.answers import Answers, Score, metrics
from keras_bert.answers.columns import Labels
from keras_bert.counted import counted
from keras_bert.text.arguments import list_of_str


class SpanAnswer(TypedDict):
    """An answer to a question; see `BertQuestionAnswerer.answer`."""

    answer: str
    start: int
    end: int
    score: float
    probability: float
    no_answer_score: float


@dataclass(frozen=True)
class SpanAnswers(Answers[list[SpanAnswer]]):
    """Labels are the answers to a question, (text, start); none if it has no answer. An answer is the two best spans.

    Measures are SQuAD 1.1's `f1` and `exact_match`; if some questions have no answer, SQuAD 2.0's, of which
    `best_f1_thresh` is the `no_answer_threshold` with the highest F1.
    """

    no_answer_threshold: float | None

    def check_labels(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> None:
        for number, answers in enumerate(self.plain(labels)):
            check_answers(number, answers)

    def choose(self, labels: Labels | None, answers: Sequence[list[SpanAnswer]] | None = None) -> dict[str, float]:
        """Chooses the threshold of the highest F1 if some questions have no answer; without answers, run_squad.py's."""
        if self.no_answer_threshold is not None or labels is None or all(map(len, labels)):
            return {}
        if answers is None:
            return {"no_answer_threshold": 0.0}
        return {"no_answer_threshold": self.score(answers, labels).measures["best_f1_thresh"]}

    def with_settings(self, settings: Mapping[str, Any]) -> SpanAnswers:
        return dataclasses.replace(self, **settings)

    def score(self, answers: Sequence[list[SpanAnswer]], labels: Labels | None) -> Score:
        """Measures as SQuAD does. An answer that is no exact match is a mistake; its error is its probability."""
        references = [[text for text, _ in each] for each in (() if labels is None else labels)]
        threshold = float("inf") if self.no_answer_threshold is None else self.no_answer_threshold
        # "No answer" may rank first; the search for the best threshold needs the answer after it.
        spans = [next((each["answer"] for each in ranked if each["answer"]), "") for ranked in answers]
        no_answer_scores = [ranked[0]["no_answer_score"] for ranked in answers]
        best = ["" if score > threshold else span for span, score in zip(spans, no_answer_scores, strict=True)]
        baselines: dict[str, float] = {}
        if all(references):
            scores = metrics.squad_v1(references, best)
        else:
            no_answer = 100 * references.count([]) / len(references)
            baselines = {"f1": no_answer, "exact": no_answer}
            scores = metrics.squad_v2(references, spans, no_answer_scores, threshold)
        is_right = metrics.exact_matches([each or [""] for each in references], best)
        probabilities = np.maximum([ranked[0]["probability"] for ranked in answers], np.finfo(float).tiny)
        return Score(
            {"f1": scores.pop("f1"), **scores},
            np.where(is_right, 0.0, probabilities),
            baselines=baselines,
            only_answer="no answer" if any(references) and not any(best) else None,
        )

    def right_answers(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> list[list[SpanAnswer]]:
        texts = [answers[0][0] if answers else "" for answers in self.plain(labels)]
        rest = {"start": 0, "end": 0, "score": 0.0, "probability": 1.0}
        return [[SpanAnswer(answer=each, no_answer_score=-np.inf if each else np.inf, **rest)] for each in texts]

    def fields(self, answer: Any) -> Mapping[str, object]:
        return answer

    def columns(self, answer: list[SpanAnswer]) -> dict[str, object]:
        return {name: answer[0][name] for name in ("answer", "probability")}

    def compared(self, answer: list[SpanAnswer], label: Sequence[tuple[str, int]]) -> list[dict[str, object]]:
        """Puts the right answers and the model's best one side by side; each is empty if there is none."""
        references = " | ".join(dict.fromkeys(text for text, _ in label))
        return [{"label": references, **self.columns(answer)}]


def checked_questions(questions: str | Iterable[str], contexts: str | Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns both as lists of str. Raises TypeError or ValueError if they differ in length, or a text is empty."""
    if isinstance(questions, str) or isinstance(contexts, str):
        raise TypeError("one of question and context is a str, the other is not; pass two str, or two lists")
    questions, contexts = list_of_str(questions, "question", "question"), list_of_str(contexts, "context", "context")
    if len(questions) != len(contexts):
        raise ValueError(f"got {counted(questions, 'question')}, but {counted(contexts, 'context')}")
    for name, texts in (("question", questions), ("context", contexts)):
        for number, text in enumerate(texts):
            if not text or text.isspace():
                raise ValueError(f"{name} {number} (from 0) is empty")
    return questions, contexts


def check_answers(number: int, answers: object) -> None:
    """Raises ValueError if the answers to a question are not pairs (text, start)."""
    if isinstance(answers, str) or not isinstance(answers, Sequence) or not all(map(_is_answer, answers)):
        raise ValueError(
            f"the answers to question {number} (from 0) are {answers!r:.60}; expected [(text, start), ...]"
        )


def _is_answer(answer: object) -> bool:
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        return False
    return isinstance(answer[0], str) and isinstance(answer[1], Integral)

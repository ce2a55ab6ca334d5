"""Checks questions, contexts and answers."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from keras_bert.text.arguments import list_of_str


def checked_questions(questions: Any, contexts: Any) -> tuple[list[str], list[str]]:
    """Two lists of the same length, of str that are not empty. Raises TypeError or ValueError."""
    if isinstance(questions, str) or isinstance(contexts, str):
        raise TypeError("one of question and context is a str, the other is not; pass two str, or two lists")
    questions, contexts = list_of_str(questions, "question", "question"), list_of_str(contexts, "context", "context")
    if len(questions) != len(contexts):
        raise ValueError(f"there are {len(questions):,} questions, but {len(contexts):,} contexts")
    for name, texts in (("question", questions), ("context", contexts)):
        for number, text in enumerate(texts):
            if not text or text.isspace():
                raise ValueError(f"{name} {number} (from 0) is empty")
    return questions, contexts


def bytes_of_answer(number: int, context: str, answers: Any) -> tuple[int, int]:
    """The first answer's byte offsets in the context; the end is exclusive. -1 and -1 if there is no answer."""
    check_answers(number, answers)
    if not answers:
        return -1, -1
    text, start = answers[0]
    if not text or start < 0 or not context.startswith(text, start):
        raise ValueError(f"question {number} (from 0): its answer {text!r} is not at character {start} of its context")
    first = len(context[:start].encode())
    return first, first + len(text.encode())


def check_answers(number: int, answers: Any) -> None:
    """Raises ValueError if the answers to a question are no pairs of a text and its start."""
    if isinstance(answers, str) or not isinstance(answers, Sequence) or not all(map(_is_answer, answers)):
        raise ValueError(
            f"the answers to question {number} (from 0) are {answers!r:.60}; expected [(text, start), ...]"
        )


def _is_answer(answer: Any) -> bool:
    is_pair = isinstance(answer, tuple | list) and len(answer) == 2
    return is_pair and isinstance(answer[0], str) and isinstance(answer[1], Integral)

"""Checks questions, contexts and answers."""

from __future__ import annotations

from typing import Any


def checked_questions(questions: Any, contexts: Any) -> tuple[list[str], list[str]]:
    """Two lists of the same length, of str that are not empty. Raises TypeError or ValueError."""
    if isinstance(questions, str) or isinstance(contexts, str):
        raise TypeError("one of question and context is a str, the other is not; pass two str, or two lists")
    questions, contexts = list(questions), list(contexts)
    if len(questions) != len(contexts):
        raise ValueError(f"there are {len(questions):,} questions, but {len(contexts):,} contexts")
    for name, texts in (("question", questions), ("context", contexts)):
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"{name} {number} (from 0) is {text!r:.60} ({type(text).__name__}), not a str")
            if not text or text.isspace():
                raise ValueError(f"{name} {number} (from 0) is empty")
    return questions, contexts


def bytes_of_answer(number: int, context: str, answers: Any) -> tuple[int, int]:
    """The first answer's byte offsets in the context; the end is exclusive. -1 and -1 if there is no answer."""
    if not len(answers):
        return -1, -1
    if isinstance(answers, str) or not isinstance(answers[0], tuple | list) or len(answers[0]) != 2:
        raise ValueError(
            f"the answers to question {number} (from 0) are {answers!r:.60}; expected [(text, start), ...]"
        )
    text, start = answers[0]
    if not text or start < 0 or not context.startswith(text, start):
        raise ValueError(f"question {number} (from 0): its answer {text!r} is not at character {start} of its context")
    first = len(context[:start].encode())
    return first, first + len(text.encode())

"""Reads SQuAD's JSON, versions 1.1 and 2.0: questions, contexts and answers."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_bert.data.decoding import one_text
from keras_bert.data.examples import Answer, QuestionExamples
from keras_bert.data.problems import Problems
from keras_bert.files import read_text


def read_squad(path: str | Path, *, skip_bad: bool = False) -> QuestionExamples:
    """Reads questions from a JSON file in SQuAD's format (https://rajpurkar.github.io/SQuAD-explorer/).

    In version 2.0, a question that `is_impossible` has no answers. A file without any answers is read for prediction.

    An answer that is not at its `answer_start` is moved to its nearest occurrence in the context, or left out if there
    is none. A question that loses all its answers is left out too. Warnings count them.

    Args:
        path: the file.
        skip_bad: leave out bad questions, with a warning, instead of raising.

    Raises:
        ValueError: as every reader (see `keras_bert.data`); or the file is not in SQuAD's format. A question is bad if
            it has no text, unique id or context, or no answers though it is not impossible.

    Example:
        >>> import json, pathlib, tempfile
        >>> question = {"id": "q1", "question": "Who sang?", "answers": [{"text": "Ada", "answer_start": 0}]}
        >>> article = {"title": "Songs", "paragraphs": [{"context": "Ada sang.", "qas": [question]}]}
        >>> path = pathlib.Path(tempfile.mkdtemp(), "train.json")
        >>> _ = path.write_text(json.dumps({"version": "1.1", "data": [article]}))
        >>> read_squad(path).answers
        [(Answer(text='Ada', start=0),)]
    """
    try:
        asked = list(_questions(json.loads(read_text(path))))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not a JSON file: {error}") from None
    except (LookupError, TypeError) as error:
        raise ValueError(f"{path} is not in SQuAD's format, data > paragraphs > context and qas: {error!r}") from None
    if not asked:
        raise ValueError(f"{path} has no questions")
    answered = any(question.get("answers") or question.get("is_impossible") for _, question in asked)
    problems, lost = Problems(path, "questions"), Problems(path, "questions")
    place = _Places()
    examples: dict[str, tuple[str, str, tuple[Answer, ...]]] = {}  # by id
    for number, (context, question) in enumerate(asked, start=1):
        name = f"question {question.get('id') or number}"
        try:
            identity = _field(question, "id")
            if identity in examples:
                raise ValueError("its id is not unique")
            text = _field(question, "question")
            one_text(context, "context")
            given = _answers(question) if answered else []
        except ValueError as error:
            problems.add(name, str(error))
            continue
        found = tuple(answer for answer in (place(context, answer) for answer in given) if answer)
        if given and not found:
            lost.add(name, f"{given[0].text!r} is not in its context")
        else:
            examples[identity] = (text, context, found)
    problems.settle(len(asked), skip_bad)
    place.warn(path)
    lost.settle(len(asked), skip_bad=True)
    if not examples:
        raise ValueError(f"{path} has no questions that can be used")
    questions, contexts, answers = (list(column) for column in zip(*examples.values(), strict=True))
    return QuestionExamples(list(examples), questions, contexts, answers if answered else None)


def _questions(content: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each question with its context. Raises LookupError or TypeError if the format is another."""
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            context = paragraph["context"]
            for question in paragraph["qas"]:
                if not isinstance(context, str) or not isinstance(question, dict):
                    raise TypeError(f"a {type(context).__name__} as context, a {type(question).__name__} as question")
                yield context, question


def _field(question: dict[str, Any], name: str) -> str:
    value = question.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}, which is not a text")
    return one_text(value, name)


def _answers(question: dict[str, Any]) -> list[Answer]:
    """A question's answers. Raises ValueError if they are damaged or contradict `is_impossible`."""
    given, impossible = question.get("answers") or [], question.get("is_impossible", False)
    if impossible and given:
        raise ValueError("is_impossible, but has answers")
    if not impossible and not given:
        raise ValueError("no answers, and is not is_impossible")
    if not isinstance(given, list):
        raise ValueError(f"answers are a {type(given).__name__} instead of a list")
    answers = []
    for answer in given:
        if not isinstance(answer, dict) or not isinstance(answer.get("answer_start"), int):
            raise ValueError(f"an answer is {answer!r}; expected a text, and a whole number as answer_start")
        answers.append(Answer(_field(answer, "text"), answer["answer_start"]))
    return answers


class _Places:
    """Finds answers in their contexts, and counts those that are not at their `answer_start`."""

    def __init__(self):
        self._total = self._moved = self._lost = 0

    def __call__(self, context: str, answer: Answer) -> Answer | None:
        self._total += 1
        if answer.start >= 0 and context.startswith(answer.text, answer.start):
            return answer
        places = [found.start() for found in re.finditer(f"(?={re.escape(answer.text)})", context)]
        if not places:
            self._lost += 1
            return None
        self._moved += 1
        return answer._replace(start=min(places, key=lambda place: abs(place - answer.start)))

    def warn(self, path: str | Path) -> None:
        if self._moved or self._lost:
            warnings.warn(
                f"{path}: {self._moved + self._lost:,} of {self._total:,} answers are not at their answer_start: "
                f"{self._moved:,} are moved to their nearest occurrence, {self._lost:,} do not occur in their contexts "
                "and are left out",
                stacklevel=3,  # at the call of read_squad
            )

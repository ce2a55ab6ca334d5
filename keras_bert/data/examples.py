"""Examples as parallel lists, the result of every reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


def _check_lengths(**lists: list | None) -> None:
    lengths = {name: len(values) for name, values in lists.items() if values is not None}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"parallel lists have different lengths: {lengths}")


@dataclass(frozen=True)
class TextExamples:
    """Texts or pairs of texts, to classify or to score.

    Attributes:
        texts: one an example, as in the file; never empty.
        pairs: the second text of each example; None for single texts.
        labels: for each example the name of a class; or a number; or, in multi-label problems, a tuple of names, which
            may be empty. None if the file was read without labels, for prediction.

    Raises:
        ValueError: the lists have different lengths.

    Example:
        >>> len(TextExamples(["What a film!", "I left."], labels=["good", "bad"]))
        2
    """

    texts: list[str]
    pairs: list[str] | None = None
    labels: list[str] | list[float] | list[tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        _check_lengths(texts=self.texts, pairs=self.pairs, labels=self.labels)

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class WordExamples:
    """Sentences split into words, with a tag for every word.

    Attributes:
        words: the words of each sentence; no sentence and no word is empty.
        tags: the tag of each word, such as `B-person`. None if the file was read without tags, for prediction.

    Raises:
        ValueError: the lists, or the words and tags of a sentence, have different lengths.

    Example:
        >>> WordExamples([["Ada", "sang"]], [["B-person"]])
        Traceback (most recent call last):
        ValueError: sentence 1 has 2 words and 1 tags
    """

    words: list[list[str]]
    tags: list[list[str]] | None = None

    def __post_init__(self) -> None:
        _check_lengths(words=self.words, tags=self.tags)
        for number, (words, tags) in enumerate(zip(self.words, self.tags or [], strict=False), start=1):
            if len(words) != len(tags):
                raise ValueError(f"sentence {number} has {len(words)} words and {len(tags)} tags")

    def __len__(self) -> int:
        return len(self.words)


class Answer(NamedTuple):
    """A span of a context: `context[start : start + len(text)] == text`, in characters (code points)."""

    text: str
    start: int


@dataclass(frozen=True)
class QuestionExamples:
    """Questions to answer with a span of a context.

    Attributes:
        ids: a unique name for each question.
        questions: never empty.
        contexts: never empty. Questions of one paragraph share one string.
        answers: the answers to each question, several if several people were asked; an empty tuple if its context does
            not answer it. None if the file has no answers, for prediction.

    Raises:
        ValueError: the lists have different lengths.

    Example:
        >>> examples = QuestionExamples(["q1"], ["Who sang?"], ["Ada sang."], [(Answer("Ada", 0),)])
        >>> examples.impossible
        [False]
    """

    ids: list[str]
    questions: list[str]
    contexts: list[str]
    answers: list[tuple[Answer, ...]] | None = None

    def __post_init__(self) -> None:
        _check_lengths(ids=self.ids, questions=self.questions, contexts=self.contexts, answers=self.answers)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def impossible(self) -> list[bool] | None:
        """For each question, whether its context has no answer to it; None without answers."""
        return None if self.answers is None else [not answers for answers in self.answers]

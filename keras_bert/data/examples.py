"""The results of the readers: examples as parallel lists, and the bad rows of a file, reported together."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from keras_bert.files import parse_json

R = TypeVar("R", bound=Mapping[str, object])  # a row by column
Labels: TypeAlias = list[str] | list[float] | list[tuple[str, ...]]
Scores: TypeAlias = list[float] | list[tuple[float, ...]]
SHOWN = 10  # the most bad rows in a message


class Problems:
    """The bad rows of a file or directory; `kind` is the word for rows in messages: "rows", "sentences", "files".

    Example:
        >>> problems = Problems("train.tsv", "rows")
        >>> problems.add("line 17", "4 cells instead of 3")
        >>> problems.settle(total=1000, skip_bad=False)
        Traceback (most recent call last):
        ValueError: train.tsv: 1 of 1,000 rows cannot be used: line 17: 4 cells instead of 3. Fix the file, or leave
        them out with skip_bad
    """

    def __init__(self, path: str | Path, kind: str):
        self._path = path
        self._kind = kind
        self._faults: list[str] = []

    def add(self, place: str, fault: str) -> None:
        """Notes a bad row by its place, such as "line 17". Call it once for a row."""
        self._faults.append(f"{place}: {fault}")

    def settle(self, total: int, skip_bad: bool) -> None:
        """Reports the bad rows when all `total` rows are read: raises ValueError, or warns if `skip_bad`.

        Even with `skip_bad`, it raises ValueError if all rows are bad.
        """
        if not self._faults:
            return
        shown = "; ".join(self._faults[:SHOWN])
        if len(self._faults) > SHOWN:
            shown += f"; and {len(self._faults) - SHOWN:,} more"
        summary = f"{self._path}: {len(self._faults):,} of {total:,} {self._kind}"
        if len(self._faults) >= total:
            raise ValueError(f"{summary} cannot be used, so nothing is left: {shown}")
        if not skip_bad:
            advice = "Fix the file, or leave them out with skip_bad"
            raise ValueError(f"{summary} cannot be used: {shown}. {advice}")
        warnings.warn(f"{summary} are left out: {shown}", stacklevel=3)  # at the call of the reader


# -- Checks the texts and the JSON lines in files of examples.


def parse_json_object(line: str) -> dict[str, Any]:
    """Parses the object in a line of JSON lines. Raises ValueError if there is none."""
    try:
        row = parse_json(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}, at character {error.colno}" if line.strip() else "blank") from None
    except ValueError as error:
        raise ValueError(f"not JSON that can be read: {error}") from None
    if not isinstance(row, dict):
        raise ValueError(f"a JSON {type(row).__name__} instead of an object")
    return row


def check_text(value: str, name: str) -> str:
    """Checks a text, and returns it. Raises ValueError if it is blank or has half of a surrogate pair."""
    if not value.strip():
        raise ValueError(f"{name} is empty")
    return check_characters(value, name)


def check_characters(value: str, name: str) -> str:
    """Checks a string, and returns it. Raises ValueError if it has half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON can have it, as \ud83d, but TensorFlow cannot read it
        raise ValueError(f"{name} has half of a surrogate pair, which is not a character") from None
    return value


def check_row(row: R) -> R:
    """Checks a row, and returns it. Raises ValueError, with the column's name, if a cell cannot be written."""
    for name, value in row.items():
        if isinstance(value, ValueError):
            raise value
        # Half of a surrogate pair may also be deep in a JSON value.
        check_characters(
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), f"{name!a}"
        )
        check_characters(name, f"the name of column {name!a}")
    return row


def _check_lengths(**lists: list | None) -> None:
    lengths = {name: len(values) for name, values in lists.items() if values is not None}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"parallel lists have different lengths: {lengths}")


@dataclass(frozen=True)
class TextExamples:
    """Texts or pairs of texts, to classify or to score.

    Attributes:
        texts: the text of each example, as in the file; none is empty.
        pairs: the second text of each example; None for single texts.
        labels: for each example, the name of a class, a number, or, in multi-label problems, a tuple of names, which
            may be empty. None if the file was read without labels.
        places: the line of each example in its file, from 1, or the row in Parquet and Excel files. For a directory,
            the file of each example. None for examples that are from no file.

    Raises:
        ValueError: the lists have different lengths.

    Example:
        >>> len(TextExamples(["What a film!", "I left."], labels=["good", "bad"]))
        2
    """

    texts: list[str]
    pairs: list[str] | None = None
    labels: Labels | None = None
    places: list[int] | list[str] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_lengths(texts=self.texts, pairs=self.pairs, labels=self.labels, places=self.places)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def xy(self) -> tuple[list[str] | tuple[list[str], list[str]], Labels | None]:
        """The texts, or a tuple of first and second texts, and the labels, in the form that `fine_tune` takes."""
        return (self.texts if self.pairs is None else (self.texts, self.pairs)), self.labels

    @property
    def label_names(self) -> list[str]:
        """The names of all labels, in alphabetical order; `["value"]` if labels are numbers.

        Example:
            >>> TextExamples(["a", "b"], labels=[("war", "love"), ()]).label_names
            ['love', 'war']
        """
        names = {name for label in self.labels or [] for name in (label if isinstance(label, tuple) else (label,))}
        texts = [name for name in names if isinstance(name, str)]
        return sorted(texts) if len(texts) == len(names) else ["value"]

    @property
    def label_counts(self) -> dict[str, int]:
        """The number of examples with each label, by name; empty if labels are numbers.

        Example:
            >>> TextExamples(["a", "b", "c"], labels=["good", "bad", "good"]).label_counts
            {'bad': 1, 'good': 2}
        """
        labels = self.labels or []
        return _count_names(name for label in labels for name in (label if isinstance(label, tuple) else (label,)))

    def check_can_be_learned(self, path: str | Path) -> None:
        """Raises ValueError, with the file's name, if there are no labels or all are the same."""
        # The order of an example's labels has no meaning.
        labels = [tuple(sorted(each)) if isinstance(each, tuple) else each for each in self.labels or []]
        _check_can_be_learned(path, "texts", labels)


@dataclass(frozen=True)
class ColumnExamples:
    """Texts to compare, for sentence vectors: anchors, such as questions, and the texts they are compared with.

    Attributes:
        columns: two or more lists of texts, none of them empty: anchors, positives and maybe negatives; or, with
            scores, first and second texts.
        scores: the similarity of each pair; or a tuple of scores for each row, such as a reranker's scores of the
            positive and the negative. None if the file was read without scores.

    Raises:
        ValueError: the lists have different lengths.

    Example:
        >>> len(ColumnExamples((["Who sang?"], ["Ada sang."])))
        1
    """

    columns: tuple[list[str], ...]
    scores: Scores | None = None

    def __post_init__(self) -> None:
        _check_lengths(**{f"column {i}": column for i, column in enumerate(self.columns)}, scores=self.scores)

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def xy(self) -> tuple[tuple[list[str], ...], Scores | None]:
        """The columns, and scores or None, in the form that `fine_tune` takes."""
        return self.columns, self.scores

    def check_can_be_learned(self, path: str | Path) -> None:
        """Raises ValueError, with the file's name, if all scores, or all positives, are the same."""
        if self.scores is not None:
            _check_can_be_learned(path, "pairs", self.scores)
        elif len(set(self.columns[1])) == 1:
            raise ValueError(
                f"{path}: all {len(self):,} positives are the same text; training compares texts, so they must differ"
            )


@dataclass(frozen=True)
class WordExamples:
    """Sentences split into words, with a label for every word.

    Attributes:
        words: the words of each sentence; no sentence and no word is empty.
        labels: the label of each word, such as `B-person`. None if the file was read without labels.
        places: the line of each sentence's first word in its file, from 1. None for sentences that are from no file.

    Raises:
        ValueError: the lists, or the words and labels of a sentence, have different lengths.

    Example:
        >>> WordExamples([["Ada", "sang"]], [["B-person"]])
        Traceback (most recent call last):
        ValueError: sentence 1 has 2 words and 1 labels
    """

    words: list[list[str]]
    labels: list[list[str]] | None = None
    places: list[int] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_lengths(words=self.words, labels=self.labels, places=self.places)
        for number, (words, labels) in enumerate(zip(self.words, self.labels or [], strict=False), start=1):
            if len(words) != len(labels):
                raise ValueError(f"sentence {number} has {len(words)} words and {len(labels)} labels")

    def __len__(self) -> int:
        return len(self.words)

    @property
    def xy(self) -> tuple[list[list[str]], list[list[str]] | None]:
        """Words and labels, in the form that `fine_tune` takes."""
        return self.words, self.labels

    @property
    def label_names(self) -> list[str]:
        """The names of all labels, in alphabetical order."""
        return sorted({name for labels in self.labels or [] for name in labels})

    @property
    def label_counts(self) -> dict[str, int]:
        """The number of words with each label, by name."""
        return _count_names(name for labels in self.labels or [] for name in labels)

    def check_can_be_learned(self, path: str | Path) -> None:
        """Raises ValueError, with the file's name, if there are no labels or all are the same."""
        _check_can_be_learned(path, "words", [name for labels in self.labels or [] for name in labels])


def _count_names(names: Iterable[object]) -> dict[str, int]:
    counts = Counter(name for name in names if isinstance(name, str))
    return {name: counts[name] for name in sorted(counts)}


def lookalikes(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups names that differ only in case or spaces, such as two spellings of one label.

    Example:
        >>> lookalikes(["good", "bad", "Good ", "GOOD"])
        [('good', 'Good ', 'GOOD')]
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault("".join(name.split()).casefold(), []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


class Answer(NamedTuple):
    """A span of a context: `context[start : start + len(text)] == text`, in characters (code points)."""

    text: str
    start: int


@dataclass(frozen=True)
class QuestionExamples:
    """Questions to answer with a span of a context.

    Attributes:
        ids: a unique name for each question.
        questions: the questions; none is empty.
        contexts: the context of each question; none is empty. Questions of one paragraph share one string.
        answers: the answers to each question; an empty tuple if the context has no answer. None if the file has no
            answers at all.
        places: the line or row of each question in its table, from 1. None in SQuAD's own JSON.

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
    places: list[int] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        columns = {"questions": self.questions, "contexts": self.contexts, "answers": self.answers}
        _check_lengths(ids=self.ids, **columns, places=self.places)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def impossible(self) -> list[bool] | None:
        """For each question, whether its context does not answer it; None without answers."""
        return None if self.answers is None else [not answers for answers in self.answers]

    @property
    def xy(self) -> tuple[tuple[list[str], list[str]], list[tuple[Answer, ...]] | None]:
        """Questions and contexts, and answers, as `fine_tune` takes them."""
        return (self.questions, self.contexts), self.answers

    def check_can_be_learned(self, path: str | Path) -> None:
        """Raises ValueError, with the file's name, if no question has an answer."""
        if not any(self.answers or []):
            raise ValueError(f"{path}: none of its {len(self):,} questions has an answer")


def _check_can_be_learned(path: str | Path, unit: str, labels: Sequence[object]) -> None:
    """Raises ValueError if there are no labels, or all are the same."""
    if not labels:
        raise ValueError(f"{path} was read without labels, but training needs them")
    if len(set(labels)) == 1:
        minimum = "two numbers" if isinstance(labels[0], float) else "two classes"
        raise ValueError(
            f"{path}: all {len(labels):,} labels are {labels[0]!r}; training on {unit} needs at least {minimum}"
        )

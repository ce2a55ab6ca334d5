"""Examples, the one value that readers return; and the bad rows of a file, reported together."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from keras_bert.counted import counted
from keras_bert.files import parse_json

R = TypeVar("R", bound=Mapping[str, object])  # a row by column
SHOWN = 10  # the most bad rows in a message


class Problems:
    """The bad rows of a file or directory; `kind` is the word for rows in messages: "rows", "sentences", "files"."""

    def __init__(self, path: str | Path, kind: str):
        self._path = path
        self._kind = kind
        self._faults: list[str] = []

    def add(self, place: str, fault: str) -> None:
        """Notes a bad row by its place, such as "line 17". Call it once for a row."""
        self._faults.append(f"{place}: {fault}")

    def settle(self, total: int, skip_bad: bool, stacklevel: int = 3) -> None:
        """Raises ValueError if rows are bad; with `skip_bad` warns, unless all `total` rows are bad."""
        if not self._faults:
            return
        shown = "; ".join(self._faults[:SHOWN])
        if len(self._faults) > SHOWN:
            shown += f"; and {len(self._faults) - SHOWN:,} more"
        summary = f"{self._path}: {len(self._faults):,} of {total:,} {self._kind}"
        if len(self._faults) >= total:
            raise ValueError(f"{summary} cannot be used, so nothing is left: {shown}")
        if not skip_bad:
            raise ValueError(f"{summary} cannot be used: {shown}. Fix the file, or leave them out with skip_bad")
        warnings.warn(f"{summary} are left out: {shown}", stacklevel=stacklevel)  # at the call of the reader


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


class Answer(NamedTuple):
    """A span of a context: `context[start : start + len(text)] == text`, in characters (code points)."""

    text: str
    start: int


@dataclass(frozen=True)
class Rows:
    """The rows of a file that examples come from, in the order of the examples.

    Attributes:
        path: the file or directory.
        places: what names each row: its "line" from 1 (in Parquet and Excel files, the number of the row), its "file"
            in a directory, or the "id" of a question.
        unit: the unit of the places in messages, such as "line" or "row".
        cells: the cells of each row of a table, as a list or by column; empty for other files.
        names: the names of the columns of lists; None without a header.
        used: the columns that the examples hold, by name or by number from 1.
        word_lines: the lines of the words of each sentence.
    """

    path: str | Path
    places: Mapping[str, Sequence[int] | Sequence[str]]
    unit: str = "line"
    cells: Sequence[list[str] | dict[str, Any]] = ()
    names: Sequence[str] | None = None
    used: Collection[str | int] = ()
    word_lines: Sequence[Sequence[int]] = ()

    def place(self, number: int) -> dict[str, int | str]:
        """What names the row of an example, such as its "line"."""
        return {name: places[number] for name, places in self.places.items()}

    def __len__(self) -> int:
        return len(next(iter(self.places.values())))

    def other_cells(self) -> list[dict[str, Any]]:
        """Lists the cells of each row that its example does not hold, by column, so that output can repeat them.

        All rows have the same columns: a key that a row of JSON lines lacks is None. Without a header, columns are "1",
        "2" and so on. If two columns have one name, the second is renamed by its number: "name (3)". Raises ValueError
        if a cell cannot be written.
        """
        if not self.cells:
            return [{} for _ in range(len(self))]
        names, rows = None if self.names is None else _make_unique(self.names), []
        for number, row in zip(self.places["line"], self.cells, strict=True):
            keys = names or [str(number) for number in range(1, len(row) + 1)]
            try:
                rows.append(check_row(row if isinstance(row, dict) else dict(zip(keys, row, strict=True))))
            except ValueError as error:
                raise ValueError(f"{self.path}, {self.unit} {number}: {error}") from None
        names = names or list(dict.fromkeys(name for row in rows for name in row))
        used = {names[int(each) - 1] if each not in names and str(each).isdecimal() else each for each in self.used}
        return [{name: row.get(name) for name in names if name not in used} for row in rows]


def _make_unique(names: Sequence[str]) -> list[str]:
    """Makes names unique: adds the number of the column to a repeated name."""
    unique: list[str] = []
    for number, name in enumerate(names, start=1):
        while name in unique:
            name = f"{name} ({number})"
        unique.append(name)
    return unique


@dataclass(frozen=True)
class Examples:
    """Examples to learn from, or to measure with, as parallel lists. Readers return them, and `fine_tune` takes them.

    Attributes:
        texts: the texts of all examples by name; no text is empty. The names are "text", and for pairs "text_pair";
            "words", where each example is a list of words; "question" and "context", or "choice_1" and so on; or, for
            texts to compare, "query", "positive", "negative_1" and so on.
        labels: for each example, the name of a class, a number, or, in multi-label problems, a tuple of names, which
            may be empty; for words, a list with the label of each word, such as `B-person`; for a question, a tuple of
            each `Answer`, empty if its context has none; for texts to compare, a score, or a tuple of scores. None if
            the file was read without labels.
        rows: where each example stands in its file, and the other cells there. None for examples that are from no file.

    Raises:
        ValueError: the lists, or the words and labels of a sentence, have different lengths.

    Example:
        >>> examples = Examples({"text": ["What a film!", "I left."]}, labels=["good", "bad"])
        >>> examples.x, examples.label_counts
        (['What a film!', 'I left.'], {'bad': 1, 'good': 1})
    """

    texts: Mapping[str, Sequence[Any]]
    labels: Sequence[Any] | None = None
    rows: Rows | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        lists = {**self.texts, "labels": self.labels, "rows": self.rows}
        lengths = {name: len(values) for name, values in lists.items() if values is not None}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"parallel lists have different lengths: {lengths}")
        sentences = zip(self.texts.get("words", ()), self.labels or (), strict=False)
        for number, (words, labels) in enumerate(sentences, start=1):
            if len(words) != len(labels):
                raise ValueError(f"sentence {number} has {counted(words, 'word')} and {counted(labels, 'label')}")

    def __len__(self) -> int:
        return len(next(iter(self.texts.values())))

    @property
    def x(self) -> Any:
        """The texts as `fit` takes them: a list, or a tuple of lists."""
        first, *others = self.texts.values()
        return (first, *others) if others else first

    @property
    def xy(self) -> tuple[Any, Sequence[Any] | None]:
        """The texts and the labels as `fit` takes them."""
        return self.x, self.labels

    @property
    def label_names(self) -> list[str]:
        """The names of all labels, in alphabetical order; `["value"]` if labels are numbers."""
        names = set(self._single_labels())
        texts = [name for name in names if isinstance(name, str)]
        return sorted(texts) if len(texts) == len(names) else ["value"]

    @property
    def label_counts(self) -> dict[str, int]:
        """The number of examples, or of words, with each label, by name; empty if labels are not names."""
        counts = Counter(name for name in self._single_labels() if isinstance(name, str))
        return {name: counts[name] for name in sorted(counts)}

    def _single_labels(self) -> list[Any]:
        """Lists the labels, and each of those that are in a tuple or a list."""
        labels = self.labels or []
        return [name for label in labels for name in (label if isinstance(label, tuple | list) else (label,))]

    def check_can_be_learned(self, path: str | Path) -> None:
        """Raises ValueError, with the file's name, if there are no labels, or all are the same."""
        if "context" in self.texts:
            if not any(self.labels or []):
                raise ValueError(f"{path}: {counted(self, 'question')}, none with an answer")
        elif self.labels is None and "positive" in self.texts:
            if len(set(self.texts["positive"])) == 1:
                raise ValueError(
                    f"{path}: {counted(self, 'positive')}, all the same text; training compares texts that differ"
                )
        elif not self.labels:
            raise ValueError(f"{path} was read without labels, but training needs them")
        else:
            labels, unit = self.labels, "pairs" if "positive" in self.texts else "texts"
            if "words" in self.texts:
                labels, unit = self._single_labels(), "words"
            elif unit == "texts":  # the order of an example's labels has no meaning
                labels = [tuple(sorted(each)) if isinstance(each, tuple) else each for each in labels]
            if len(set(labels)) == 1:
                minimum = "two numbers or more" if isinstance(labels[0], float) else "two classes or more"
                raise ValueError(
                    f"{path}: {counted(labels, 'label')}, all {labels[0]!r}; training on {unit} needs {minimum}"
                )


def lookalikes(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups names that differ only in case or spaces: "good", "Good " and "GOOD" are one group."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault("".join(name.split()).casefold(), []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]

"""Labels: parsed from the cells of a table, and checked before training."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from keras_bert.data.examples import QuestionExamples, TextExamples, WordExamples

KINDS = ("class", "number", "multi_label")


def parse_label(value: Any, kind: str, separator: str = "|") -> str | float | tuple[str, ...]:
    """Parses the label in a cell: a string in CSV and TSV, any JSON value in JSON lines.

    Args:
        value: the cell.
        kind: "class": one name, without the white space around it; JSON's integers and true and false are names too.
            "number": a finite number. "multi_label": any number of names, or none: a string with separators, or in
            JSON also a list.
        separator: the string between names.

    Raises:
        ValueError: the cell has no such label.

    Example:
        >>> parse_label(" good", "class"), parse_label("4.5", "number"), parse_label("war|love", "multi_label")
        ('good', 4.5, ('war', 'love'))
    """
    if kind == "number":
        return _number(value)
    if kind == "class":
        return _name(value)
    if isinstance(value, str):
        value = value.split(separator) if value.strip() else []
    if not isinstance(value, list):
        raise ValueError(f"label is {value!r}, where a list of names is expected")
    return tuple(dict.fromkeys(_name(name) for name in value))


def _name(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError("label is empty")
    if not isinstance(value, str):
        raise ValueError(f"label is {value!r}, which is not the name of a class")
    return value.strip()


def _number(value: Any) -> float:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError("label is empty")
    try:
        if isinstance(value, bool) or (isinstance(value, str) and "_" in value):  # float takes both for numbers
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"label is {value!r}, which is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"label is {value!r}, which is not a finite number")
    return number


def check_can_be_learned(examples: TextExamples | WordExamples | QuestionExamples, path: str | Path) -> None:
    """Checks that a model can learn from examples.

    Args:
        examples: the training examples.
        path: their file, for the message.

    Raises:
        ValueError: there are no labels or tags, or they are all the same, so that there is one class only; or no
            question has an answer.

    Example:
        >>> check_can_be_learned(TextExamples(["a", "b"], labels=["good", "good"]), "train.tsv")
        Traceback (most recent call last):
        ValueError: train.tsv: all 2 labels are 'good'; to learn to tell texts apart takes two classes at least
    """
    if isinstance(examples, QuestionExamples):
        if not any(examples.answers or []):
            raise ValueError(f"{path}: none of its {len(examples):,} questions has an answer to learn from")
        return
    if isinstance(examples, WordExamples):
        kind, what, labels = "tags", "words", [tag for tags in examples.tags or [] for tag in tags]
    else:
        kind, what, labels = "labels", "texts", examples.labels or []
    if not labels:
        raise ValueError(f"{path} was read without {kind}, and there is nothing to learn without")
    # In multi-label problems, the order of an example's labels has no meaning.
    different = {tuple(sorted(label)) if isinstance(label, tuple) else label for label in labels}
    if len(different) == 1:
        needed = "two numbers" if isinstance(labels[0], float) else "two classes"
        message = f"all {len(labels):,} {kind} are {labels[0]!r}; to learn to tell {what} apart takes {needed} at least"
        raise ValueError(f"{path}: {message}")

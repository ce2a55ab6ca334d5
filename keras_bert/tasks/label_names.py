"""Checks the names of labels, and finds their indices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Real
from typing import Any

import numpy as np

from keras_bert.data.problems import characters
from keras_bert.data.tables import parse_label
from keras_bert.text.arguments import check_many

_ENOUGH = 3  # examples of a label; fewer are learned by heart, if at all
_MANY = 20  # classes whose names are all numbers: then the numbers may be measurements
_SHOWN = 5  # labels in a message


def checked_labels(labels: Iterable[str], least: int = 1) -> list[str]:
    """The labels as a list.

    Raises:
        TypeError: they are not str, or are in a collection without order, such as a set.
        ValueError: there are fewer than `least`, some are equal, or one has half of a surrogate pair.
    """
    if isinstance(labels, str | bytes | Set | Mapping) or not isinstance(labels, Iterable):
        raise TypeError(f"labels are {labels!r:.80}; expected a list of their names, in the order of the logits")
    check_many(labels, "labels", "label")
    labels = list(labels)
    if not all(isinstance(label, str) for label in labels):
        raise TypeError(f"labels must be str, not {labels!r:.80}")
    if len(labels) < least:
        raise ValueError(f"labels are {labels}; a classifier needs at least {least}")
    for label in labels:
        characters(label, f"label {label!a}")  # else the model could not be saved
    repeated = sorted({label for label in labels if labels.count(label) > 1})
    if repeated:
        raise ValueError(f"labels occur twice: {', '.join(repeated)}")
    return [str(label) for label in labels]  # also from NumPy's str


def number_of(label: Any, labels: Sequence[str]) -> int:
    """The index of a label, from its name or index.

    Raises:
        ValueError: there is no such label; the message lists all.
    """
    if label in labels:
        return labels.index(label)
    is_number = isinstance(label, Real) and float(label).is_integer()
    if not is_number or not 0 <= label < len(labels):
        raise ValueError(f"{label!r} is not one of the labels, which are {', '.join(labels)}")
    return int(label)


def numbers_of(labels: Any, name: str) -> np.ndarray:
    """Numbers, or rows of as many numbers each, as float32. Raises ValueError if they are not."""
    try:
        return np.asarray(labels, np.float32)
    except (TypeError, ValueError):
        wrong = (f"; row {row} (from 0) is {each!r:.60}" for row, each in enumerate(labels) if not _are_numbers(each))
        raise ValueError(f"{name} must be numbers, as many in each row{next(wrong, '')}") from None


def rare(labels: Sequence[str], counts: Iterable[int], unit: str) -> list[str]:
    """A warning about labels that are too rare to learn, in a list; an empty list if there are none.

    Args:
        labels: all names.
        counts: the number of examples of each label.
        unit: the word for examples, such as "texts".

    Example:
        >>> rare(["bad", "good", "odd"], [40, 50, 1], "texts")
        ["labels with fewer than 3 texts to train on, too few to learn: 'odd' (1)"]
    """
    few = [f"{label!r} ({count})" for label, count in zip(labels, counts, strict=True) if count < _ENOUGH]
    if not few:
        return []
    shown = ", ".join(few[:_SHOWN]) + (f" and {len(few) - _SHOWN:,} more" if len(few) > _SHOWN else "")
    return [f"labels with fewer than {_ENOUGH} {unit} to train on, too few to learn: {shown}"]


def numeric(labels: Sequence[str]) -> list[str]:
    """A warning about classes whose names are all numbers, in a list; an empty list if there is nothing to warn of."""
    if len(labels) < _MANY or not all(map(_is_number, labels)):
        return []
    return [
        f"all {len(labels):,} labels are numbers: did you mean problem_type='regression' (--problem-type regression)?"
    ]


def _are_numbers(label: Any) -> bool:
    try:
        return np.asarray(label, np.float32) is not None
    except (TypeError, ValueError):
        return False


def _is_number(name: str) -> bool:
    try:
        parse_label(name, "number")
    except ValueError:
        return False
    return True

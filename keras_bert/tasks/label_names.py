"""Label names: checks of them, and the number of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Real
from typing import Any

from keras_bert.data.decoding import characters


def checked_labels(labels: Iterable[str], least: int = 1) -> list[str]:
    """The labels as a list.

    Raises:
        TypeError: they have no order, or are not str.
        ValueError: there are fewer than `least`, or duplicates, or one has half of a surrogate pair.
    """
    if isinstance(labels, str | bytes | Set | Mapping) or not isinstance(labels, Iterable):
        raise TypeError(f"labels are {labels!r:.80}; expected a list of their names, in the order of the logits")
    labels = list(labels)
    if not all(isinstance(label, str) for label in labels):
        raise TypeError(f"labels must be str, not {labels!r:.80}")
    if len(labels) < least:
        raise ValueError(f"labels are {labels}; a classifier tells at least {least} apart")
    for label in labels:
        characters(label, f"label {label!a}")  # or the model could not be saved
    repeated = sorted({label for label in labels if labels.count(label) > 1})
    if repeated:
        raise ValueError(f"labels are there twice: {', '.join(repeated)}")
    return [str(label) for label in labels]  # also from NumPy's str


def number_of(label: Any, labels: Sequence[str]) -> int:
    """The number of a label, from its name or number.

    Raises:
        ValueError: there is no such label; the message lists all.
    """
    if label in labels:
        return labels.index(label)
    is_number = isinstance(label, Real) and float(label).is_integer()
    if not is_number or not 0 <= label < len(labels):
        raise ValueError(f"{label!r} is not one of the labels, which are {', '.join(labels)}")
    return int(label)

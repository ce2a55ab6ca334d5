"""Names of labels: what may be one, and which number each has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Real
from typing import Any


def checked_labels(labels: Iterable[str], least: int = 1) -> list[str]:
    """Labels in their order.

    Raises:
        TypeError: they have no order, or are not str.
        ValueError: there are not at least `least` different ones.
    """
    if isinstance(labels, str | bytes | Set | Mapping) or not isinstance(labels, Iterable):
        raise TypeError(f"labels are {labels!r:.80}; expected a list of their names, in the order of the logits")
    labels = list(labels)
    if not all(isinstance(label, str) for label in labels):
        raise TypeError(f"labels must be str, not {labels!r:.80}")
    if len(labels) < least:
        raise ValueError(f"labels are {labels}; a classifier tells at least {least} apart")
    repeated = sorted({label for label in labels if labels.count(label) > 1})
    if repeated:
        raise ValueError(f"labels are there twice: {', '.join(repeated)}")
    return [str(label) for label in labels]  # of NumPy's str, too


def number_of(label: Any, labels: Sequence[str]) -> int:
    """The number of a label by its name; numbers stay.

    Raises:
        ValueError: there is no such label; with all that there are.
    """
    if label in labels:
        return labels.index(label)
    is_number = isinstance(label, Real) and float(label).is_integer()
    if not is_number or not 0 <= label < len(labels):
        raise ValueError(f"{label!r} is not one of the labels, which are {', '.join(labels)}")
    return int(label)

"""Names of labels: what may be one, and which number each has."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any


def check_labels(labels: Sequence[str], least: int) -> None:
    """Raises ValueError unless there are at least `least` different ones, all str."""
    if len(labels) < least:
        raise ValueError(f"labels are {labels}; a classifier tells at least {least} apart")
    repeated = sorted({label for label in labels if labels.count(label) > 1})
    if repeated:
        raise ValueError(f"labels are there twice: {', '.join(repeated)}")
    if not all(isinstance(label, str) for label in labels):
        raise ValueError(f"labels must be str, not {labels!r:.80}")


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

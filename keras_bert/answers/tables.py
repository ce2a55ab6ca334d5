"""Tables of measures: with baselines, and of each class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from keras_bert.answers import BASELINE

Cell: TypeAlias = "str | float | None"  # a cell of a table; None: an empty one


def with_baselines(measures: Mapping[str, float]) -> list[tuple[str, float, float | None]]:
    """Pairs measures with their baselines: `(name, value, baseline)`; the baseline is None if there is none."""
    names = [name for name in measures if not name.endswith(BASELINE)]
    return [(name, measures[name], measures.get(f"{name}{BASELINE}")) for name in names]


def shares(counts: np.ndarray) -> np.ndarray:
    """Divides each row of a confusion matrix, int `[classes, classes]`, by its sum: shares of a class, 0 to 1."""
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def measure_table(measures: Mapping[str, float]) -> tuple[list[str], list[list[Cell]]]:
    """Makes a table, header and rows, of measures, and of their baselines if there are any."""
    rows = [list(row) for row in with_baselines(measures)]
    columns = 2 if all(baseline is None for *_, baseline in rows) else 3
    return ["measure", "value", "baseline"][:columns], [row[:columns] for row in rows]


def class_table(details: Mapping[str, float]) -> tuple[list[str], list[list[Cell]]] | None:
    """Makes a table, header and a row per class, from measures named "measure of class"; None if there are none."""
    classes = by_class(details)
    kinds = list(dict.fromkeys(kind for values in classes.values() for kind in values))
    rows = [[name, *map(values.get, kinds)] for name, values in classes.items()]
    return (["class", *kinds], rows) if classes else None


def by_class(details: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Groups the measures of single classes, "measure of class", by class."""
    classes: dict[str, dict[str, float]] = {}
    for name, value in details.items():
        kind, separator, label = name.partition(" of ")
        if separator:
            classes.setdefault(label, {})[kind] = value
    return classes


def without_classes(details: Mapping[str, float]) -> dict[str, float]:
    """Drops the measures of single classes, "measure of class"."""
    return {name: value for name, value in details.items() if " of " not in name}

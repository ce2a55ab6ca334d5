"""What the numbers of a recipe of training can be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_COUNTS = ("epochs", "steps", "batch_size", "batch_tokens", "accumulate", "patience", "measure_every")
_POSITIVE = ("learning_rate", "clip_norm", "layer_decay")
_NOT_NEGATIVE = ("weight_decay", "seed")
_SHARES = ("warmup",)


def check_recipe(settings: Mapping[str, Any]) -> None:
    """To be called before any work is done.

    Args:
        settings: by name, a number, several of them, or None each. What is no number of a recipe is not looked at.

    Raises:
        ValueError: nothing can be trained with one of the numbers.

    Example:
        >>> check_recipe({"epochs": 3, "learning_rate": -5e-5})
        Traceback (most recent call last):
        ValueError: learning_rate is -5e-05; expected a number above 0
    """
    for name, given in settings.items():
        for value in given if isinstance(given, list) else [given]:
            if value is not None and (expected := _wrong_with(name, value)):
                raise ValueError(f"{name} is {value}; expected {expected}")


def check_updates(updates: int, batches: int, accumulate: int) -> None:
    """Raises ValueError where a run would end before its first update."""
    if batches and not updates:
        raise ValueError(f"accumulate is {accumulate}, but there are {batches} batches in all: no update would be made")


def _wrong_with(name: str, value: Any) -> str | None:
    """What a number should be, where it is not that."""
    if name in _COUNTS and not value >= 1:
        return "1 or more"
    if name in _POSITIVE and not 0 < value < math.inf:
        return "a number above 0"
    if name in _NOT_NEGATIVE and not 0 <= value < math.inf:
        return "0 or more"
    if name in _SHARES and not 0 <= value <= 1:
        return "a share, 0 to 1"
    return None

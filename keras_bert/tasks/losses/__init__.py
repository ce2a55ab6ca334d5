"""Losses, by what they compare. `loss_table.py` has a row for each."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from keras_bert.loss_table import LOSSES, default_loss, losses_of


def chosen(name: str | None, learner: str, **arguments: Any) -> Any:
    """Makes the loss of this name, for a learner of `loss_table.Loss`; None without a name: the task has a default."""
    if name is None:
        return None
    if learner not in LOSSES[name].learners:
        known = "".join(f"{each}, or " for each in losses_of(learner))
        raise ValueError(f"loss is {name!r}, which is not for {learner}; choose {known}none, for the default")
    return maker(name)(**arguments)


def default(learner: str, is_pair: bool = False, has_scores: bool = False, **arguments: Any) -> Any:
    """Makes the loss that `loss_table.default_loss` names."""
    return maker(default_loss(learner, is_pair, has_scores))(**arguments)


def maker(name: str) -> Callable[..., Any]:
    """Imports the class of a loss, or the function that makes it."""
    file, maker = LOSSES[name].maker.split(".")
    return getattr(importlib.import_module(f"{__name__}.{file}"), maker)

"""Tasks: hidden states to predictions, one module per task; and the losses that one chooses by hand."""

# ruff: noqa: F403 - type checkers read these imports

import importlib
from typing import TYPE_CHECKING

from keras_bert.loss_table import loss_classes
from keras_bert.registered import classes
from keras_bert.task_table import TASKS

if TYPE_CHECKING:
    from keras_bert import *
    from keras_bert.tasks.losses.class_losses import *
    from keras_bert.tasks.losses.ranking_losses import *
    from keras_bert.tasks.losses.sentence_losses import *

# Lazy imports: the tasks need TensorFlow, the heads do not.
_MODULES = (*(f"tasks.{task.module}" for task in TASKS), *(f"tasks.losses.{file}" for file in loss_classes()))
_CLASSES = classes()
__all__ = sorted(name for module in _MODULES for name in _CLASSES[module])  # pyright: ignore


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'keras_bert.tasks' has no attribute {name!r}")
    # Import every task, since a .keras file may hold a model of any task.
    modules = [importlib.import_module(f"keras_bert.{each}") for each in _MODULES]
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

"""Loads a preset as the task of its head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keras_bert import formats, presets
from keras_bert.tasks.classifier import BertClassifier
from keras_bert.tasks.question_answerer import BertQuestionAnswerer
from keras_bert.tasks.token_classifier import BertTokenClassifier

_TASKS = (BertClassifier, BertTokenClassifier, BertQuestionAnswerer)


def load_task(handle: str | Path, **kwargs: Any) -> Any:
    """The fine-tuned model of a preset: a `BertClassifier`, `BertTokenClassifier` or `BertQuestionAnswerer`.

    Args:
        handle: a directory, a preset's name, or `hf://org/name`; see `presets.resolve`.
        **kwargs: for the model's `from_preset`.

    Raises:
        FileNotFoundError: there is no such preset, or it lacks a file.
        ValueError: a file is damaged, or the preset has a head of no such task, or of several.
    """
    directory = presets.resolve(handle)
    fitting = _fitting(directory)
    if len(fitting) != 1:
        found = " and ".join(task.HEAD for task in fitting) or "no head for classes, tags or answers"
        raise ValueError(f"{handle} has {found}; fine-tune it first, or load it by its class")
    return fitting[0].from_preset(directory, **kwargs)


def has_task(handle: str | Path) -> bool:
    """Whether a preset has been fine-tuned for one of these tasks."""
    return bool(_fitting(presets.resolve(handle)))


def _fitting(directory: Path) -> list[Any]:
    with formats.open_checkpoint(directory) as checkpoint:
        return [task for task in _TASKS if task.HEAD in checkpoint.heads]

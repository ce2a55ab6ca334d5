"""The table of tasks: which class a preset holds, by its head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keras_bert import formats, presets
from keras_bert.tasks import preset
from keras_bert.tasks.classifier import BertClassifier
from keras_bert.tasks.question_answerer import BertQuestionAnswerer
from keras_bert.tasks.reranker import BertReranker
from keras_bert.tasks.sentence import BertSentenceEncoder
from keras_bert.tasks.sparse import BertSparseEncoder
from keras_bert.tasks.task import BertTask
from keras_bert.tasks.token_classifier import BertTokenClassifier

# Of those with the same head, the first that is in a preset.
FINE_TUNED: tuple[type[BertTask], ...] = (
    BertReranker,
    BertClassifier,
    BertTokenClassifier,
    BertQuestionAnswerer,
    BertSparseEncoder,
)


def task_of(directory: str | Path) -> type[BertTask]:
    """The task of a preset: that of the head that it was fine-tuned with, else sentence vectors.

    Raises:
        FileNotFoundError: the directory lacks a file.
        ValueError: it has heads of several tasks.

    Example:
        >>> task_of(presets.resolve("all-MiniLM-L6-v2")).__name__
        'BertSentenceEncoder'
    """
    with formats.open_checkpoint(directory) as checkpoint:
        fitting = {task.HEAD: task for task in reversed(FINE_TUNED) if task.is_in(checkpoint, Path(directory))}
    if len(fitting) > 1:
        raise ValueError(f"{directory} has {' and '.join(fitting)}; load it by its class")
    return next(iter(fitting.values()), BertSentenceEncoder)


def load_task(handle: str | Path, **arguments: Any) -> BertTask:
    """The fine-tuned model of a preset.

    Args:
        handle: a directory, a preset's name, or `hf://org/name`; see `presets.resolve`.
        **arguments: of the model's `from_preset`.

    Raises:
        FileNotFoundError: there is no such preset, or it lacks a file.
        ValueError: a file is damaged, or the preset has no head that was fine-tuned, or several.
    """
    directory = presets.resolve(handle)
    task = task_of(directory)
    if task not in FINE_TUNED:
        raise ValueError(f"{handle} has no head for classes, labels of words or answers; fine-tune it first")
    return task.from_preset(directory, **arguments)


def load_reranker(handle: str | Path, **arguments: Any) -> BertReranker:
    """The reranker of a preset: a cross-encoder with one trained score, whether or not its files name it so.

    Args:
        handle, **arguments: as for `load_task`.

    Raises:
        FileNotFoundError: there is no such preset, or it lacks a file.
        ValueError: a file is damaged, or the preset has no head with one score.
    """
    if preset.read(handle, BertReranker).head_size != 1:
        raise ValueError(f"{handle} has no head that scores pairs; take a cross-encoder, or fine-tune a BertReranker")
    return BertReranker.from_preset(handle, **arguments)

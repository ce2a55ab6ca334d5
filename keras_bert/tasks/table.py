"""The table of tasks: finds the class of a preset by its head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keras_bert.formats import Preset
from keras_bert.tasks.classifier import BertClassifier
from keras_bert.tasks.next_sentence import BertNextSentence
from keras_bert.tasks.question_answerer import BertQuestionAnswerer
from keras_bert.tasks.reranker import BertReranker
from keras_bert.tasks.sentence import BertSentenceEncoder
from keras_bert.tasks.sparse import BertSparseEncoder
from keras_bert.tasks.storable import TaskPreset
from keras_bert.tasks.task import BertTask
from keras_bert.tasks.token_classifier import BertTokenClassifier

# If several have the same head, the first that fits the preset counts.
FINE_TUNED: tuple[type[BertTask], ...] = (
    BertReranker,
    BertClassifier,
    BertTokenClassifier,
    BertQuestionAnswerer,
    BertSparseEncoder,
)


def task_of(handle: str | Path | Preset) -> type[BertTask]:
    """The task that a preset was fine-tuned for, by its head; without a head, the sentence encoder.

    Raises:
        FileNotFoundError: the directory lacks a file.
        ValueError: it has heads of several tasks.

    Example:
        >>> task_of("all-MiniLM-L6-v2").__name__
        'BertSentenceEncoder'
    """
    with Preset.open(handle) as preset:
        fitting = {task.HEAD: task for task in reversed(FINE_TUNED) if task.is_in(preset)}
    if len(fitting) > 1:
        raise ValueError(f"{preset.directory} has {' and '.join(fitting)}; load it by its class")
    return next(iter(fitting.values()), BertSentenceEncoder)


def load_task(handle: str | Path | Preset, **arguments: Any) -> BertTask:
    """The fine-tuned model of a preset; or, if it was only pre-trained, its next-sentence prediction.

    Args:
        handle: a directory, the name of a preset, or `hf://org/name`, see `presets.resolve`; or an open preset.
        **arguments: arguments of the model's `from_preset`.

    Raises:
        FileNotFoundError: there is no such preset, or it lacks a file.
        ValueError: a file is damaged, or the preset has no such head, or several.
    """
    with Preset.open(handle) as preset:
        task = task_of(preset)
        if task not in FINE_TUNED:
            if not BertNextSentence.is_in(preset):
                raise ValueError(
                    f"{preset.handle} has no head for classes, labels of words or answers; fine-tune a model first"
                )
            task = BertNextSentence
        return task.from_preset(preset, **arguments)


def load_reranker(handle: str | Path | Preset, **arguments: Any) -> BertReranker:
    """The reranker of a preset: any model with one trained score for a pair, or two labels, of which the second is that
    of an answer.

    Args:
        handle, **arguments: as for `load_task`.

    Raises:
        FileNotFoundError: there is no such preset, or it lacks a file.
        ValueError: a file is damaged, or the preset has no such head.
    """
    with Preset.open(handle) as preset:
        reads_single_texts = TaskPreset.read(preset, BertClassifier).settings.get("pairs") is False
        if reads_single_texts or TaskPreset.read(preset, BertReranker).head_size not in (1, 2):
            raise ValueError(
                f"{preset.handle} has no head that scores pairs; use a cross-encoder, or fine-tune a BertReranker"
            )
        return BertReranker.from_preset(preset, **arguments)

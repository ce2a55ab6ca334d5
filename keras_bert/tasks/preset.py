"""Reads and writes a task's preset: encoder, tokenizer, head, labels and settings for long text."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from keras_bert import files, formats, presets
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.weights import load_weights
from keras_bert.formats import hugging_face
from keras_bert.tasks.label_names import checked_labels
from keras_bert.text import BertPreprocessor

if TYPE_CHECKING:
    from keras_bert.tasks.task import BertTask

# The key of this package's own settings in config.json: {"preprocessor": {...}, "model": {...}}.
_SETTINGS = "keras_bert"
_OF_PREPROCESSOR = ("sequence_length", "truncation", "stride", "max_sequence_length")


class TaskPreset(NamedTuple):
    """The parts of a preset for a task.

    Attributes:
        directory: the preset's directory.
        encoder, preprocessor: for the model.
        config: Hugging Face's `config.json`; empty in other formats.
        has_head: whether the preset has the task's head.
        head_size: the number of labels of the head; 0 without a head or labels.
        settings: the model's, as `save_preset` wrote them; empty for another task.
    """

    directory: Path
    encoder: BertEncoder
    preprocessor: BertPreprocessor
    config: dict[str, Any]
    has_head: bool
    head_size: int
    settings: dict[str, Any]

    @property
    def saved_labels(self) -> list[str] | None:
        """Names of the head's labels, in the order of the logits; None without a head or names."""
        names = self.config.get("id2label") if self.has_head else None
        return names and [names[str(i)] for i in range(len(names))]

    def labels(self, given: Sequence[str] | None) -> list[str]:
        """The given labels, or the head's.

        Raises:
            ValueError: there are none.
        """
        if given is None and self.saved_labels is None:
            found = f"no names for its {self.head_size} labels" if self.head_size else "no head of this task"
            raise ValueError(f"{self.directory} has {found}: say which labels there are, labels=[...]")
        return self.saved_labels if given is None else checked_labels(given)

    def head_fits(self, labels: list[str]) -> bool:
        """Whether the head fits these labels: it has the same, or as many without names.

        Without names, `transformers` writes LABEL_0, LABEL_1, ...

        Warns:
            UserWarning: it has as many labels, but different ones: a trained head is left out, perhaps by mistake.
        """
        saved = self.saved_labels
        if labels == saved:
            return True
        if len(labels) != self.head_size:
            return False
        if saved in (None, _unnamed(self.head_size)):
            return True
        warnings.warn(
            f"{self.directory} has a trained head for {_listed(saved)}; for {_listed(labels)} a new one is drawn at "
            "random, to be trained. To use the trained one, leave labels out, or give its names in its order",
            stacklevel=3,
        )
        return False


def _unnamed(size: int) -> list[str]:
    return [f"LABEL_{i}" for i in range(size)]


def _listed(labels: list[str]) -> str:
    return ", ".join(labels[:4]) + (", ..." if len(labels) > 4 else "")


def read(
    handle: str | Path,
    head: str,
    sequence_length: int | None = None,
    long_text: str | None = None,
    stride: int | None = None,
    dtype: Any = None,
) -> TaskPreset:
    """Reads all of a preset but the head.

    Args:
        handle: a directory, a preset's name, or `hf://org/name`; see `presets.resolve`.
        head: the task's head, a key of the family's heads.
        sequence_length: the length of every row; by default the longest of a batch.
        long_text: how to shorten texts longer than that, or than the model's positions: "truncate" (cuts off the end),
            "head_tail" (cuts out the middle) or "windows" (cuts nothing). By default as saved with the preset, else
            "truncate".
        stride: the tokens from the start of a window to the next start; by default half of a row.
        dtype: a Keras dtype policy.

    Raises:
        FileNotFoundError: there is no such preset, or it lacks a file.
        ValueError: a file is damaged, or an argument is bad.
    """
    directory = presets.resolve(handle)
    encoder = BertEncoder.from_preset(directory, **({} if dtype is None else {"dtype": dtype}))
    with formats.open_checkpoint(directory) as checkpoint:
        has_head = head in checkpoint.heads
        shapes = checkpoint.shapes(head) if has_head else {}
        is_hugging_faces = checkpoint.format == "hugging_face"
    (head_size,) = shapes.get("logits/bias", (0,))
    config = files.read_json(directory / hugging_face.CONFIG) if is_hugging_faces else {}
    saved = (config.get(_SETTINGS) or {}) if has_head else {}
    text = {"sequence_length": None, **saved.get("preprocessor", {})}
    if sequence_length is not None:
        text["sequence_length"] = sequence_length
    text |= _long_text(long_text, stride, text["sequence_length"] or encoder.config.max_positions)
    preprocessor = BertPreprocessor.from_preset(directory, **text)
    return TaskPreset(directory, encoder, preprocessor, config, has_head, head_size, saved.get("model", {}))


def _long_text(long_text: str | None, stride: int | None, longest: int) -> dict[str, Any]:
    """The preprocessor's arguments."""
    if stride is not None and long_text != "windows":
        raise ValueError(f"stride is {stride}, but only windows have one: long_text='windows'")
    choices = {
        None: {},
        "truncate": {"truncation": "longest_first", "stride": None},
        "head_tail": {"truncation": "head_tail", "stride": None},
        "windows": {"truncation": "longest_first", "stride": stride or longest // 2},
    }
    if long_text not in choices:
        raise ValueError(f"long_text is {long_text!r}; expected truncate, head_tail or windows")
    return choices[long_text]


def load_head(model: BertTask, preset: TaskPreset) -> None:
    """Loads a preset's weights into a head.

    Raises:
        ValueError: a weight is missing or of another shape.
    """
    with formats.open_checkpoint(preset.directory) as checkpoint:
        load_weights(model.head, checkpoint, model.HEAD)


def write(model: BertTask, directory: Path, overwrite: bool) -> None:
    """Writes a preset for `read`, `load_head` and `transformers`."""
    preprocessor = {name: getattr(model.preprocessor, name) for name in _OF_PREPROCESSOR}
    own = {_SETTINGS: {"preprocessor": preprocessor, "model": model.settings()}}
    settings = {**model.hugging_face_settings(), **own}
    formats.write(directory, model.encoder.config, model.parts(), overwrite=overwrite, settings=settings)
    model.preprocessor.save_preset(directory, overwrite)

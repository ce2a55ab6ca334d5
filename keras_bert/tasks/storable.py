"""Storable: reads and writes the files of a task."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np

from keras_bert import files, formats
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.weights import load_weights, values_by_name
from keras_bert.formats import hugging_face, model_files
from keras_bert.inference import ranges as int8_ranges
from keras_bert.tasks import preset
from keras_bert.text import BertPreprocessor


class Storable:
    """Reads and writes a task: presets, checkpoints for other programs, and Keras's configuration.

    The class must be a Keras model with an `encoder`, a `preprocessor`, and a layer `head` if it has a `HEAD`. A task
    overrides its settings, how its preprocessor and heads are read, and its own files.
    """

    HEAD: ClassVar[str | None] = None  # the head of the task: a key of the family's heads
    STATED_ELSEWHERE: ClassVar[tuple[str, ...]] = ()  # settings that are in other entries of a preset's files
    PARTS: ClassVar[tuple[str, ...]] = ()  # a preset's parts with weights, apart from the encoder and the heads
    FILES: ClassVar[tuple[str, ...]] = ()  # the files of a preset that only this task has

    _untrained: str | None = None  # a warning for the first answer, see `_warn_if_untrained`

    @property
    def heads(self) -> dict[str, keras.Layer]:
        """The heads by name, as in checkpoints."""
        return {} if self.HEAD is None else {self.HEAD: self.head}

    @classmethod
    def is_in(cls, checkpoint: formats.Checkpoint, directory: Path) -> bool:
        """Whether the checkpoint in `directory` has the head of this task."""
        return cls.HEAD in checkpoint.heads

    @classmethod
    def from_preset(
        cls,
        handle: str | Path,
        *,
        sequence_length: int | None = None,
        long_text: str | None = None,
        stride: int | None = None,
        dtype: Any = None,
        precision: str = "float32",
        **settings: Any,
    ) -> Any:
        """Loads the encoder and the tokenizer of a preset, and this task's head if the preset has one.

        A new head that reads the pooler gets a new pooler, too, if the preset has none.

        Args:
            handle: a directory, the name of a preset, or `hf://org/name`; see `presets.resolve`.
            sequence_length: the length of every row in tokens, or the longest that windows and batches may have; by
                default the saved one, else the most that the model reads.
            long_text: how to fit longer texts: "truncate" cuts the end off, "head_tail" cuts the middle out, "windows"
                splits the text. By default the saved one, else "truncate".
            stride: the number of tokens from the start of one window to the start of the next; by default half of a
                row.
            dtype: a Keras dtype policy, for training.
            precision: the precision of inference, see `set_precision`: "float32", "bfloat16" or "int8".
            **settings: arguments of the class, by default the saved ones; or fields of `BertConfig`, such as
                `hidden_dropout=0.0`.

        Raises:
            FileNotFoundError: there is no such preset, or it lacks a file.
            TypeError, ValueError: a file is damaged, or an argument is bad.

        Warns:
            UserWarning: the preset has a trained head that is not used, because it has other labels, or belongs to
                another task; or a new head is drawn at random, though the preset is a model for a task; or int8 ranges
                are not used, because they belong to other weights.
        """
        fields, given = preset.split(cls, {name: value for name, value in settings.items() if value is not None})
        found = preset.read(handle, cls)
        arguments = cls._arguments(found, given)
        new_heads = set(cls._heads(arguments)) - set(found.heads)
        if any(formats.FAMILIES[found.family].reads_pooler(head) for head in new_heads):
            fields.setdefault("pooler", True)  # masked language models have none
        encoder = BertEncoder.from_preset(found.directory, **fields, **({} if dtype is None else {"dtype": dtype}))
        rows = preset.RowSettings(sequence_length, long_text, stride)
        preprocessor = cls._read_preprocessor(found, encoder, rows)
        with preset.errors_name(found.directory / hugging_face.CONFIG, () if given else found.settings):
            model = cls(encoder, preprocessor, **arguments)
        model._load_heads(found)
        model._warn_of_heads(found)
        model._load_ranges(found.directory)
        if precision != "float32":
            model.set_precision(precision)
        return model

    @classmethod
    def _arguments(cls, found: preset.TaskPreset, given: dict[str, Any]) -> dict[str, Any]:
        """The constructor's arguments except encoder and preprocessor: the given ones, else those of a preset."""
        return {**found.settings, **given}

    @classmethod
    def _heads(cls, arguments: dict[str, Any]) -> tuple[str, ...]:
        """The names of the heads of a model with these arguments."""
        return () if cls.HEAD is None else (cls.HEAD,)

    @classmethod
    def _read_preprocessor(
        cls, found: preset.TaskPreset, encoder: BertEncoder, rows: preset.RowSettings
    ) -> BertPreprocessor | None:
        return preset.preprocessor(found, encoder.config.max_positions, rows)

    def _load_heads(self, found: preset.TaskPreset) -> None:
        """Loads the parts of a preset other than the encoder."""
        with formats.open_checkpoint(found.directory) as checkpoint:
            for name, head in self.heads.items():
                if name in found.heads and self._takes_head(found):
                    load_weights(head, checkpoint, name)

    def _warn_of_heads(self, found: preset.TaskPreset) -> None:
        """Warns of what a preset has and this model does not use, and of what it lacks."""
        kind = type(self).__name__
        if unused := [part for name, part in found.trained_parts.items() if name not in (*self.heads, *self.PARTS)]:
            told = f"{found.directory} has a trained {' and a '.join(unused)}, which a {kind} does not use"
            warnings.warn(told, stacklevel=3)
        has_labels = getattr(self, "labels", None) is not None  # they ask for a head
        if self.HEAD is None or found.has_head or has_labels:
            return
        told = f"{found.directory} has no head of a {kind}: a new one is drawn at random, and must be trained"
        if found.is_to_start_from:
            self._untrained = told
        else:
            warnings.warn(told, preset.UntrainedWarning, stacklevel=3)

    def _warn_if_untrained(self) -> None:
        """Warns before the first answer with a new head that was neither asked for nor trained."""
        told, self._untrained = self._untrained, None
        if told and not np.any(self.head.logits.bias):  # training leaves no bias at exactly 0
            warnings.warn(told, preset.UntrainedWarning, stacklevel=3)

    def _takes_head(self, found: preset.TaskPreset) -> bool:
        """Whether to load the heads of a preset."""
        return True

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments except `encoder` and `preprocessor`, as JSON values."""
        return {}

    def hugging_face_settings(self) -> dict[str, Any]:
        """Entries for Hugging Face's `config.json`, such as the labels, under its names."""
        return {}

    def save_preset(self, directory: str | Path, overwrite: bool = False) -> None:
        """Writes weights, settings, the tokenizer's files, and the int8 ranges if they belong to these weights.

        `from_preset` and `transformers` read it, and sentence-transformers reads sentence encoders and rerankers.

        Args:
            directory: created if missing; files in it that belong to no model stay.
            overwrite: whether to replace a model: its files go, also those that this model does not have.

        Raises:
            FileExistsError: there are files of a model and `overwrite` is False.
        """
        directory = Path(directory)
        tokenizer = () if self.preprocessor is None else model_files.TOKENIZER
        before = model_files.present(directory, (*model_files.MODEL, *tokenizer, *model_files.SETTINGS))
        files.refuse_to_overwrite(directory, before, overwrite)
        entries = {**self.hugging_face_settings(), **preset.entries(self)}
        formats.write(
            directory, self.encoder.config, self.parts(), overwrite=overwrite, settings=entries, kept=self._own_files
        )
        if self.preprocessor is not None:
            self.preprocessor.save_preset(directory, overwrite)
        self._save_ranges(directory)
        self._save_own_files(directory, overwrite)

    def save_settings(self, directory: str | Path) -> None:
        """Writes the files of `save_preset` without the encoder's weights and the tokenizer's files."""
        values = hugging_face.model_values(self.encoder.config, self.heads)
        values |= {**self.hugging_face_settings(), **preset.entries(self)}
        files.write_texts(directory, {hugging_face.CONFIG: files.to_json(values)})
        self._save_own_files(Path(directory), overwrite=True)

    @property
    def _own_files(self) -> tuple[str, ...]:
        """The names of the files of a preset that this model has, apart from weights, configuration and tokenizer."""
        return (*self.FILES, *([] if self._fitting_ranges is None else [int8_ranges.FILE]))

    def _save_own_files(self, directory: Path, overwrite: bool) -> None:
        """Writes the files that only this task has."""

    def save_checkpoint(self, directory: str | Path, format: str, overwrite: bool = False) -> None:
        """Writes a checkpoint for another program, without labels; see `BertEncoder.save_checkpoint`."""
        formats.write(directory, self.encoder.config, self.parts(), format, overwrite)

    def parts(self) -> dict[str, dict[str, np.ndarray]]:
        """The weights of encoder and heads, by part and name, as `formats.write` takes them."""
        heads = {name: values_by_name(head) for name, head in self.heads.items()}
        return {"encoder": values_by_name(self.encoder), **heads}

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "preprocessor": keras.saving.serialize_keras_object(self.preprocessor),
            **self.settings(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        parts = {name: keras.saving.deserialize_keras_object(config[name]) for name in ("encoder", "preprocessor")}
        return cls(**{**config, **parts})

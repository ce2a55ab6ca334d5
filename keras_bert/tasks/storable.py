"""Storable: how a task is read from a directory, and written into one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np

from keras_bert import atomic, files, formats
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.weights import load_weights, values_by_name
from keras_bert.formats import hugging_face
from keras_bert.inference import ranges as int8_ranges
from keras_bert.tasks import preset
from keras_bert.text import BertPreprocessor, loading


class Storable:
    """A task in files: a preset's directory, checkpoints of other programs, and Keras's configuration.

    For a Keras model with an `encoder`, a `preprocessor`, and the layer `head` if it names a `HEAD`. A task overrides
    what differs: its settings, how its preprocessor and heads are read, and the files that only it has.
    """

    HEAD: ClassVar[str | None] = None  # the head of the task: a key of the family's heads
    STATED_ELSEWHERE: ClassVar[tuple[str, ...]] = ()  # settings that other entries of a preset's files state
    FILES: ClassVar[tuple[str, ...]] = ()  # the files of a preset beside weights, configuration and tokenizer

    @property
    def heads(self) -> dict[str, keras.Layer]:
        """The heads by name, as in checkpoints."""
        return {} if self.HEAD is None else {self.HEAD: self.head}

    @classmethod
    def is_in(cls, checkpoint: formats.Checkpoint, directory: Path) -> bool:
        """Whether a checkpoint, which is in `directory`, has the head of this task."""
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
        """A model with the encoder and the tokenizer of a preset, and its head if it has one of this task.

        Args:
            handle: a directory, a preset's name, or `hf://org/name`; see `presets.resolve`.
            sequence_length: the length of every row in tokens, or the longest that windows and batches may have; by
                default as saved with the preset, or as long as the model reads.
            long_text: how to shorten texts that are longer: "truncate" (cuts off the end), "head_tail" (cuts out the
                middle) or "windows" (cuts nothing). By default as saved with the preset, else "truncate".
            stride: the tokens from the start of a window to the next start; by default half of a row.
            dtype: a Keras dtype policy, for training.
            precision: for inference, see `set_precision`: "float32", "bfloat16" or "int8".
            **settings: arguments of the class, by default as saved with the preset; or fields of `BertConfig`, such as
                `hidden_dropout=0.0`.

        Raises:
            FileNotFoundError: there is no such preset, or it lacks a file.
            TypeError, ValueError: a file is damaged, or an argument is bad.

        Warns:
            UserWarning: the preset's head is not used: it has as many labels, but different ones; or its ranges of
                int8 are of other weights.
        """
        fields, given = preset.split(cls, {name: value for name, value in settings.items() if value is not None})
        found = preset.read(handle, cls)
        arguments = cls._arguments(found, given)
        encoder = BertEncoder.from_preset(found.directory, **fields, **({} if dtype is None else {"dtype": dtype}))
        rows = preset.RowSettings(sequence_length, long_text, stride)
        model = cls(encoder, cls._read_preprocessor(found, encoder, rows), **arguments)
        model._load_heads(found)
        model._load_ranges(found.directory)
        if precision != "float32":
            model.set_precision(precision)
        return model

    @classmethod
    def _arguments(cls, found: preset.TaskPreset, given: dict[str, Any]) -> dict[str, Any]:
        """The constructor's arguments but encoder and preprocessor, from those of a preset and the given ones."""
        return {**found.settings, **given}

    @classmethod
    def _read_preprocessor(
        cls, found: preset.TaskPreset, encoder: BertEncoder, rows: preset.RowSettings
    ) -> BertPreprocessor | None:
        return preset.preprocessor(found, encoder.config.max_positions, rows)

    def _load_heads(self, found: preset.TaskPreset) -> None:
        """Loads what a preset has beside the encoder."""
        with formats.open_checkpoint(found.directory) as checkpoint:
            for name, head in self.heads.items():
                if name in found.heads and self._takes_head(found):
                    load_weights(head, checkpoint, name)

    def _takes_head(self, found: preset.TaskPreset) -> bool:
        """Whether to load the heads of a preset."""
        return True

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments but `encoder` and `preprocessor`, as JSON values."""
        return {}

    def hugging_face_settings(self) -> dict[str, Any]:
        """Entries for Hugging Face's `config.json`, such as the labels, under its names."""
        return {}

    def save_preset(self, directory: str | Path, overwrite: bool = False) -> None:
        """Writes weights, settings, the tokenizer's files, and the ranges of int8 if they were found for these weights.

        `from_preset` and `transformers` read it, and sentence-transformers reads sentence encoders and rerankers.

        Args:
            directory: made if it does not exist; other files in it are left alone.
            overwrite: whether files of the same names may be replaced.

        Raises:
            FileExistsError: such a file exists and `overwrite` is False.
        """
        directory = Path(directory)
        of_tokenizer = loading.FILES if self.preprocessor is not None else ()
        written = (*hugging_face.FILES, *of_tokenizer, *self.FILES, int8_ranges.FILE)
        atomic.refuse_to_overwrite(directory, written, overwrite)
        entries = {**self.hugging_face_settings(), **preset.entries(self)}
        formats.write(directory, self.encoder.config, self.parts(), overwrite=overwrite, settings=entries)
        if self.preprocessor is not None:
            self.preprocessor.save_preset(directory, overwrite)
        self._save_ranges(directory)
        self._save_own_files(directory, overwrite)

    def save_settings(self, directory: str | Path) -> None:
        """Writes what `save_preset` does, but neither weights of the encoder nor the tokenizer's files."""
        values = hugging_face.model_values(self.encoder.config, self.heads)
        values |= {**self.hugging_face_settings(), **preset.entries(self)}
        atomic.write_texts(directory, {hugging_face.CONFIG: files.to_json(values)})
        self._save_own_files(Path(directory), overwrite=True)

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

"""Preset: the files of a model in a directory, in any format. Each file is opened once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from keras_bert import files
from keras_bert.config import BertConfig
from keras_bert.formats import hugging_face, keras_hub, sentence_transformers
from keras_bert.formats.checkpoint import Checkpoint
from keras_bert.formats.readers import READERS
from keras_bert.formats.tensorflow import saved_model, tf1
from keras_bert.formats.tensorflow.bundle import is_saved_model
from keras_bert.formats.tokenizers.tokenizer_files import TokenizerFiles
from keras_bert.presets import PresetFiles

CONFIGS = (hugging_face.CONFIG, *tf1.CONFIGS)  # file names of a configuration


class Preset(PresetFiles):
    """The files of a model in a directory. Each is opened and parsed once, when it is needed.

    Functions that load a part of a model (an encoder, a tokenizer, a task) take an open preset in place of a handle.
    Use a preset to load several parts and parse each file once.

    Args:
        handle: a directory, the name of a preset, or `hf://org/name`; see `presets.resolve`.

    Attributes:
        handle: the argument as a string, for messages.
        home: the directory that the handle names, or the one around `saved_model/1` of transformers.
        saved_model: that path inside of `home`, if the handle names it.
        directory: the directory of the files: `home`, or a folder in it that sentence-transformers' `modules.json`
            names for its Transformer, such as `0_Transformer`.
        activation: the encoder's activation, if the user names it; for formats that do not store it.

    Raises:
        FileNotFoundError: there is no such preset.

    Example:
        >>> with Preset.open("all-MiniLM-L6-v2") as preset:
        ...     preset.config.num_layers, preset.sentence_settings.pooling, preset.checkpoint.path.name
        (6, 'mean', 'model.safetensors')
    """

    def __init__(self, handle: str | Path) -> None:
        super().__init__(handle)
        self._find_saved_model()
        self.directory = self.home / sentence_transformers.transformer_folder(self)

    def _find_saved_model(self) -> None:
        """Finds the configuration of a SavedModel of transformers that the handle names: around it, or inside."""
        versions = self.home.absolute().parent
        if not is_saved_model(self.home) or self.has(hugging_face.CONFIG):
            return
        if versions.name == "saved_model" and (versions.parent / hugging_face.CONFIG).is_file():
            self.saved_model = f"{versions.name}/{self.home.absolute().name}"
            self.home = self.directory = versions.parent
        elif values := saved_model.stored_config(self.home):
            self._json[self.home / hugging_face.CONFIG] = values

    @classmethod
    @contextmanager
    def open(cls, handle: str | Path | Preset, activation: str | None = None) -> Iterator[Preset]:
        """Opens the preset of a handle and closes it when the block ends. A preset that is open already stays open."""
        preset = handle if isinstance(handle, Preset) else cls(handle)
        preset.activation = activation or preset.activation
        try:
            yield preset
        finally:
            if preset is not handle:
                preset.close()

    def check(self) -> None:
        """Checks, without importing TensorFlow, that there is a model and that its `config.json` can be read.

        Models in TensorFlow's formats pass unread.

        Raises:
            FileNotFoundError: there is no model.
            ValueError: the configuration is damaged, or its family is unknown.
        """
        is_tensorflow = saved_model.recognizes(self) or any(self.directory.glob("*.index"))
        if hugging_face.recognizes(self) or not is_tensorflow:
            hugging_face.check_config(self)
            self.parsed(hugging_face.CONFIG, parse_config)

    @cached_property
    def config(self) -> BertConfig:
        """The configuration, from its file alone; that of a SavedModel, from it. Raises as `formats.read_config`."""
        if not self._config_name:
            return self.checkpoint.config
        return self.parsed(self._config_name, parse_config)

    @property
    def _config_name(self) -> str:
        if self.has(hugging_face.CONFIG):
            return hugging_face.CONFIG
        if saved_model.recognizes(self) and not any((self.directory / name).is_file() for name in CONFIGS):
            return ""
        return files.find(self.directory, *CONFIGS).name

    @property
    def truncation(self) -> str:
        """How the library of this format shortens pairs; see `keras_bert.text.packing.truncate`."""
        name = self._config_name
        is_hugging_face = name == hugging_face.CONFIG and "class_name" not in self.json(name)
        return "odd_to_longer" if is_hugging_face else "longest_first"

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The open weights. Raises as `formats.open_checkpoint`."""
        for reader in READERS.values():
            if reader.recognizes(self):
                checkpoint = reader.open_checkpoint(self)
                if saved_model.recognizes(self):
                    saved_model.add_classifier(self, checkpoint)
                return checkpoint
        return hugging_face.open_checkpoint(self)  # raises, and names the missing files

    @cached_property
    def tokenizer_files(self) -> TokenizerFiles:
        """The files of the tokenizer."""
        return TokenizerFiles(self)

    @property
    def sentence_settings(self) -> sentence_transformers.SentenceSettings:
        """The settings for sentence vectors. Raises as `sentence_transformers.read`."""
        return self.once(sentence_transformers.read)

    def close(self) -> None:
        """Closes the weights, if they are open."""
        if "checkpoint" in vars(self):
            self.checkpoint.close()


def parse_config(values: dict[str, object], path: Path) -> BertConfig:
    """Makes a configuration: Google's by the name of the file, KerasHub's by "class_name", else Hugging Face's."""
    if path.name in tf1.CONFIGS:
        return tf1.config_of(values, path)
    return (keras_hub if "class_name" in values else hugging_face).config_of(values, path)

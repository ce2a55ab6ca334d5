"""Preset: the files of a model in a directory, in any format. Each file is opened once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert import files, presets
from keras_bert.config import BertConfig
from keras_bert.formats import (
    cross_encoder,
    garden,
    hugging_face,
    keras_hub,
    saved_model,
    sentence_transformers,
    sparse_encoder,
    tf1,
)
from keras_bert.formats.checkpoint import Checkpoint
from keras_bert.formats.tokenizer_files import TokenizerFiles

if TYPE_CHECKING:
    import numpy as np

    from keras_bert.formats.tensorflow_file import TensorFlowFile

# The module of each format has `recognizes(preset)` and `open_checkpoint(preset)`. Those of formats that can be written
# also have `write` and `files_of(config)`. The first that recognizes a preset reads it.
READERS = {
    "hugging_face": hugging_face,
    "saved_model": saved_model,
    "keras_hub": keras_hub,
    "tf1": tf1,
    "garden": garden,
}
CONFIGS = (hugging_face.CONFIG, *tf1.CONFIGS)  # file names of a configuration


class Preset:
    """The files of a model in a directory. Each is opened and parsed once, when it is needed.

    Functions that load a part of a model (an encoder, a tokenizer, a task) take an open preset in place of a handle.
    Use a preset to load several parts and parse each file once.

    Args:
        handle: a directory, the name of a preset, or `hf://org/name`; see `presets.resolve`.

    Attributes:
        handle: the argument as a string, for messages.
        home: the directory that the handle names.
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

    activation: str | None = None

    def __init__(self, handle: str | Path) -> None:
        self.home = presets.resolve(handle)
        self.handle = str(handle)
        self._json: dict[Path, Any] = {}
        self._configs: dict[str, BertConfig] = {}

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

    @cached_property
    def directory(self) -> Path:
        return self.home / sentence_transformers.transformer_folder(self)

    def json(self, name: str, shape: files.JsonShape = dict, directory: Path | None = None) -> Any:
        """Reads a JSON file once and checks its types. The content is shared between calls: do not change it.

        Args:
            name: the file's name.
            shape: the expected types, see `files.check_json`. Where it expects a whole number, 384.0 becomes 384.
            directory: the file's directory; default: `self.directory`.

        Raises:
            FileNotFoundError, ValueError: as `files.read_json`.
        """
        path = (directory or self.directory) / name
        if path not in self._json:
            self._json[path] = files.load_json(path)
        value = files.with_whole_numbers(self._json[path], shape)
        files.check_json(value, shape, path)
        return value

    def json_if_there(self, name: str, shape: files.JsonShape = dict, directory: Path | None = None) -> Any:
        """Reads a JSON file like `json`, or returns an empty dict if there is no such file."""
        return self.json(name, shape, directory) if ((directory or self.directory) / name).is_file() else {}

    def check(self) -> None:
        """Checks, without importing TensorFlow, that there is a model and that its `config.json` can be read.

        Models in TensorFlow's formats pass unread.

        Raises:
            FileNotFoundError: there is no model.
            ValueError: the configuration is damaged, or its family is unknown.
        """
        is_tensorflow = saved_model.recognizes(self) or any(self.directory.glob("*.index"))
        if hugging_face.recognizes(self) or not is_tensorflow:
            files.find(self.directory, hugging_face.CONFIG)
            self.config_in(hugging_face.CONFIG)

    @cached_property
    def config(self) -> BertConfig:
        """The configuration, from its file alone. Raises as `formats.read_config`."""
        return self.config_in(files.find(self.directory, *CONFIGS).name)

    def config_in(self, name: str) -> BertConfig:
        """Reads the configuration in a file, once. Raises as `formats.read_config`."""
        if name not in self._configs:
            self._configs[name] = parse_config(self.json(name), self.directory / name)
        return self._configs[name]

    @property
    def truncation(self) -> str:
        """How the library of this format shortens pairs; see `keras_bert.text.packing.truncate`."""
        path = files.find(self.directory, *CONFIGS)
        is_hugging_face = path.name == hugging_face.CONFIG and "class_name" not in self.json(path.name)
        return "odd_to_longer" if is_hugging_face else "longest_first"

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The open weights. Raises as `formats.open_checkpoint`."""
        for reader in READERS.values():
            if reader.recognizes(self):
                return reader.open_checkpoint(self)
        return hugging_face.open_checkpoint(self)  # raises, and names the missing files

    @cached_property
    def tensorflow_file(self) -> TensorFlowFile | None:
        """The open TensorFlow checkpoint in the directory; None if there is none. Raises as `tf1.open_file`."""
        return tf1.open_file(self.directory)

    @cached_property
    def tokenizer_files(self) -> TokenizerFiles:
        """The files of the tokenizer."""
        return TokenizerFiles(self)

    @cached_property
    def sentence_settings(self) -> sentence_transformers.SentenceSettings:
        """The settings for sentence vectors. Raises as `sentence_transformers.read`."""
        return sentence_transformers.read(self)

    @cached_property
    def dense_weights(self) -> dict[str, np.ndarray]:
        """The weights of a sentence encoder's dense layer. Raises as `sentence_transformers.read_dense_weights`."""
        return sentence_transformers.read_dense_weights(self)

    @cached_property
    def cross_encoder_settings(self) -> cross_encoder.CrossEncoderSettings:
        """The settings for scores of pairs. Raises as `cross_encoder.read`."""
        return cross_encoder.read(self)

    @cached_property
    def sparse_settings(self) -> sparse_encoder.SparseSettings:
        """The settings for sparse vectors. Raises as `sparse_encoder.read`."""
        return sparse_encoder.read(self)

    def close(self) -> None:
        """Closes the weights, if they are open."""
        if "checkpoint" in vars(self):
            self.checkpoint.close()


def parse_config(values: dict[str, object], path: Path) -> BertConfig:
    """Makes the configuration from the content of the file at `path`.

    Google's formats are recognized by the file's name, KerasHub's by the key "class_name"; others are Hugging Face's.
    """
    if path.name in tf1.CONFIGS:
        return tf1.config_of(values, path)
    return (keras_hub if "class_name" in values else hugging_face).config_of(values, path)

"""Reads and writes the files of a model in any format. Preset: these files while they are open, each once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np

from keras_bert import files
from keras_bert.checkpoint_table import CHECKPOINT_FORMATS, CONFIGS, WRITTEN, CheckpointFormat, config_format
from keras_bert.config import BertConfig
from keras_bert.formats import hugging_face, model_card, model_files, recognition
from keras_bert.formats.checkpoint import Checkpoint
from keras_bert.formats.libraries import modules, sentence_transformers, static
from keras_bert.formats.tensorflow import saved_model
from keras_bert.formats.tensorflow.bundle import is_saved_model
from keras_bert.formats.tokenizers.tokenizer_files import TokenizerFiles
from keras_bert.presets import PresetFiles

FORMATS = tuple(WRITTEN)  # those that `write` writes


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
            names for its Transformer or StaticEmbedding, such as `0_Transformer`.
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
        kind, folder = modules.first_module(self)
        self.directory = self.home / folder
        if values := static.config_of(self, kind == "StaticEmbedding"):
            self._json[self.directory / hugging_face.CONFIG] = values

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

        Models of a format without this file pass unread.

        Raises:
            FileNotFoundError: there is no model.
            ValueError: the configuration is damaged, or its family is unknown.
        """
        look, config = recognition.Look(self.directory), hugging_face.CONFIG
        others = [each for each in CHECKPOINT_FORMATS.values() if config not in each.configs]
        if hugging_face.recognizes(self) or not any(each.recognizes(look) for each in others):
            hugging_face.check_config(self)
            self.parsed(config, parse_config)

    @cached_property
    def config(self) -> BertConfig:
        """The configuration, from its file alone; that of a SavedModel, from it. Raises as `formats.read_config`."""
        row, name = self._configuration
        return self.parsed(name, row.reader().config_of) if name else self.checkpoint.config

    @property
    def _configuration(self) -> tuple[CheckpointFormat, str]:
        """The row of the configuration's format, and the name of its file; "" for a format that has none."""
        has_config = self.has(hugging_face.CONFIG)
        if not has_config and not any((self.directory / name).is_file() for name in CONFIGS):
            look = recognition.Look(self.directory)
            for row in CHECKPOINT_FORMATS.values():
                if not row.configs and row.recognizes(look):
                    return row, ""
        name = hugging_face.CONFIG if has_config else files.find(self.directory, *CONFIGS).name
        return CHECKPOINT_FORMATS[config_format(name, self.json(name))], name

    @property
    def truncation(self) -> str:
        """How the library of this format shortens pairs; see `keras_bert.text.packing.truncate`."""
        return self._configuration[0].truncation

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The open weights. Raises as `formats.open_checkpoint`."""
        for reader in (each.reader() for each in CHECKPOINT_FORMATS.values()):
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
    def sentence_settings(self) -> sentence_transformers.Settings:
        """The settings for sentence vectors. Raises as `sentence_transformers.read`."""
        return self.once(sentence_transformers.read)

    def close(self) -> None:
        """Closes the weights, if they are open."""
        if "checkpoint" in vars(self):
            self.checkpoint.close()


def parse_config(values: dict[str, object], path: Path) -> BertConfig:
    """Makes a configuration of any format."""
    return CHECKPOINT_FORMATS[config_format(path.name, values)].reader().config_of(values, path)


def open_checkpoint(directory: str | Path) -> Checkpoint:
    """Opens the weights in a directory, and detects their format.

    Use it to read weights by name without building a model. The checkpoint is a context manager, which closes the file.

    Args:
        directory: in one of these formats:
            - Hugging Face's: `config.json`, and the first of `model.safetensors`, `tf_model.h5`, the SavedModel in
              `saved_model/1`, and `pytorch_model.bin` (with torch), each a file or shards with an index. Those of
              TensorFlow's classes, of transformers until version 4, need neither that library nor torch;
            - Google's, TensorFlow 1: `bert_config.json` (`albert_…`, `electra_…`), and `bert_model.ckpt.index`;
            - TF Model Garden's: the same files, written by TensorFlow 2;
            - TF Hub's: `saved_model.pb` and `variables`; or transformers' SavedModel, also inside of a user's model;
            - KerasHub's: `config.json` and `model.weights.h5`.

    Raises:
        FileNotFoundError: the directory lacks a file.
        ValueError: a file is damaged, or its family is unknown.

    Example:
        >>> from keras_bert import presets
        >>> with open_checkpoint(presets.resolve("all-MiniLM-L6-v2")) as checkpoint:
        ...     checkpoint.format, checkpoint.config.family, sorted(checkpoint.heads), checkpoint.missing
        ...     checkpoint.read("encoder")["pooler/bias"].shape
        ('hugging_face', 'bert', [], [])
        (384,)
    """
    return Preset(directory).checkpoint


def write(
    directory: str | Path,
    config: BertConfig,
    weights: Mapping[str, Mapping[str, np.ndarray]],
    format: str = "hugging_face",
    overwrite: bool = False,
    settings: Mapping[str, object] | None = None,
    kept: Collection[str] = (),
) -> None:
    """Writes a configuration and weights. They replace a model of any format and its settings, but not its tokenizer.

    Args:
        directory: created if missing; files in it that belong to no model stay, see `model_files`.
        config: the encoder's config.
        weights: part ("encoder", and any heads) -> this package's name of a weight -> values. Lazy weights of another
            checkpoint (`Checkpoint.weights`) are read one by one.
        format: one of `FORMATS`.
        overwrite: whether to replace existing files.
        settings: more entries for `config.json`, such as label names; other formats drop them.
        kept: names of the model's files that the caller writes before or after; they are not removed.

    Raises:
        FileExistsError: the directory has files of a model, and `overwrite` is False.
        ValueError: the format is unknown, or cannot express the configuration or a head.
    """
    check_format(format)
    row, directory = CHECKPOINT_FORMATS[format], Path(directory)
    more, writer = {"settings": settings} if row.has_settings else {}, row.reader()
    patterns = (*model_files.MODEL, *model_files.SETTINGS)
    with model_files.replacing(directory, patterns, (*writer.files_of(config), *kept), overwrite):
        writer.write(directory, config, weights, **more)
        if row.has_settings:
            model_card.write(directory, config, weights.keys() - {"encoder"})


def check_format(format: str) -> None:
    """Raises ValueError if `write` cannot write this format."""
    if format not in FORMATS:
        raise ValueError(f"format is {format!r}; expected one of {', '.join(FORMATS)}")


def read_config(path: str | Path) -> BertConfig:
    """Reads a configuration, without weights: to learn a model's sizes, or to make a new model of the same sizes.

    Args:
        path: Google's `bert_config.json`, `albert_config.json` or `electra_config.json`; or, under any other name,
            Hugging Face's or KerasHub's `config.json`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not a JSON object or belongs to another kind of model, or a value is missing or wrong.

    Example:
        >>> from keras_bert import presets
        >>> read_config(presets.resolve("all-MiniLM-L6-v2") / "config.json").num_layers
        6
    """
    path = Path(path)
    return parse_config(files.read_json(path), path)


def write_config(path: str | Path, config: BertConfig) -> None:
    """Writes a configuration: Google's if `path` has Google's file name, otherwise Hugging Face's `config.json`.

    Raises:
        ValueError: the format cannot express the family, the activation or another field.
    """
    path = Path(path)
    values = CHECKPOINT_FORMATS[config_format(path.name, {})].reader().values_of(config)
    files.write_texts(path.parent, {path.name: files.to_json(values)})

"""Formats of checkpoints: configurations, weights by name, tokenizers.

The package handles names and arrays; it builds no Keras layers.

Each format is a module: hugging_face, keras_hub, sentence_transformers, cross_encoder, sparse_encoder, and those in
tensorflow/. `families/` has what is special about each family, `tokenizers/` their files. weight_files and
tensorflow/bundle read and write the arrays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from keras_bert import files
from keras_bert.config import BertConfig
from keras_bert.formats import hugging_face, model_card, model_files
from keras_bert.formats.checkpoint import Checkpoint
from keras_bert.formats.families import FAMILIES, check_storable
from keras_bert.formats.preset import Preset, parse_config
from keras_bert.formats.readers import READERS
from keras_bert.formats.tensorflow import tf1

__all__ = [
    "FAMILIES",
    "FORMATS",
    "Checkpoint",
    "Preset",
    "check_storable",
    "open_checkpoint",
    "read_config",
    "write",
    "write_config",
]

FORMATS = tuple(name for name, reader in READERS.items() if hasattr(reader, "write"))  # those that `write` writes


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
    more = {"settings": settings} if format == "hugging_face" else {}
    writer, directory = READERS[format], Path(directory)
    patterns = (*model_files.MODEL, *model_files.SETTINGS)
    with model_files.replacing(directory, patterns, (*writer.files_of(config), *kept), overwrite):
        writer.write(directory, config, weights, **more)
        if format == "hugging_face":
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
    values = tf1.values_of(config) if path.name in tf1.CONFIGS else hugging_face.values_of(config)
    files.write_texts(path.parent, {path.name: files.to_json(values)})

"""Other people's weight files <-> ours: arrays by name. Knows no layers, only names and shapes.

with open_checkpoint(directory) as checkpoint:
    checkpoint.format, checkpoint.config, checkpoint.heads
    weights = checkpoint.read("encoder")
write(another, checkpoint.config, {"encoder": weights}, format="hugging_face")
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.checkpoints import garden, hugging_face, keras_hub, saved_model, tf1
from keras_bert.checkpoints.checkpoint import Checkpoint, Weights
from keras_bert.config import BertConfig

__all__ = ["FORMATS", "Checkpoint", "Weights", "open_checkpoint", "write"]

# Each has `recognizes(directory)` and `open_checkpoint(directory)`; the first that recognizes a directory reads it.
_READERS = (hugging_face, saved_model, keras_hub, garden, tf1)
_WRITERS = {"hugging_face": hugging_face, "tf1": tf1, "garden": garden}
# What `write` can write.
FORMATS = tuple(_WRITERS)


def open_checkpoint(directory: str | Path) -> Checkpoint:
    """Opens the weights in a directory, whatever their format.

    Args:
        directory: in one of these layouts:
            - Hugging Face's: `config.json`, and `model.safetensors`, or shards of it, or `pytorch_model.bin`;
            - Google's of TensorFlow 1: `bert_config.json` (`albert_…`, `electra_…`), and `bert_model.ckpt.index`;
            - TF Model Garden's: the same files, written by TensorFlow 2;
            - TF Hub's: `saved_model.pb` and `variables`;
            - KerasHub's: `config.json` and `model.weights.h5`.

    Raises:
        FileNotFoundError: the directory lacks a file.
        ValueError: a file is damaged, or of a family that is not known.

    Example:
        >>> from keras_bert import presets
        >>> with open_checkpoint(presets.resolve("all-MiniLM-L6-v2")) as checkpoint:
        ...     checkpoint.format, checkpoint.config.family, sorted(checkpoint.heads), checkpoint.missing
        ...     checkpoint.read("encoder")["pooler/bias"].shape
        ('hugging_face', 'bert', [], [])
        (384,)
    """
    directory = Path(directory)
    for reader in _READERS:
        if reader.recognizes(directory):
            return reader.open_checkpoint(directory)
    return hugging_face.open_checkpoint(directory)  # it says which files are missing


def write(
    directory: str | Path,
    config: BertConfig,
    weights: Mapping[str, Mapping[str, np.ndarray]],
    format: str = "hugging_face",
    overwrite: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Writes a configuration and weights.

    Args:
        directory: made if it does not exist; other files in it are left alone.
        config: the encoder's.
        weights: by part ("encoder", and any heads) and by our names. Weights that are read one by one from another
            checkpoint (`Checkpoint.weights`) are never in memory all at once.
        format: one of `FORMATS`.
        overwrite: whether files of the same names may be replaced.
        settings: more entries for `config.json`, such as the names of labels; other formats have no place for them.

    Raises:
        FileExistsError: one of the files exists and `overwrite` is False.
        ValueError: the format is not known, or cannot express the configuration or a head.
    """
    if format not in _WRITERS:
        raise ValueError(f"format is {format!r}; it can be {', '.join(_WRITERS)}")
    more = {"settings": settings} if settings and format == "hugging_face" else {}
    _WRITERS[format].write(Path(directory), config, weights, overwrite, **more)

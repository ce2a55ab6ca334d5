"""The table of formats of checkpoints, a row each. Whatever lists formats reads it; it needs no NumPy."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from keras_bert.formats.recognition import Look

_CONFIG = "config.json"


class CheckpointFormat(NamedTuple):
    """A format of weights and configuration."""

    # In `keras_bert/formats/`: has `recognizes(preset)`, `open_checkpoint(preset)` and, if it has a configuration,
    # `config_of(values, path)`; if the format is written, `write(directory, config, weights)` and `files_of(config)`.
    module: str
    title: str  # of an open checkpoint, in messages: "it is ..."
    recognizes: Callable[[Look], bool]  # a directory, by the names of files
    files: tuple[str, ...]  # patterns of paths that a new model replaces; * does not match a slash
    kind: tuple[str, str] | None = None  # its word and title before it is opened; None: its key and `title`
    configs: tuple[str, ...] = (_CONFIG,)  # names of the file of its configuration
    is_config: Callable[[Mapping], bool] = lambda values: True  # whether a file of this name is of this format
    # Patterns that are replaced only beside this format's configuration: else users may have saved them with Keras.
    files_beside_config: tuple[str, ...] = ()
    fetched: tuple[str, ...] = ()  # patterns of weights that are fetched from the Hugging Face Hub: never a pickle
    fetched_last: tuple[str, ...] = ()  # from a repository without any other weights, which hold the same
    truncation: str = "longest_first"  # how its library shortens pairs; see `text.packing.truncate`
    has_settings: bool = False  # whether its configuration has labels and settings of a task, too
    written: str = ""  # in the help of commands; "": nothing here writes it

    def reader(self) -> ModuleType:
        return importlib.import_module(f"keras_bert.formats.{self.module}")


WEIGHTS = ("model.safetensors", "pytorch_model.bin", "tf_model.h5")  # of transformers
SHARDS = ("model-*-of-*.safetensors", "pytorch_model-*-of-*.bin", "tf_model-*-of-*.h5")
GOOGLE_CONFIGS = ("bert_config.json", "albert_config.json", "electra_config.json")
_CHECKPOINT = ("[!.]*_model.ckpt*", "model.ckpt*")
_TENSORFLOW = CheckpointFormat(
    module="tensorflow.tf1",
    title="Google's checkpoint of TensorFlow 1",
    recognizes=lambda look: look.has("*.index"),
    kind=("checkpoint", "a checkpoint of TensorFlow"),
    files=(
        *GOOGLE_CONFIGS,
        *(f"{prefix}.{ending}" for prefix in _CHECKPOINT for ending in ("index", "meta", "data-*")),
    ),
    configs=GOOGLE_CONFIGS,
    fetched=("*.ckpt*",),
    written="tf1 (Google's first code)",
)
# The first that recognizes a preset reads it. The first that is written is the default of commands.
CHECKPOINT_FORMATS = {
    "hugging_face": CheckpointFormat(
        module="hugging_face",
        title="a model of transformers",
        recognizes=lambda look: look.has(_CONFIG) and look.has_weights and "class_name" not in look.config,
        files=(
            *(_CONFIG, *WEIGHTS, *(f"{name}.index.json" for name in WEIGHTS), *SHARDS),
            *("flax_model.msgpack", "generation_config.json"),
        ),
        is_config=lambda values: "class_name" not in values,
        fetched=("*.safetensors",),
        fetched_last=("tf_model*.h5",),
        truncation="odd_to_longer",
        has_settings=True,
        written="hugging_face",
    ),
    "saved_model": CheckpointFormat(
        module="tensorflow.saved_model",
        title="a SavedModel",
        recognizes=lambda look: look.has("saved_model.pb"),
        files=(
            *("saved_model.pb", "fingerprint.pb", "keras_metadata.pb", "variables/variables.*"),
            *("assets/vocab.txt", "assets.extra/config.json"),
        ),
        configs=(),
    ),
    "keras_hub": CheckpointFormat(
        module="libraries.keras_hub",
        title="a KerasHub preset",
        recognizes=lambda look: "class_name" in look.config,
        files=(_CONFIG,),
        is_config=lambda values: "class_name" in values,
        files_beside_config=("model.weights.h5", "task.weights.h5", "task.json", "preprocessor.json", "metadata.json"),
        fetched=("*.weights.h5",),
    ),
    "tf1": _TENSORFLOW,
    "garden": _TENSORFLOW._replace(
        module="tensorflow.garden",
        title="a checkpoint of TF Model Garden",
        written="garden (TF Model Garden)",
    ),
}
CONFIGS = tuple(dict.fromkeys(name for each in CHECKPOINT_FORMATS.values() for name in each.configs))
WRITTEN = {name: each.written for name, each in CHECKPOINT_FORMATS.items() if each.written}


def config_format(name: str, values: Mapping) -> str:
    """Finds the format of a configuration by the name of its file, which may be a user's own, and by its keys."""
    name = name if name in CONFIGS else _CONFIG
    return next(key for key, each in CHECKPOINT_FORMATS.items() if name in each.configs and each.is_config(values))

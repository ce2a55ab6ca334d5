"""Hugging Face's layout: `config.json` beside `model.safetensors`."""

import dataclasses
from pathlib import Path

import numpy as np

from keras_bert import files
from keras_bert.checkpoints.safetensors_file import SafetensorsFile, open_safetensors, write_safetensors
from keras_bert.config import BertConfig
from keras_bert.families import FAMILIES, Names

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
FILES = (CONFIG, WEIGHTS)

# The oldest files call layer normalization's weight and bias by the names they had in TensorFlow.
_OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


def encoder_names(config: BertConfig) -> Names:
    """For each of the encoder's weights, by its path inside the encoder, Hugging Face's name or names.

    Theirs are `[outputs, inputs]` where our dense kernels are `[inputs, outputs]`; ours is several of theirs side by
    side, where there are several.
    """
    family = FAMILIES[config.family]
    absent = [
        part for part, has in (("type", config.type_vocab_size), ("projection", config.embedding_size)) if not has
    ]
    embeddings = {
        ours: theirs
        for ours, theirs in family.embeddings.items()
        if not any(ours.startswith(f"embeddings/{part}/") for part in absent)
    }
    blocks = {
        f"block_{i}/{ours}": [name.format(i=i) for name in theirs]
        for i in range(config.groups)
        for ours, theirs in family.block.items()
    }
    return {**embeddings, **blocks, **(family.pooler if config.pooler else {})}


def read_config(directory: Path) -> BertConfig:
    """The configuration of the preset in `directory`.

    `config.json` does not say whether there is a pooler (a masked-language model is saved without), so the weights are
    looked at too.
    """
    config = BertConfig.read(files.find(directory, CONFIG))
    return dataclasses.replace(config, pooler=holds(directory, FAMILIES[config.family].pooler))


def holds(directory: Path, names: Names) -> bool:
    """Whether the preset in `directory` has any of the weights of a table, such as that of a head."""
    with open_safetensors(files.find(directory, WEIGHTS)) as file:
        return any(_spelled(name, file) for sources in names.values() for name in sources)


def read_weights(directory: Path, names: Names, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Reads the weights of an encoder or of a head.

    Args:
        directory: holds `model.safetensors`.
        names: for each weight, by its path inside the encoder or head, the name or names in the file.
        shapes: the shape of each, by the same path.

    Returns:
        float32 arrays under those names, in those shapes.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the file is damaged, or a weight is missing or of another shape; all of them are named.
    """
    with open_safetensors(files.find(directory, WEIGHTS)) as file:
        spelled = {ours: [_spelled(name, file) or name for name in theirs] for ours, theirs in names.items()}
        problems = []
        for ours, theirs in spelled.items():
            expected = _stored_shape(ours, shapes[ours], len(theirs))
            for name in theirs:
                if name not in file.names:
                    problems.append(f"{name} is missing")
                elif file.shape(name) != expected:
                    problems.append(f"{name} has shape {file.shape(name)}, but {CONFIG} asks for {expected}")
        if problems:
            more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
            raise ValueError(f"{file.path}: {'; '.join(problems[:5])}{more}")
        return {ours: _joined(ours, [file.read(name) for name in theirs]) for ours, theirs in spelled.items()}


def write(directory: Path, config: BertConfig, weights: dict[str, np.ndarray], overwrite: bool = False) -> None:
    """Writes `config.json` and `model.safetensors`.

    Raises:
        FileExistsError: one of them exists and `overwrite` is False.
    """
    files.refuse_to_overwrite(directory, FILES, overwrite)
    tensors = {}
    for ours, theirs in encoder_names(config).items():
        for name, value in zip(theirs, _split(ours, weights[ours], len(theirs)), strict=True):
            tensors[name] = value
    write_safetensors(directory / WEIGHTS, tensors)
    config.write(directory / CONFIG)


def _spelled(name: str, file: SafetensorsFile) -> str | None:
    """`name` as this file spells it, or None where it has no such weight."""
    old = name
    for new_part, old_part in _OLD_NAMES.items():
        old = old.replace(new_part, old_part)
    # A model with a task's head on top keeps the encoder's weights under its family's prefix.
    prefixes = ("", *(family.prefix for family in FAMILIES.values()))
    for candidate in (prefix + spelling for prefix in prefixes for spelling in (name, old)):
        if candidate in file.names:
            return candidate
    return None


def _stored_shape(ours: str, shape: tuple[int, ...], parts: int) -> tuple[int, ...]:
    *first, last = shape
    split = (*first, last // parts)
    return split[::-1] if ours.endswith("kernel") else split


def _joined(ours: str, values: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([value.T if ours.endswith("kernel") else value for value in values], axis=-1)


def _split(ours: str, value: np.ndarray, parts: int) -> list[np.ndarray]:
    pieces = np.split(value, parts, axis=-1)
    return [piece.T for piece in pieces] if ours.endswith("kernel") else pieces

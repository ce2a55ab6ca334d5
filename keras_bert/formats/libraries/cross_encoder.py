"""The settings files of sentence-transformers' CrossEncoder: the activation of the score, and the maximum length.

The activation is in a different place in each version of sentence-transformers:

    to 3       `config.json`: `sbert_ce_default_activation_function`
    4 to 5.3   `config.json`: `sentence_transformers`, `activation_fn`
    later      `config_sentence_transformers.json`, beside `modules.json`: `activation_fn`

All versions read the files that this module writes. An unsupported option that would change a score raises ValueError.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from keras_bert.formats.hugging_face import CONFIG
from keras_bert.formats.libraries import modules
from keras_bert.formats.libraries.modules import LENGTH, MODULES, PROMPTS
from keras_bert.presets import PresetFiles

_KEY = "sbert_ce_default_activation_function"
_SECTION = "sentence_transformers"

# Activation of a logit -> PyTorch's class.
ACTIVATIONS = {"sigmoid": "torch.nn.modules.activation.Sigmoid", "identity": "torch.nn.modules.linear.Identity"}
_SPELLINGS = {
    name: activation for activation, full in ACTIVATIONS.items() for name in (full, f"torch.nn.{full.split('.')[-1]}")
}

_SHAPES = {
    CONFIG: {_KEY: (str, None), _SECTION: ({"activation_fn": (str, None)}, None)},
    PROMPTS: {"activation_fn": (str, None), "model_type": (str, None)},
}


class Settings(NamedTuple):
    """A preset's settings for scores of pairs."""

    is_declared: bool  # whether the files declare a CrossEncoder; if not, `activation` is CrossEncoder's default
    activation: str  # "sigmoid" or "identity": logit -> score
    max_length: int | None  # the maximum length of a sequence, in tokens; None: no limit


def read(preset: PresetFiles) -> Settings:
    """Reads the settings of a preset."""
    directory = preset.directory
    config, settings = (preset.json_if_there(*each) for each in _SHAPES.items())
    is_newest = settings.get("model_type") == "CrossEncoder"
    if is_newest:
        found = preset.once(modules.read) or []
        if found not in ([], [("Transformer", "")]):
            kinds = ", ".join(kind for kind, _ in found)
            raise ValueError(
                f"{preset.home / MODULES} asks for {kinds}; only Transformer is supported, in the same directory"
            )
        modules.check_other_kind(preset, "sequence-classification", "scores")
    declared = [
        (PROMPTS, settings.get("activation_fn") if is_newest else None),
        (CONFIG, (config.get(_SECTION) or {}).get("activation_fn")),
        (CONFIG, config.get(_KEY)),
    ]
    source, name = next((each for each in declared if each[1]), (CONFIG, ACTIVATIONS["sigmoid"]))
    if name not in _SPELLINGS:
        raise ValueError(f"{directory / source}: the activation is {name}; supported are Sigmoid and Identity")
    is_declared = is_newest or any(name for _, name in declared)
    length_file = preset.json_if_there(LENGTH, modules.LENGTH_SHAPE)
    return Settings(is_declared, _SPELLINGS[name], modules.find_max_length(preset, directory, length_file))


def entries(activation: str) -> dict[str, object]:
    """Makes the entries of `config.json` that CrossEncoder reads."""
    return {_KEY: ACTIVATIONS[activation]}


def write(directory: Path, settings: Settings, config: object, weights: object, tokenizer: object) -> list[str]:
    """Writes the maximum length; `entries` are the other settings, and the tokenizer's file is there already."""
    if tokenizer is not None and settings.max_length:
        modules.write_tokenizer_length(directory, settings.max_length)
    return []

"""The settings files of sentence-transformers: modules, pooling, a dense layer, prompts and maximum length.

An unsupported option that would change a vector raises ValueError.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_bert import files
from keras_bert.choices import POOLINGS
from keras_bert.config import BertConfig
from keras_bert.formats.libraries import keras_hub, modules, static
from keras_bert.formats.libraries.modules import CONFIG, FIRST, LENGTH, MODULES, PROMPTS, read_options
from keras_bert.formats.row_translator import warn_of_unknown
from keras_bert.formats.tokenizers.tokenizer_json import ALL_IN_ONE
from keras_bert.presets import PresetFiles
from keras_bert.task_table import OF_LIBRARY

_KINDS = ("Transformer", "Pooling", "Dense", "Normalize")
_CHAINS = [[*first, *dense, *last] for first in FIRST for dense in ([], ["Dense"]) for last in ([], ["Normalize"])]
_SWITCHES = {name: pooling.switch for name, pooling in POOLINGS.items()}
# Other kinds of models of the library -> the class here that reads them.
_LOADERS = {library: task.model for library, task in OF_LIBRARY.items() if library != "SentenceTransformer"}
_LOADERS["ColBERT"] = _LOADERS["MultiVectorEncoder"]  # PyLate's name
SIMILARITIES = ("cosine", "dot")  # sentence-transformers also has distances, euclidean and manhattan
_FIXED_NORMALIZE = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}
_FIXED_DENSE = {**_FIXED_NORMALIZE, "use_residual": False}
_KNOWN_POOLING = {
    *("pooling_mode", "include_prompt", "embedding_dimension", "word_embedding_dimension"),
    *_SWITCHES.values(),
}


class Settings(NamedTuple):
    """A preset's settings for sentence vectors."""

    pooling: str  # one of `POOLINGS`
    max_length: int | None  # the maximum length of a sequence, in tokens; None: no limit
    normalize: bool = True  # whether vectors are scaled to length 1
    dense: dict[str, Any] | None = None  # a layer after the pooling: its `units`, `activation` and `use_bias`
    prompts: Mapping[str, str] = {}  # name -> text that precedes each input
    default_prompt: str | None = None  # the name of the prompt that texts get by default
    include_prompt: bool = True  # whether the pooling includes the prompt's tokens
    similarity: str = "cosine"  # the similarity of two vectors: one of `SIMILARITIES`
    truncate_dim: int | None = None  # the number of values of a vector to keep; None: all
    matryoshka_dimensions: list[int] | None = None  # the sizes that its vectors were trained for


def read(preset: PresetFiles) -> Settings:
    """Reads the settings of a preset, also KerasHub's. Without any (a plain BERT): the mean, of length 1."""
    directory = preset.home
    model = preset.json_if_there(PROMPTS, {"model_type": (str, None)}, directory)
    if (model_type := model.get("model_type") or "SentenceTransformer") != "SentenceTransformer":
        loader, known = _LOADERS.get(model_type), ", ".join(_LOADERS)
        advice = f"load it with {loader}.from_preset" if loader else f"also supported are {known}"
        raise ValueError(f"{directory / PROMPTS}: model_type is {model_type!r}, not SentenceTransformer; {advice}")
    model = read_options(preset, directory / PROMPTS, modules.MODEL_SHAPE, modules.KNOWN_OF_MODEL)
    length = modules.read_transformer(preset)
    folders = _read_folders(preset)
    if not folders:
        found = keras_hub.embedder_settings(preset) | static.settings(preset)
        return Settings(**{"pooling": "mean", "max_length": length} | found)
    if normalize := "Normalize" in folders:
        read_options(preset, folders["Normalize"] / CONFIG, dict, _FIXED_NORMALIZE, _FIXED_NORMALIZE)
    sizes = preset.json_if_there(CONFIG, {"matryoshka_dimensions": ([int], None)}).get("matryoshka_dimensions")
    return Settings(
        **(_read_pooling(preset, folders["Pooling"] / CONFIG) if "Pooling" in folders else {"pooling": "mean"}),
        max_length=length,
        normalize=normalize,
        dense=modules.read_dense(preset, folders["Dense"], _FIXED_DENSE) if "Dense" in folders else None,
        **_read_model(model, directory / PROMPTS, normalize),
        matryoshka_dimensions=sizes,
    )


def read_weights(preset: PresetFiles) -> dict[str, np.ndarray]:
    """Reads `kernel`, float32 `[inputs, units]`, and maybe `bias` of the Dense module; empty without one."""
    folders = _read_folders(preset)
    return modules.weights_of_dense(preset, folders["Dense"]) if "Dense" in folders else {}


def write(
    directory: Path,
    settings: Settings,
    config: BertConfig,
    weights: Mapping[str, np.ndarray] = {},  # of the Dense module
    tokenizer: object = None,
) -> list[str]:
    """Writes the files by which `SentenceTransformer(directory)` computes the same vectors. Returns their names."""
    is_static = not config.num_layers
    if is_static and (settings.pooling != "mean" or not settings.include_prompt):
        raise ValueError(
            f"static vectors with pooling={settings.pooling!r} and include_prompt={settings.include_prompt} cannot be "
            "stored; StaticEmbedding takes the mean of all tokens"
        )
    dense = [settings.dense] if settings.dense else []
    kinds = [*FIRST[is_static], *["Dense"] * len(dense), *["Normalize"] * settings.normalize]
    switches = {switch: pooling == settings.pooling for pooling, switch in _SWITCHES.items()}
    values: dict[str, object] = {
        PROMPTS: {
            "prompts": settings.prompts,
            "default_prompt_name": settings.default_prompt,
            # sentence-transformers does not scale shorter vectors; the dot product of our scaled ones is their cosine.
            "similarity_fn_name": "cosine" if settings.normalize and settings.truncate_dim else settings.similarity,
            **({"truncate_dim": settings.truncate_dim} if settings.truncate_dim else {}),
        }
    }
    if is_static:
        limit = {"direction": "Right", "max_length": settings.max_length, "strategy": "LongestFirst", "stride": 0}
        content = files.read_json(directory / ALL_IN_ONE)
        values[ALL_IN_ONE] = {**content, "truncation": limit}  # what else says how long a text may be
    else:
        size = {"word_embedding_dimension": config.hidden_size}
        values["Pooling"] = {**size, **switches, "include_prompt": settings.include_prompt}
        values[LENGTH] = {"max_seq_length": settings.max_length, "do_lower_case": False}
    types = [f"sentence_transformers.models.{kind}" for kind in kinds]
    return modules.write(directory, types, values, [(each, weights, {}) for each in dense])


def check_prompt(name: str | None, prompts: Mapping[str, str]) -> None:
    """Raises ValueError if there is no prompt with this name. None (the default prompt) and "" (no prompt) pass."""
    if name and name not in prompts:
        raise ValueError(f"there is no prompt {name!r}; this model has {', '.join(prompts) or 'no prompts'}")


def _read_model(values: Mapping[str, Any], path: Path, normalize: bool) -> dict[str, Any]:
    prompts = {name: prompt or "" for name, prompt in (values.get("prompts") or {}).items()}
    default = values.get("default_prompt_name")
    if default is not None and default not in prompts:
        raise ValueError(
            f"{path}: default_prompt_name is {default!r}, but its prompts are {', '.join(prompts) or 'none'}"
        )
    similarity = values.get("similarity_fn_name") or SIMILARITIES[0]
    if similarity not in SIMILARITIES:
        raise ValueError(
            f"{path}: similarity_fn_name is {similarity!r}; supported are {' and '.join(SIMILARITIES)}; set it to "
            "the one to compare this model's vectors by"
        )
    truncate_dim = values.get("truncate_dim")
    if similarity == "dot" and normalize and truncate_dim:
        raise ValueError(
            f"{path}: truncate_dim is {truncate_dim} and similarity_fn_name is 'dot', of vectors that are "
            "scaled before they are truncated; here they are scaled afterwards: set similarity_fn_name to cosine"
        )
    return {"prompts": prompts, "default_prompt": default, "similarity": similarity, "truncate_dim": truncate_dim}


def _read_folders(preset: PresetFiles) -> dict[str, Path]:
    """Maps the kind of each module to the folder of its files. Empty without `modules.json`."""
    found, path = preset.once(modules.read), preset.home / MODULES
    if found is None:
        return {}
    if (kinds := [kind for kind, _ in found]) not in _CHAINS:
        raise ValueError(
            f"{path} asks for {', '.join(kinds) or 'nothing'}; supported are {', '.join(_KINDS)}, each once, in this "
            "order; the last two may be missing, and StaticEmbedding may replace the first two"
        )
    for kind, folder in found:
        config = preset.home / folder / CONFIG
        if (kind in ("Pooling", "Dense") or (kind == "Transformer" and folder)) and not config.is_file():
            raise FileNotFoundError(f"{path} asks for {kind}, which needs {config}, but there is no such file")
    return {kind: preset.home / folder for kind, folder in found}


def _read_pooling(preset: PresetFiles, path: Path) -> dict[str, object]:
    values = preset.json(path.name, {"pooling_mode": (str, [str], None), "include_prompt": (bool, None)}, path.parent)
    warn_of_unknown(values, {*_KNOWN_POOLING, *(key for key in values if key.startswith("pooling_mode_"))}, path)
    modes = values.get("pooling_mode")
    if modes is None:
        modes = [key for key, on in values.items() if key.startswith("pooling_mode_") and on] or ["mean"]
    for pooling, switch in _SWITCHES.items():
        if modes in (pooling, [pooling], [switch]):
            return {"pooling": pooling, "include_prompt": values.get("include_prompt") is not False}
    raise ValueError(f"{path} asks for the pooling {modes}; expected one of {', '.join(_SWITCHES)}")

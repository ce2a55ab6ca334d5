"""Hugging Face's format: `config.json` beside the weights of a class of PyTorch or TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert import files
from keras_bert.config import BertConfig
from keras_bert.counted import listed
from keras_bert.formats import recognition
from keras_bert.formats.checkpoint import Checkpoint, Tensors, WeightFile, open_shards
from keras_bert.formats.libraries import static
from keras_bert.formats.row_translator import TABLES, FamilyTable, table_of
from keras_bert.formats.tensorflow import old_transformers
from keras_bert.formats.tensorflow.bundle import by_version, is_saved_model, open_variables
from keras_bert.formats.weight_files import H5File, SafetensorsFile, TorchFile, write_safetensors
from keras_bert.head_table import HEADS
from keras_bert.presets import PresetFiles

CONFIG = "config.json"
# The key of this package's settings in config.json: {"task": "BertClassifier", "preprocessor": {}, "model": {}}.
SETTINGS = "keras_bert"
WEIGHTS = "model.safetensors"
FILES = (CONFIG, WEIGHTS)
COLBERT = "HF_ColBERT"  # the architecture of models of Stanford's ColBERT
_INDEX = ".index.json"
# In order of preference. What can only be read with torch comes last.
_OPENERS = {
    WEIGHTS: SafetensorsFile,
    "tf_model.h5": H5File,
    "saved_model/*": open_variables,
    "pytorch_model.bin": TorchFile,
}

# The oldest files have TensorFlow's names of layer normalization's weights.
_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
# Buffers that older versions stored: position ids (0, 1, 2, ...), token types, and frequencies of rotary embeddings.
_BUFFERS = r".*embeddings\.(position_ids|token_type_ids)|.*rotary_emb\.inv_freq"
# Heads of a model -> the suffix of its class name in `transformers`. Earlier rows win.
_CLASSES: tuple[tuple[set[str], str], ...] = (
    ({"masked_lm", "next_sentence"}, "ForPreTraining"),
    *(({name}, head.transformers) for name, head in HEADS.items()),
    (set(), "Model"),
)
# A class that transformers lacks -> a class that has the same head and another one.
_SUBSTITUTES = {"AlbertForNextSentencePrediction": "AlbertForPreTraining"}
_LABELLED = tuple(name for name, head in HEADS.items() if head.has_labels)
# Entries of `config.json` about the labels and the task, not about the network.
_TASK_KEYS = ("id2label", "label2id", "problem_type", "matryoshka_dimensions", "normalize", SETTINGS)


def recognizes(preset: PresetFiles) -> bool:
    return preset.has(CONFIG) and _weights_of(preset) is not None


def open_checkpoint(preset: PresetFiles) -> Checkpoint:
    """Opens a directory with `config.json` and weights; see `formats.open_checkpoint`."""
    check_config(preset)
    values = preset.json(CONFIG, {"architectures": ([str], None)})
    config = preset.parsed(CONFIG, config_of)
    weights = _weights_of(preset)
    if weights is None:
        raise recognition.missing_error(preset.directory, *_OPENERS, advice="copy the model's weights there")
    table, file = table_of(config), static.whole(weights())
    classes: Iterable[str] = values.get("architectures") or ()
    if old_transformers.is_tensorflow(file.names):
        table = old_transformers.table_of(table)
        file, spellings = old_transformers.spelled(file, config, table)
        classes, extras = old_transformers.scopes(file.names) or classes, old_transformers.UNUSED
    else:
        spellings = {_table_name(name, table): name for name in file.names}
        extras = _BUFFERS + r"|linear\.weight" * (COLBERT in classes)  # `libraries/multi_vector.py` reads it
    return Checkpoint(
        "hugging_face",
        config,
        file,
        table,
        spellings=spellings,
        preferred=_heads_of(classes, table),
        extras=extras,
        copies=_copies(table),
    )


def check_config(preset: PresetFiles) -> None:
    """Raises FileNotFoundError if a preset has no `config.json`."""
    if not preset.has(CONFIG):
        raise recognition.missing_error(preset.directory, CONFIG, advice="copy it from where the weights are from")


def _weights_of(preset: PresetFiles) -> Callable[[], WeightFile] | None:
    """Finds the weights of a preset and returns what opens them: a file, shards with an index, or a SavedModel."""
    openers = {preset.saved_model: open_variables} if preset.saved_model else _OPENERS
    for pattern, open_file in openers.items():
        found = [path for path in preset.directory.glob(pattern) if path.is_file() or is_saved_model(path)]
        if found:
            return partial(open_file, max(found, key=by_version))
        if (index := preset.directory / f"{pattern}{_INDEX}").is_file():
            return partial(open_shards, index, open_file)
    return partial(open_variables, preset.directory) if preset.once(_is_saved_model) else None


def _is_saved_model(preset: PresetFiles) -> bool:
    """Checks whether a preset's directory is a SavedModel of a class of transformers."""
    directory = preset.directory
    return is_saved_model(directory) and old_transformers.has_lists(open_variables(directory).names)


def files_of(config: BertConfig) -> tuple[str, ...]:
    """Lists the names of the files that `write` writes."""
    return FILES


def write(
    directory: Path,
    config: BertConfig,
    weights: Mapping[str, Mapping[str, np.ndarray]],
    settings: Mapping[str, object] | None = None,
) -> None:
    """Writes `config.json` and `model.safetensors`. With heads, the encoder's weights have the family's prefix."""
    heads = set(weights) - {"encoder"}
    table = table_of(config)
    tensors = Tensors(config, table, weights, prefix=table.prefix if heads else "")
    labels = next((len(weights[head]["logits/bias"]) for head in _LABELLED if head in weights), 0)
    named = label_entries(default_labels(labels)) if labels else {}  # `transformers` takes their number from the names
    values: dict[str, Any] = {**model_values(config, heads), **named, **(settings or {})}
    write_safetensors(directory / WEIGHTS, tensors.shapes, tensors)
    files.write_texts(directory, {CONFIG: files.to_json(values)})


def config_of(values: dict[str, Any], source: Path) -> BertConfig:
    """Makes the configuration from the content of a `config.json`. The family is its `model_type`, or "bert"."""
    files.check_json(values, {"model_type": (str, None)}, source)
    family = values.get("model_type") or "bert"
    if family not in TABLES:
        hint = ""
        if values.get("auto_map"):
            hint = ", a model with its own Python code (auto_map), which is not run; set the model_type if it is a"
            hint += " known one under another name"
        raise ValueError(f"{source}: model_type is {family!r}{hint}; supported are {', '.join(TABLES)}")
    return TABLES[family].config_of(family, values, source)


def values_of(config: BertConfig) -> dict[str, object]:
    """Makes the content of an encoder's `config.json`."""
    table = table_of(config)
    return {"architectures": [f"{table.classes}Model"], "model_type": config.family, **table.entries(config)}


def model_values(config: BertConfig, heads: Collection[str]) -> dict[str, Any]:
    """Makes the content of `config.json` for an encoder with heads, without labels."""
    table = table_of(config)
    unusual = {"sequence"} if table.pools_unusually(config) else set()
    return {**values_of(config), "architectures": _architectures(table, set(heads) - unusual)}


def task_settings(preset: PresetFiles) -> dict[str, object]:
    """Reads the entries of `config.json` about labels and task, for a copy of the model. Empty in other formats."""
    values = preset.json(CONFIG) if recognizes(preset) else {}
    return {key: values[key] for key in _TASK_KEYS if key in values}


def label_entries(labels: Sequence[str]) -> dict[str, object]:
    """Makes the entries of `config.json` for a classifier's labels, in the order of its logits."""
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def labels_of(values: Mapping[str, Any], source: Path) -> list[str] | None:
    """Reads the labels of the `config.json` at `source`, in the order of the logits; None if it has none."""
    files.check_json(values, {"id2label": ({str: (str, int)}, None)}, source)
    names = values.get("id2label")
    if not names:
        return None
    if names.keys() != {str(i) for i in range(len(names))}:
        numbers = listed(names)
        raise ValueError(f"{source}: id2label has the keys {numbers}; expected the numbers 0 to {len(names) - 1}")
    return [str(names[str(i)]) for i in range(len(names))]


def default_labels(size: int) -> list[str]:
    """Makes the names that `transformers` gives labels without names."""
    return [f"LABEL_{i}" for i in range(size)]


def _copies(table: FamilyTable) -> dict[str, str]:
    """Maps the decoder of the masked language modeling head to the weights it must equal. Not all files have it."""
    if "bias" not in table.heads.get("masked_lm", {}):
        return {}  # no such head, or its decoder has its own weights
    bias = table.heads["masked_lm"]["bias"]
    assert isinstance(bias, str)  # a single weight
    layer = bias.removesuffix(".bias")
    word = f"{table.embeddings['embeddings/word']}.weight"
    return {f"{layer}.decoder.weight": word, f"{layer}.weight": word, f"{layer}.decoder.bias": bias}


def _table_name(name: str, table: FamilyTable) -> str:
    """Converts a name in a file to the table's: without the prefix of a model with heads, and in current spelling."""
    name = table.dialect.name(name.removeprefix(table.prefix))
    for old, new in _OLD_NAMES.items():
        name = name.replace(old, new)
    return name


def _architectures(table: FamilyTable, heads: set[str]) -> list[str]:
    remaining = set(heads)
    endings: list[str] = []
    for task, ending in _CLASSES:
        if task <= remaining and (task or not endings):
            endings.append(ending)
            remaining -= task
    classes = [table.classes + ending for ending in endings]
    return [_SUBSTITUTES.get(name, name) for name in classes]


def _heads_of(classes: Iterable[str], table: FamilyTable) -> frozenset[str]:
    """Finds the heads of classes of `transformers`, by their names or the scopes of their variables."""
    names = {_class_name(each) for each in classes}
    return frozenset(head for task, ending in _CLASSES for head in task if _class_name(table.classes + ending) in names)


def _class_name(text: str) -> str:
    """Normalizes a class's name: "bertformaskedlm" for BertForMaskedLM and TensorFlow's tf_bert_for_masked_lm_1."""
    return re.sub(r"_\d+$", "", text).replace("_", "").lower().removeprefix("tf")

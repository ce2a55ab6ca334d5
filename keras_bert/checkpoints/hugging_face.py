"""Hugging Face's layout: `config.json` beside `model.safetensors` (or its shards), or beside `pytorch_model.bin`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert import files
from keras_bert.checkpoints.checkpoint import Checkpoint, Table, WeightFile
from keras_bert.checkpoints.layout import Layout
from keras_bert.checkpoints.model_card import model_card
from keras_bert.checkpoints.safetensors_file import open_safetensors, write_safetensors
from keras_bert.checkpoints.shards import ShardedFile
from keras_bert.checkpoints.tables import Tensors, names_of_parts
from keras_bert.checkpoints.torch_file import TorchFile
from keras_bert.config import BertConfig
from keras_bert.families import FAMILIES, Family

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
FILES = (CONFIG, WEIGHTS)
CARD = "README.md"
_INDEX = ".index.json"
# In this order: what is safe to read comes first.
_WEIGHT_FILES = {WEIGHTS: open_safetensors, "pytorch_model.bin": TorchFile}

# The oldest files call layer normalization's weight and bias by the names they had in TensorFlow.
_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
# Buffers that older versions stored: 0, 1, 2, ...
_EXTRAS = r".*embeddings\.(position_ids|token_type_ids)"
# What is on top -> the end of the class's name in `transformers`, after the family's: the first that fits a model.
_CLASSES = (
    ({"masked_lm", "next_sentence"}, "ForPreTraining"),
    ({"masked_lm"}, "ForMaskedLM"),
    ({"replaced_tokens"}, "ForPreTraining"),
    ({"sequence"}, "ForSequenceClassification"),
    ({"tokens"}, "ForTokenClassification"),
    ({"spans"}, "ForQuestionAnswering"),
    ({"next_sentence"}, "ForNextSentencePrediction"),
    (set(), "Model"),
)
# A class that there is not, and the one that has its head beside another.
_INSTEAD = {"AlbertForNextSentencePrediction": "AlbertForPreTraining"}
_LABELLED = ("sequence", "tokens")


def _is_kernel(ours: str, theirs: str) -> bool:
    return ours.endswith("kernel")


_LAYOUT = Layout(is_transposed=_is_kernel)


def recognizes(directory: Path) -> bool:
    return (directory / CONFIG).is_file() and any((directory / f"{WEIGHTS}{end}").is_file() for end in ("", _INDEX))


def open_checkpoint(directory: Path) -> Checkpoint:
    """Opens a directory that has `config.json` and the weights beside it; see `checkpoints.open_checkpoint`."""
    values = files.read_json(files.find(directory, CONFIG))
    config = BertConfig.read(directory / CONFIG)
    file = open_weights(directory)
    table = _table(config)
    spellings = {_plain(name, FAMILIES[config.family].prefix): name for name in file.names}
    return Checkpoint("hugging_face", config, file, table, spellings, preferred=_heads_of(values, config))


def open_weights(directory: Path) -> WeightFile:
    """Opens the file of weights in a directory, or all of them."""
    for name, open_file in _WEIGHT_FILES.items():
        if (directory / name).is_file():
            return open_file(directory / name)
        if (directory / f"{name}{_INDEX}").is_file():
            return ShardedFile(directory / f"{name}{_INDEX}", open_file)
    raise files.missing(directory, *_WEIGHT_FILES)


def write(
    directory: Path,
    config: BertConfig,
    weights: Mapping[str, Mapping[str, np.ndarray]],
    overwrite: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Writes `config.json` and `model.safetensors`; see `checkpoints.write`.

    With a head on top, the encoder's weights have the family's prefix, as `transformers` writes them.
    """
    files.refuse_to_overwrite(directory, FILES, overwrite)
    heads = set(weights) - {"encoder"}
    family = FAMILIES[config.family]

    def full_name(part: str, name: str) -> str:
        return family.prefix + name if heads and part == "encoder" else name

    tensors = Tensors(config, family, _LAYOUT, weights, full_name)
    write_safetensors(directory / WEIGHTS, tensors.shapes, tensors)
    architectures = _architectures(config, heads)
    values = {**config.to_hugging_face(), "architectures": architectures, **_labels(weights), **(settings or {})}
    texts = {CONFIG: files.to_json(values)}
    if not (directory / CARD).exists():  # what people wrote is not replaced, overwrite or not
        texts[CARD] = model_card(config, heads, architectures[0])
    files.write_texts(directory, texts)


def label_names(labels: Sequence[str]) -> dict[str, Any]:
    """How `config.json` names the labels of a classifier, in the order of its logits."""
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def _labels(weights: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, Any]:
    """Names for the labels of a classifier, if there is one: `transformers` takes their number from these."""
    for head in _LABELLED:
        if head in weights:
            names = [f"LABEL_{i}" for i in range(len(weights[head]["logits/bias"]))]
            return label_names(names)
    return {}


def _table(config: BertConfig) -> Table:
    family = FAMILIES[config.family]
    return Table(
        names_of_parts(config, family),
        _LAYOUT,
        _EXTRAS,
        _copies(family),
    )


def _copies(family: Family) -> dict[str, str]:
    """The decoder in front of the masked-language head's logits: the same as the embeddings, so not always stored."""
    bias = family.heads["masked_lm"]["bias"][0]
    layer = bias.removesuffix(".bias")
    table = family.embeddings["embeddings/word/embeddings"][0]
    return {f"{layer}.decoder.weight": table, f"{layer}.weight": table, f"{layer}.decoder.bias": bias}


def _plain(name: str, prefix: str) -> str:
    """A name in a file without the prefix that a model with a head on top has, and in today's spelling."""
    name = name.removeprefix(prefix)
    for old, new in _OLD_NAMES.items():
        name = name.replace(old, new)
    return name


def _architectures(config: BertConfig, heads: set[str]) -> list[str]:
    left, endings = set(heads), []
    for task, ending in _CLASSES:
        if task <= left and (task or not endings):
            endings.append(ending)
            left -= task
    classes = [FAMILIES[config.family].classes + ending for ending in endings]
    return [_INSTEAD.get(name, name) for name in classes]


def _heads_of(values: dict[str, Any], config: BertConfig) -> frozenset[str]:
    """The heads that `architectures` speaks of."""
    classes = values.get("architectures") or []
    return frozenset(
        head for task, ending in _CLASSES for head in task if FAMILIES[config.family].classes + ending in classes
    )

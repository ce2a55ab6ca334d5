"""Hugging Face's layout: `config.json` beside `model.safetensors` (or its shards), or beside `pytorch_model.bin`.

`FAMILIES` has a table for each family: keys of `config.json`, and names of weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert import files
from keras_bert.config import BertConfig
from keras_bert.formats.checkpoint import Checkpoint, WeightFile
from keras_bert.formats.model_card import model_card
from keras_bert.formats.safetensors_file import open_safetensors, write_safetensors
from keras_bert.formats.sharded_file import ShardedFile
from keras_bert.formats.storage import Storage
from keras_bert.formats.table import Table, read_config_file
from keras_bert.formats.tensors import Tensors
from keras_bert.formats.torch_file import TorchFile

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
FILES = (CONFIG, WEIGHTS)
CARD = "README.md"
_INDEX = ".index.json"
# In order of preference: the safe format first.
_WEIGHT_FILES = {WEIGHTS: open_safetensors, "pytorch_model.bin": TorchFile}

# Our name of an activation -> its names in config.json, the preferred one first. "gelu" is x * Phi(x), with the error
# function; "gelu_tanh" is the approximation that Google's BERT uses (1.6e-3 apart after twelve layers).
_ACTIVATIONS = {
    "gelu": ("gelu", "gelu_python"),
    "gelu_tanh": ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"),
    "relu": ("relu",),
    "silu": ("silu", "swish"),
}
_REQUIRED = ("vocab_size", "hidden_size", "num_layers", "num_heads", "intermediate_size")
# The oldest files have TensorFlow's names for the weight and bias of layer normalization.
_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
# Buffers that older versions stored: 0, 1, 2, ...
_EXTRAS = r".*embeddings\.(position_ids|token_type_ids)"
# Heads of a model -> the ending of its class name in `transformers`. The first match counts.
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
# A class that does not exist -> a class that has its head beside another.
_INSTEAD = {"AlbertForNextSentencePrediction": "AlbertForPreTraining"}
_LABELLED = ("sequence", "tokens")

_LAYER = "encoder.layer.{i}"
_TAGS_AND_SPANS = {"tokens": {"logits": "classifier"}, "spans": {"logits": "qa_outputs"}}
_TWO_LAYERS = {"transform": "classifier.dense", "logits": "classifier.out_proj"}

_BERT = Table(
    classes="Bert",
    prefix="bert.",
    config={
        "vocab_size": "vocab_size",
        "hidden_size": "hidden_size",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
        "intermediate_size": "intermediate_size",
        "activation": "hidden_act",
        "hidden_dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        "max_positions": "max_position_embeddings",
        "type_vocab_size": "type_vocab_size",
        "initializer_range": "initializer_range",
        "layer_norm_epsilon": "layer_norm_eps",
        "pad_token_id": "pad_token_id",
    },
    endings={"kernel": ".weight", "bias": ".bias", "gamma": ".weight", "beta": ".bias", "embeddings": ".weight"},
    storage=Storage(transposed=("kernel",)),
    embeddings={
        "embeddings/word": "embeddings.word_embeddings",
        "embeddings/position": "embeddings.position_embeddings",
        "embeddings/type": "embeddings.token_type_embeddings",
        "embeddings/norm": "embeddings.LayerNorm",
    },
    block={
        "attention/qkv": [f"{_LAYER}.attention.self.{name}" for name in ("query", "key", "value")],
        "attention/output": f"{_LAYER}.attention.output.dense",
        "attention_norm": f"{_LAYER}.attention.output.LayerNorm",
        "intermediate": f"{_LAYER}.intermediate.dense",
        "output": f"{_LAYER}.output.dense",
        "output_norm": f"{_LAYER}.output.LayerNorm",
    },
    pooler={"pooler": "pooler.dense"},
    heads={
        "masked_lm": {
            "transform": "cls.predictions.transform.dense",
            "norm": "cls.predictions.transform.LayerNorm",
            "bias": "cls.predictions.bias",
        },
        "next_sentence": {"logits": "cls.seq_relationship"},
        "sequence": {"logits": "classifier"},
        **_TAGS_AND_SPANS,
    },
)
# Positions count from the padding token's id + 1, and skip padding.
_ROBERTA = replace(
    _BERT,
    classes="Roberta",
    prefix="roberta.",
    values={"positions_after_padding": True, "pad_token_id": 1},
    heads={
        "masked_lm": {"transform": "lm_head.dense", "norm": "lm_head.layer_norm", "bias": "lm_head.bias"},
        "sequence": _TWO_LAYERS,
        **_TAGS_AND_SPANS,
    },
    masked_lm_activation="gelu",
    sequence_activation="tanh",
)
_DISTILBERT_LAYER = "transformer.layer.{i}"
# No segments, no pooler.
_DISTILBERT = replace(
    _BERT,
    classes="DistilBert",
    prefix="distilbert.",
    config={
        "vocab_size": "vocab_size",
        "hidden_size": "dim",
        "num_layers": "n_layers",
        "num_heads": "n_heads",
        "intermediate_size": "hidden_dim",
        "activation": "activation",
        "hidden_dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "max_positions": "max_position_embeddings",
        "initializer_range": "initializer_range",
        "pad_token_id": "pad_token_id",
    },
    values={"type_vocab_size": 0, "layer_norm_epsilon": 1e-12},
    block={
        "attention/qkv": [f"{_DISTILBERT_LAYER}.attention.{x}_lin" for x in "qkv"],
        "attention/output": f"{_DISTILBERT_LAYER}.attention.out_lin",
        "attention_norm": f"{_DISTILBERT_LAYER}.sa_layer_norm",
        "intermediate": f"{_DISTILBERT_LAYER}.ffn.lin1",
        "output": f"{_DISTILBERT_LAYER}.ffn.lin2",
        "output_norm": f"{_DISTILBERT_LAYER}.output_layer_norm",
    },
    pooler={},
    heads={
        "masked_lm": {"transform": "vocab_transform", "norm": "vocab_layer_norm", "bias": "vocab_projector.bias"},
        "sequence": {"transform": "pre_classifier", "logits": "classifier"},
        **_TAGS_AND_SPANS,
    },
    sequence_activation="relu",
)
_ALBERT_LAYER = "encoder.albert_layer_groups.{i}.albert_layers.0"
# Narrow embeddings, projected to the hidden size; layers that share weights.
_ALBERT = replace(
    _BERT,
    classes="Albert",
    prefix="albert.",
    config={**_BERT.config, "embedding_size": "embedding_size", "num_groups": "num_hidden_groups"},
    values={
        "embedding_size": 128,
        "num_groups": 1,
        "activation": "gelu_tanh",
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
    },
    projects_equal_sizes=True,
    embeddings={**_BERT.embeddings, "embeddings/projection": "encoder.embedding_hidden_mapping_in"},
    block={
        "attention/qkv": [f"{_ALBERT_LAYER}.attention.{name}" for name in ("query", "key", "value")],
        "attention/output": f"{_ALBERT_LAYER}.attention.dense",
        "attention_norm": f"{_ALBERT_LAYER}.attention.LayerNorm",
        "intermediate": f"{_ALBERT_LAYER}.ffn",
        "output": f"{_ALBERT_LAYER}.ffn_output",
        "output_norm": f"{_ALBERT_LAYER}.full_layer_layer_norm",
    },
    pooler={"pooler": "pooler"},
    heads={
        "masked_lm": {"transform": "predictions.dense", "norm": "predictions.LayerNorm", "bias": "predictions.bias"},
        "next_sentence": {"logits": "sop_classifier.classifier"},
        "sequence": {"logits": "classifier"},
        **_TAGS_AND_SPANS,
    },
)
# Narrow embeddings in some sizes; no pooler. The discriminator predicts for each token whether it was replaced.
_ELECTRA = replace(
    _BERT,
    classes="Electra",
    prefix="electra.",
    config={**_BERT.config, "embedding_size": "embedding_size"},
    values={"embedding_size": 128},
    embeddings={**_BERT.embeddings, "embeddings/projection": "embeddings_project"},
    pooler={},
    heads={
        "masked_lm": {
            "transform": "generator_predictions.dense",
            "norm": "generator_predictions.LayerNorm",
            "bias": "generator_lm_head.bias",
        },
        "replaced_tokens": {
            "transform": "discriminator_predictions.dense",
            "logits": "discriminator_predictions.dense_prediction",
        },
        "sequence": _TWO_LAYERS,
        **_TAGS_AND_SPANS,
    },
    masked_lm_activation="gelu",
    sequence_activation="gelu",
)
# By the `model_type` in config.json.
FAMILIES = {
    "bert": _BERT,
    "ernie": replace(_BERT, classes="Ernie", prefix="ernie."),
    "roberta": _ROBERTA,
    "xlm-roberta": replace(_ROBERTA, classes="XLMRoberta"),
    "distilbert": _DISTILBERT,
    "albert": _ALBERT,
    "electra": _ELECTRA,
}


def table_of(config: BertConfig) -> Table:
    """The table of a configuration's family.

    Raises:
        ValueError: there is no such family.
    """
    if config.family not in FAMILIES:
        raise ValueError(f"family must be one of {', '.join(FAMILIES)}, not {config.family!r}")
    return FAMILIES[config.family]


def recognizes(directory: Path) -> bool:
    return (directory / CONFIG).is_file() and any((directory / f"{WEIGHTS}{end}").is_file() for end in ("", _INDEX))


def open_checkpoint(directory: Path) -> Checkpoint:
    """Opens a directory with `config.json` and weights; see `formats.open_checkpoint`."""
    values = files.read_json(files.find(directory, CONFIG))
    config = read_config(directory / CONFIG)
    file = open_weights(directory)
    table = table_of(config)
    return Checkpoint(
        "hugging_face",
        config,
        file,
        table,
        spellings={_plain(name, table.prefix): name for name in file.names},
        preferred=_heads_of(values, table),
        extras=_EXTRAS,
        copies=_copies(table),
    )


def open_weights(directory: Path) -> WeightFile:
    """Opens the weights in a directory, in one file or several."""
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
    """Writes `config.json` and `model.safetensors`; see `formats.write`.

    With heads, the encoder's weights have the family's prefix, as in `transformers`.
    """
    files.refuse_to_overwrite(directory, FILES, overwrite)
    heads = set(weights) - {"encoder"}
    table = table_of(config)
    tensors = Tensors(config, table, weights, prefix=table.prefix if heads else "")
    write_safetensors(directory / WEIGHTS, tensors.shapes, tensors)
    architectures = _architectures(table, heads)
    values = {**values_of(config), "architectures": architectures, **_labels(weights), **(settings or {})}
    texts = {CONFIG: files.to_json(values)}
    if not (directory / CARD).exists():  # never overwrite a model card
        texts[CARD] = model_card(config, heads, architectures[0])
    files.write_texts(directory, texts)


def read_config(path: Path) -> BertConfig:
    """The configuration in a `config.json`; see `formats.read_config`."""
    return read_config_file(path, config_of)


def config_of(values: dict[str, Any]) -> BertConfig:
    """The configuration from the object in a `config.json`, whose `model_type` is the family."""
    name = values.get("model_type", "bert")
    if name not in FAMILIES:
        raise ValueError(f"model_type is {name!r}; known are {', '.join(FAMILIES)}")
    return BertConfig(family=name, **fields_of(values, FAMILIES[name]))


def fields_of(values: dict[str, Any], table: Table) -> dict[str, Any]:
    """The fields of BertConfig that Hugging Face's or Google's configuration file states or implies.

    Raises:
        ValueError: the model is not supported, or a value is missing or wrong.
    """
    _check_plain(values)
    key = table.config["activation"]
    stated = values.get(key)
    activation = _activation(key, stated) if stated else table.values.get("activation", "gelu")
    missing = [theirs for ours, theirs in table.config.items() if ours in _REQUIRED and values.get(theirs) is None]
    if missing:
        raise ValueError(f"{', '.join(missing)} is missing")
    return {**table.fields(values), "activation": activation}


def values_of(config: BertConfig) -> dict[str, Any]:
    """The object for the `config.json` of an encoder."""
    table = table_of(config)
    values = table.stated(config) | {table.config["activation"]: _ACTIVATIONS[config.activation][0]}
    return {"architectures": [f"{table.classes}Model"], "model_type": config.family, **values}


def _check_plain(values: dict[str, Any]) -> None:
    """Raises ValueError for unsupported options that change the result."""
    positions = values.get("position_embedding_type", "absolute")
    if positions != "absolute":
        raise ValueError(f"position_embedding_type is {positions!r}; only 'absolute' is supported")
    if values.get("is_decoder") or values.get("add_cross_attention"):
        raise ValueError("this is a decoder (is_decoder or add_cross_attention is set); only encoders are supported")
    if values.get("use_task_id"):
        raise ValueError("use_task_id is set; embeddings of tasks (of some ERNIE models) are not supported")
    if values.get("inner_group_num", 1) != 1:
        raise ValueError(f"inner_group_num is {values['inner_group_num']!r}; only 1 is supported")


def _activation(key: str, name: Any) -> str:
    for ours, theirs in _ACTIVATIONS.items():
        if name in theirs:
            return ours
    known = ", ".join(name for theirs in _ACTIVATIONS.values() for name in theirs)
    raise ValueError(f"{key} is {name!r}; known are {known}")


def label_names(labels: Sequence[str]) -> dict[str, Any]:
    """A classifier's labels, in the order of its logits, as entries of `config.json`."""
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def _labels(weights: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, Any]:
    """Default names of a classifier's labels: `transformers` takes the number of labels from them."""
    for head in _LABELLED:
        if head in weights:
            names = [f"LABEL_{i}" for i in range(len(weights[head]["logits/bias"]))]
            return label_names(names)
    return {}


def _copies(table: Table) -> dict[str, str]:
    """The decoder of the masked-language head -> the embeddings it equals; it is not always stored."""
    bias = table.heads["masked_lm"]["bias"]
    layer = bias.removesuffix(".bias")
    word = f"{table.embeddings['embeddings/word']}.weight"
    return {f"{layer}.decoder.weight": word, f"{layer}.weight": word, f"{layer}.decoder.bias": bias}


def _plain(name: str, prefix: str) -> str:
    """A name from a file, without the prefix of a model with heads, and in today's spelling."""
    name = name.removeprefix(prefix)
    for old, new in _OLD_NAMES.items():
        name = name.replace(old, new)
    return name


def _architectures(table: Table, heads: set[str]) -> list[str]:
    left, endings = set(heads), []
    for task, ending in _CLASSES:
        if task <= left and (task or not endings):
            endings.append(ending)
            left -= task
    classes = [table.classes + ending for ending in endings]
    return [_INSTEAD.get(name, name) for name in classes]


def _heads_of(values: dict[str, Any], table: Table) -> frozenset[str]:
    """The heads that `architectures` names."""
    classes = values.get("architectures") or []
    return frozenset(head for task, ending in _CLASSES for head in task if table.classes + ending in classes)

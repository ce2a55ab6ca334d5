"""TF Model Garden's TensorFlow 2 checkpoints: `BertEncoder`, `BertEncoderV2`, `AlbertEncoder` and the pre-trainers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert import files
from keras_bert.checkpoints.checkpoint import Checkpoint, Table
from keras_bert.checkpoints.layout import Layout
from keras_bert.checkpoints.object_graph import ObjectGraphFile, spellings
from keras_bert.checkpoints.sizes import config_from_shapes
from keras_bert.checkpoints.tables import FormatNames, Tensors, names_of_parts
from keras_bert.checkpoints.tensorflow_file import OBJECT_GRAPH, TensorFlowFile, write_object_graph
from keras_bert.checkpoints.tf1 import find_index, google_config
from keras_bert.config import GOOGLE_FILE_NAMES, BertConfig
from keras_bert.families import Names

LAYOUT = Layout(splits_heads=True)
_KINDS = {"norm": ("gamma", "beta"), "dense": ("kernel", "bias"), "table": ("embeddings",)}
_QKV = ("query", "key", "value")


def _layers(*layers: tuple[str, str, str | list[str]]) -> Names:
    """From (kind, our layer, their layer or layers), the names of the weights."""
    return {
        f"{ours}/{weight}".lstrip("/"): [
            f"{name}/{weight}" for name in ([theirs] if isinstance(theirs, str) else theirs)
        ]
        for kind, ours, theirs in layers
        for weight in _KINDS[kind]
    }


def _block(scope: str) -> Names:
    return _layers(
        ("dense", "attention/qkv", [f"{scope}/self_attention/{name}" for name in _QKV]),
        ("dense", "attention/output", f"{scope}/self_attention/attention_output"),
        ("norm", "attention_norm", f"{scope}/self_attention_layer_norm"),
        ("dense", "intermediate", f"{scope}/intermediate"),
        ("dense", "output", f"{scope}/output"),
        ("norm", "output_norm", f"{scope}/output_layer_norm"),
    )


_EMBEDDINGS = _layers(
    ("table", "embeddings/word", "word_embeddings"),
    ("table", "embeddings/position", "position_embedding"),
    ("table", "embeddings/type", "type_embeddings"),
    ("norm", "embeddings/norm", "embeddings/layer_norm"),
)
_POOLER = _layers(("dense", "pooler", "pooler_transform"))
_HEADS = {
    "masked_lm": {
        **_layers(
            ("dense", "transform", "cls/predictions/transform/dense"),
            ("norm", "norm", "cls/predictions/transform/LayerNorm"),
        ),
        "bias": ["cls/predictions/output_bias/bias"],
    },
    "next_sentence": _layers(("dense", "logits", "next_sentence/logits")),
    "sequence": _layers(("dense", "logits", "sentence_prediction/logits")),
}
NAMES = {
    "bert": FormatNames(_EMBEDDINGS, _block("transformer/layer_{i}"), _POOLER, _HEADS),
    "albert": FormatNames(
        {**_EMBEDDINGS, **_layers(("dense", "embeddings/projection", "embedding_projection"))},
        _block("transformer"),
        _POOLER,
        _HEADS,
    ),
}
# In the pre-trainer of version 1, next-sentence prediction is a network of its own.
_OLD_NEXT_SENTENCE = "predictions/transform/logits"
# In that of version 2, the head of next-sentence prediction has a pooler of its own; the encoder's is not trained.
_TRAINED_POOLER = "next_sentence/pooler_dense"
# Name of a layer -> the attributes that lead to it from BertEncoderV2, or from the pre-trainer's items.
_PATHS = {
    "word_embeddings": "encoder/_embedding_layer",
    "position_embedding": "encoder/_position_embedding_layer",
    "type_embeddings": "encoder/_type_embedding_layer",
    "embeddings/layer_norm": "encoder/_embedding_norm_layer",
    "pooler_transform": "encoder/_pooler_layer",
    "cls/predictions/transform/dense": "masked_lm/dense",
    "cls/predictions/transform/LayerNorm": "masked_lm/layer_norm",
    "cls/predictions/output_bias": "masked_lm",
    "next_sentence/pooler_dense": "model/classification_heads/0/dense",
    "next_sentence/logits": "model/classification_heads/0/out_proj",
    "sentence_prediction/logits": "sentence_prediction/out_proj",
}
_PATHS_IN_LAYER = {
    **{f"self_attention/{name}": f"_attention_layer/_{name}_dense" for name in _QKV},
    "self_attention/attention_output": "_attention_layer/_output_dense",
    "self_attention_layer_norm": "_attention_layer_norm",
    "intermediate": "_intermediate_dense",
    "output": "_output_dense",
    "output_layer_norm": "_output_layer_norm",
}


def recognizes(directory: Path) -> bool:
    index = find_index(directory)
    return index is not None and OBJECT_GRAPH in TensorFlowFile(index).names


def open_checkpoint(directory: Path) -> Checkpoint:
    """Opens a checkpoint; see `checkpoints.open_checkpoint`.

    Without Google's configuration file beside it, the configuration is what the shapes tell (of BERT; how often an
    ALBERT repeats its layers, they do not), with the tanh approximation of gelu, Model Garden's default.
    """
    file = ObjectGraphFile(find_index(directory))
    has_config = any((directory / name).is_file() for name in GOOGLE_FILE_NAMES)
    config = BertConfig.read(files.find(directory, *GOOGLE_FILE_NAMES)) if has_config else None
    return open_graph("garden", file, config)


def open_graph(
    format: str,
    file: ObjectGraphFile,
    config: BertConfig | None,
    activation: str = "gelu_tanh",
    extras: str = "(?!)",
) -> Checkpoint:
    """A checkpoint with the names of Model Garden's variables, wherever they are stored.

    Args:
        format: as in Checkpoint.
        file: open.
        config: None: what the shapes tell, of a BERT with that activation.
        activation: as in BertConfig.
        extras: as in Table.
    """
    family = config.family if config else "bert"
    if family not in NAMES:
        raise ValueError(f"{file.path}: Model Garden has encoders of {', '.join(NAMES)}, not of {family}")
    tables = NAMES[family]
    wanted = {
        name for part in (tables.embeddings, tables.pooler, *tables.heads.values()) for x in part.values() for name in x
    }
    wanted |= {name.format(i=i) for i in range(_MOST_LAYERS) for x in tables.block.values() for name in x}
    spelled = spellings(wanted | _weights_of(_OLD_NEXT_SENTENCE) | _weights_of(_TRAINED_POOLER), file.names)
    if "cls/predictions/output_bias/bias" in spelled:  # else the old name is that of a classifier of any kind
        spelled |= _moved(spelled, _OLD_NEXT_SENTENCE, "next_sentence/logits")
    if pooler := _moved(spelled, _TRAINED_POOLER, "pooler_transform"):
        spelled |= pooler
        extras += r"|(.*/)?pooler_transform/.*"
    config = config or config_from_shapes(family, file, tables, spelled, activation)
    return Checkpoint(format, config, file, Table(names_of_parts(config, tables), LAYOUT, extras), spelled)


def write(
    directory: Path, config: BertConfig, weights: Mapping[str, Mapping[str, np.ndarray]], overwrite: bool = False
) -> None:
    """Writes `bert_config.json` and `bert_model.ckpt.*`; see `checkpoints.write`.

    The checkpoint is read by `tf.train.Checkpoint(encoder=encoder)` of a BertEncoderV2. Without heads `model=encoder`
    does as well; with them `model=pretrainer` and `**pretrainer.checkpoint_items` of a BertPretrainerV2.
    """
    if config.family != "bert":
        raise ValueError(f"Model Garden's checkpoints are written of bert, not of {config.family}")
    prefix = directory / "bert_model.ckpt"
    files.refuse_to_overwrite(directory, ["bert_config.json", f"{prefix.name}.index"], overwrite)
    values = google_config(config, "Model Garden's")
    tensors = _with_second_pooler(Tensors(config, NAMES["bert"], LAYOUT, weights), "next_sentence" in weights)
    write_object_graph(prefix, tensors, _path, aliases=_aliases(config, weights))
    files.write_texts(directory, {"bert_config.json": files.to_json(values)})


_MOST_LAYERS = 128


def _weights_of(layer: str) -> set[str]:
    return {f"{layer}/kernel", f"{layer}/bias"}


def _moved(spelled: dict[str, str], source: str, target: str) -> dict[str, str]:
    return {name.replace(source, target): spelled[name] for name in _weights_of(source) if name in spelled}


def _path(name: str) -> str:
    """The attributes that lead to the variable of that name."""
    layer, _, weight = name.rpartition("/")
    if layer == "cls/predictions/output_bias":
        weight = "output_bias.Sbias"  # an attribute with a slash in its name
    if layer.startswith("transformer/layer_"):
        number, _, rest = layer.removeprefix("transformer/layer_").partition("/")
        return f"encoder/_transformer_layers/{number}/{_PATHS_IN_LAYER[rest]}/{weight}"
    return f"{_PATHS[layer]}/{weight}"


def _aliases(config: BertConfig, weights: Mapping[str, Any]) -> dict[str, str]:
    """Further names of objects, as the different programs of Model Garden look for them."""
    if set(weights) == {"encoder"}:
        return {"model": "encoder"}
    aliases = {"model/encoder_network": "encoder"}
    if "masked_lm" in weights:
        aliases["masked_lm/embedding_table"] = "encoder/_embedding_layer/embeddings"
        aliases["model/masked_lm"] = "masked_lm"
    if "next_sentence" in weights and config.pooler:
        aliases["next_sentence..pooler_dense"] = _PATHS[_TRAINED_POOLER]
    return aliases


def _with_second_pooler(tensors: Tensors, wanted: bool) -> Iterator[tuple[str, np.ndarray]]:
    """The tensors, and a copy of the pooler's for the head of next-sentence prediction, which has one of its own."""
    for name, value in tensors:
        yield name, value
        if wanted and name.startswith("pooler_transform/"):
            yield name.replace("pooler_transform", _TRAINED_POOLER), value

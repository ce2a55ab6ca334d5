"""TF Model Garden's TensorFlow 2 checkpoints: `BertEncoder`, `BertEncoderV2`, `AlbertEncoder` and the pre-trainers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from keras_bert import files
from keras_bert.config import BertConfig
from keras_bert.formats.checkpoint import Checkpoint, JoinedFile, Tensors, config_from_shapes, names_of_any_size
from keras_bert.formats.families.row import QKV, Layers, Storage
from keras_bert.formats.tensorflow import tf1
from keras_bert.formats.tensorflow.bundle import OBJECT_GRAPH, open_by_variable, spellings, write_object_graph
from keras_bert.presets import PresetFiles

_EMBEDDINGS = {
    "embeddings/word": "word_embeddings",
    "embeddings/position": "position_embedding",
    "embeddings/type": "type_embeddings",
    "embeddings/norm": "embeddings/layer_norm",
}


def _block(scope: str) -> Layers:
    return {
        "attention/qkv": [f"{scope}/self_attention/{name}" for name in QKV],
        "attention/output": f"{scope}/self_attention/attention_output",
        "attention_norm": f"{scope}/self_attention_layer_norm",
        "intermediate": f"{scope}/intermediate",
        "output": f"{scope}/output",
        "output_norm": f"{scope}/output_layer_norm",
    }


_BERT = tf1.TABLES["bert"]._replace(
    endings={kind: f"/{kind}" for kind in ("kernel", "bias", "gamma", "beta", "embeddings")},
    storage=Storage(splits_heads=True),
    embeddings=_EMBEDDINGS,
    block=_block("transformer/layer_{i}"),
    pooler={"pooler": "pooler_transform"},
    heads={
        "masked_lm": {
            "transform": "cls/predictions/transform/dense",
            "norm": "cls/predictions/transform/LayerNorm",
            "bias": "cls/predictions/output_bias/bias",
        },
        "next_sentence": {"logits": "next_sentence/logits"},
        "sequence": {"logits": "sentence_prediction/logits"},
    },
)
TABLES = {
    "bert": _BERT,
    "albert": tf1.TABLES["albert"]._replace(
        endings=_BERT.endings,
        storage=_BERT.storage,
        embeddings={**_EMBEDDINGS, "embeddings/projection": "embedding_projection"},
        block=_block("transformer"),
        pooler=_BERT.pooler,
        heads=_BERT.heads,
    ),
}
_OLD_NEXT_SENTENCE = "predictions/transform/logits"  # in version 1's pre-trainer, where this head is a separate network
# In version 2, the head of next-sentence prediction has a pooler of its own, and the encoder's pooler is not trained.
_TRAINED_POOLER = "next_sentence/pooler_dense"
# Name of a layer -> path of attributes to it in BertEncoderV2, or in the pre-trainer's `checkpoint_items`.
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
    **{f"self_attention/{name}": f"_attention_layer/_{name}_dense" for name in QKV},
    "self_attention/attention_output": "_attention_layer/_output_dense",
    "self_attention_layer_norm": "_attention_layer_norm",
    "intermediate": "_intermediate_dense",
    "output": "_output_dense",
    "output_layer_norm": "_output_layer_norm",
}


def recognizes(preset: PresetFiles) -> bool:
    file = preset.once(tf1.open_file)
    return file is not None and OBJECT_GRAPH in file.names


def open_checkpoint(preset: PresetFiles) -> Checkpoint:
    """Opens a checkpoint; without Google's configuration file, infers a BERT's, with Model Garden's gelu."""
    file = preset.once(tf1.open_file)
    assert file is not None  # see `recognizes`
    return open_graph("garden", open_by_variable(file), tf1.config_beside(preset))


def open_graph(format: str, file: JoinedFile, config: BertConfig | None, extras: str = "(?!)") -> Checkpoint:
    """Opens variables with Model Garden's names. Without `config`, infers a BERT's, with gelu_tanh."""
    family = config.family if config else "bert"
    if family not in TABLES:
        raise ValueError(f"{file.path}: Model Garden has encoders of {', '.join(TABLES)}, not of {family}")
    table = TABLES[family]
    parts = names_of_any_size(family, table)
    known = {name for names in parts.values() for file_names in names.values() for name in file_names}
    spelling_of_name = spellings(known | _weight_names(_OLD_NEXT_SENTENCE) | _weight_names(_TRAINED_POOLER), file.names)
    if "cls/predictions/output_bias/bias" in spelling_of_name:  # without this head, the weights may be any classifier's
        spelling_of_name |= _rename_layer(spelling_of_name, _OLD_NEXT_SENTENCE, "next_sentence/logits")
    if pooler := _rename_layer(spelling_of_name, _TRAINED_POOLER, "pooler_transform"):
        spelling_of_name |= pooler
        extras += r"|(.*/)?pooler_transform/.*"
    config = config or config_from_shapes(family, file, table, spelling_of_name, "gelu_tanh")
    return Checkpoint(format, config, file, table, spelling_of_name, extras=extras)


files_of = tf1.files_of


def write(directory: Path, config: BertConfig, weights: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    """Writes `bert_config.json` and `bert_model.ckpt.*`; see `formats.write`.

    To read the files with Model Garden:

        a BertEncoderV2                   tf.train.Checkpoint(encoder=encoder)
        the same, if there are no heads   tf.train.Checkpoint(model=encoder)
        a BertPretrainerV2, with heads    tf.train.Checkpoint(model=pretrainer)
        the same                          tf.train.Checkpoint(**pretrainer.checkpoint_items)
    """
    if config.family != "bert":
        raise ValueError(f"Model Garden's checkpoints can only be written for bert, not for {config.family}")
    config_file, index, _ = files_of(config)
    values = tf1.values_with_warnings(config, "Model Garden's")
    tensors = _with_second_pooler(Tensors(config, TABLES["bert"], weights), "next_sentence" in weights)
    write_object_graph((directory / index).with_suffix(""), tensors, _path, aliases=_aliases(config, weights))
    files.write_texts(directory, {config_file: files.to_json(values)})


def _weight_names(layer: str) -> set[str]:
    return {f"{layer}/kernel", f"{layer}/bias"}


def _rename_layer(spelling_of_name: dict[str, str], source: str, target: str) -> dict[str, str]:
    return {
        name.replace(source, target): spelling_of_name[name]
        for name in _weight_names(source)
        if name in spelling_of_name
    }


def _path(name: str) -> str:
    """Returns the path of attributes to a variable."""
    layer, _, weight = name.rpartition("/")
    if layer == "cls/predictions/output_bias":
        weight = "output_bias.Sbias"  # an attribute with a slash in its name
    if layer.startswith("transformer/layer_"):
        number, _, rest = layer.removeprefix("transformer/layer_").partition("/")
        return f"encoder/_transformer_layers/{number}/{_PATHS_IN_LAYER[rest]}/{weight}"
    return f"{_PATHS[layer]}/{weight}"


def _aliases(config: BertConfig, weights: Mapping[str, object]) -> dict[str, str]:
    """Makes further object paths, under which other programs of Model Garden look for the same variables."""
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
    """Yields the tensors and, if `wanted`, a copy of the pooler for the head of next-sentence prediction."""
    for name, value in tensors:
        yield name, value
        if wanted and name.startswith("pooler_transform/"):
            yield name.replace("pooler_transform", _TRAINED_POOLER), value

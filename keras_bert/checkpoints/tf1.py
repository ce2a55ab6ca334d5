"""Google's TensorFlow 1 checkpoints: `bert_config.json` beside `bert_model.ckpt.index`; ALBERT's and ELECTRA's too."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert import files
from keras_bert.checkpoints.checkpoint import Checkpoint, Table
from keras_bert.checkpoints.layout import Layout
from keras_bert.checkpoints.sizes import config_from_shapes
from keras_bert.checkpoints.tables import FormatNames, Tensors, names_of_parts
from keras_bert.checkpoints.tensorflow_file import TensorFlowFile, write_tensorflow
from keras_bert.config import GOOGLE_FILE_NAMES, BertConfig
from keras_bert.families import Names

# What the optimizer keeps, and the number of steps.
_EXTRAS = r".*/adam_[mv]|global_step"
_QKV = ("query", "key", "value")


def _dense(ours: str, *theirs: str) -> Names:
    return {f"{ours}/{kind}": [f"{name}/{kind}" for name in theirs] for kind in ("kernel", "bias")}


def _norm(ours: str, theirs: str) -> Names:
    return {f"{ours}/{kind}": [f"{theirs}/{kind}"] for kind in ("gamma", "beta")}


def _embeddings(scope: str, projection: str | None = None) -> Names:
    return {
        **{f"embeddings/{ours}/embeddings": [f"{scope}/{theirs}_embeddings"] for ours, theirs in _TABLES.items()},
        **_norm("embeddings/norm", f"{scope}/LayerNorm"),
        **(_dense("embeddings/projection", projection) if projection else {}),
    }


def _output_layer(scope: str) -> Names:
    return {"logits/kernel": [f"{scope}output_weights"], "logits/bias": [f"{scope}output_bias"]}


def _masked_lm(scope: str, transform: str) -> Names:
    return {
        **_dense("transform", f"{scope}/{transform}dense"),
        **_norm("norm", f"{scope}/{transform}LayerNorm"),
        "bias": [f"{scope}/output_bias"],
    }


def _block(scope: str) -> Names:
    layer = f"{scope}/encoder/layer_{{i}}"
    return {
        **_dense("attention/qkv", *(f"{layer}/attention/self/{name}" for name in _QKV)),
        **_dense("attention/output", f"{layer}/attention/output/dense"),
        **_norm("attention_norm", f"{layer}/attention/output/LayerNorm"),
        **_dense("intermediate", f"{layer}/intermediate/dense"),
        **_dense("output", f"{layer}/output/dense"),
        **_norm("output_norm", f"{layer}/output/LayerNorm"),
    }


_TABLES = {"word": "word", "position": "position", "type": "token_type"}
_GROUP = "bert/encoder/transformer/group_{i}/inner_group_0"
_HEADS = {
    "masked_lm": _masked_lm("cls/predictions", "transform/"),
    "next_sentence": _output_layer("cls/seq_relationship/"),
    "sequence": _output_layer(""),
    "spans": _output_layer("cls/squad/"),
}
_POOLER = _dense("pooler", "bert/pooler/dense")
_NAMES = {
    "bert": FormatNames(_embeddings("bert/embeddings"), _block("bert"), _POOLER, _HEADS),
    "albert": FormatNames(
        _embeddings("bert/embeddings", "bert/encoder/embedding_hidden_mapping_in"),
        {
            **_dense("attention/qkv", *(f"{_GROUP}/attention_1/self/{name}" for name in _QKV)),
            **_dense("attention/output", f"{_GROUP}/attention_1/output/dense"),
            **_norm("attention_norm", f"{_GROUP}/LayerNorm"),
            **_dense("intermediate", f"{_GROUP}/ffn_1/intermediate/dense"),
            **_dense("output", f"{_GROUP}/ffn_1/intermediate/output/dense"),
            **_norm("output_norm", f"{_GROUP}/LayerNorm_1"),
        },
        _POOLER,
        _HEADS,
    ),
    # The discriminator: what people fine-tune.
    "electra": FormatNames(
        _embeddings("electra/embeddings", "electra/embeddings_project"),
        _block("electra"),
        heads={
            "replaced_tokens": {
                **_dense("transform", "discriminator_predictions/dense"),
                **_dense("logits", "discriminator_predictions/dense_1"),
            }
        },
    ),
}
# The generator stands in the same file, and uses the discriminator's embeddings unless it has its own.
_GENERATOR = FormatNames(
    _embeddings("electra/embeddings", "generator/embeddings_project"),
    _block("generator"),
    heads={"masked_lm": _masked_lm("generator_predictions", "")},
)
_OWN_EMBEDDINGS = {"electra/embeddings/": "generator/embeddings/"}


def _is_output_layer(ours: str, theirs: str) -> bool:
    return theirs.endswith("output_weights")


_LAYOUT = Layout(is_transposed=_is_output_layer)


def find_index(directory: Path) -> Path | None:
    """The index of the checkpoint in a directory: the only one, or the one that the file `checkpoint` calls the latest.

    Raises:
        ValueError: there are several, and nothing says which is meant.
    """
    indexes = sorted(directory.glob("*.index"))
    if len(indexes) > 1 and (directory / "checkpoint").is_file():
        latest = re.search(
            r'^model_checkpoint_path: "([^"/\\]+)"', (directory / "checkpoint").read_text(), re.MULTILINE
        )
        indexes = [index for index in indexes if latest and index.stem == latest[1]] or indexes
    if len(indexes) > 1:
        raise ValueError(
            f"{directory} holds several checkpoints: {', '.join(index.stem for index in indexes)}; keep one"
        )
    return indexes[0] if indexes else None


def recognizes(directory: Path) -> bool:
    return find_index(directory) is not None


def open_checkpoint(directory: Path) -> Checkpoint:
    """Opens a checkpoint and the configuration beside it; see `checkpoints.open_checkpoint`.

    An ELECTRA checkpoint holds a generator and a discriminator. The one that is read is that of the configuration's
    sizes; the other's weights are neither missing nor unexpected.
    """
    file = TensorFlowFile(find_index(directory))
    config = _config(directory, file)
    tables, spellings, extras = _NAMES[config.family], {}, _EXTRAS
    if config.family == "electra":
        is_generator = _is_generator(file, config)
        extras += "|(electra|discriminator_predictions)/.*" if is_generator else "|generator(_predictions)?/.*"
        if is_generator:
            tables = _GENERATOR
            for shared, own in _OWN_EMBEDDINGS.items():
                spellings = {name.replace(own, shared): name for name in file.names if name.startswith(own)}
    table = Table(names_of_parts(config, tables), _LAYOUT, extras)
    return Checkpoint("tf1", config, file, table, spellings)


def write(
    directory: Path, config: BertConfig, weights: Mapping[str, Mapping[str, np.ndarray]], overwrite: bool = False
) -> None:
    """Writes `bert_config.json` and `bert_model.ckpt.*` (or `albert_…`, `electra_…`); see `checkpoints.write`.

    Google's code for BERT and ALBERT knows no exact gelu, and one epsilon only: a warning says what it would compute
    otherwise than this model.
    """
    if config.family not in _NAMES:
        raise ValueError(f"Google published TF 1 checkpoints of {', '.join(_NAMES)}; {config.family} has no such names")
    config_file = f"{config.family}_config.json"
    prefix = directory / f"{config.family}_model.ckpt"
    files.refuse_to_overwrite(directory, [config_file, f"{prefix.name}.index"], overwrite)
    is_generator = config.family == "electra" and "masked_lm" in weights
    tensors = Tensors(config, _GENERATOR if is_generator else _NAMES[config.family], _LAYOUT, weights)
    values = google_config(config, "Google's")
    write_tensorflow(prefix, tensors)
    files.write_texts(directory, {config_file: files.to_json(values)})


def _config(directory: Path, file: TensorFlowFile) -> BertConfig:
    """What the configuration file says; without one (Google's ELECTRA came so), what the shapes of the weights tell."""
    found = [directory / name for name in GOOGLE_FILE_NAMES if (directory / name).is_file()]
    if found:
        return BertConfig.read(found[0])
    family = "electra" if any(name.startswith("electra/") for name in file.names) else "bert"
    activation = "gelu" if family == "electra" else "gelu_tanh"
    return config_from_shapes(family, file, _NAMES[family], {}, activation)


def google_config(config: BertConfig, whose: str) -> dict[str, Any]:
    """The object of a `bert_config.json`, with a warning where `whose` code will compute something else."""
    if config.activation == "gelu" and config.family != "electra":
        warnings.warn(
            f"this model uses the exact gelu; {whose} code will compute the tanh approximation, about 1e-3 away",
            stacklevel=4,
        )
        config = dataclasses.replace(config, activation="gelu_tanh")
    if config.layer_norm_epsilon != 1e-12:
        warnings.warn(
            f"this model's layer normalization adds {config.layer_norm_epsilon}; {whose} code will add 1e-12",
            stacklevel=4,
        )
    return config.to_google()


def _is_generator(file: TensorFlowFile, config: BertConfig) -> bool:
    def fits(scope: str) -> bool:
        name = f"{scope}/encoder/layer_{config.num_layers - 1}/intermediate/dense/kernel"
        return name in file.names and file.shape(name) == (config.hidden_size, config.intermediate_size)

    return fits("generator") and not fits("electra")

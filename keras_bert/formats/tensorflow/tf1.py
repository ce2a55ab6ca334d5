"""Google's TensorFlow 1 checkpoints of BERT, ALBERT and ELECTRA: `bert_config.json` beside `bert_model.ckpt.index`."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from keras_bert import files
from keras_bert.checkpoint_table import GOOGLE_CONFIGS
from keras_bert.config import BertConfig
from keras_bert.counted import listed
from keras_bert.formats.checkpoint import Checkpoint, Tensors, config_from_shapes
from keras_bert.formats.families.row import ACTIVATIONS, QKV, Layers, Storage
from keras_bert.formats.row_translator import TABLES as OF_TRANSFORMERS
from keras_bert.formats.row_translator import FamilyTable
from keras_bert.formats.tensorflow.bundle import OBJECT_GRAPH, TensorFlowFile, write_tensorflow
from keras_bert.presets import PresetFiles

# Fields of BertConfig that these files do not have.
_NOT_IN_CONFIGS = ("layer_norm_epsilon", "pad_token_id")
_EXTRAS = r".*/adam_[mv]|global_step"  # the state of the optimizer
_SHARED, _OWN = "electra/embeddings/", "generator/embeddings/"
# "gelu" means the tanh approximation in the code of BERT and ALBERT, and the exact function in ELECTRA's.
_WITH_TANH = {"activation": {**ACTIVATIONS, "gelu": "gelu_tanh"}}
_ENDINGS = {"kernel": "/kernel", "bias": "/bias", "gamma": "/gamma", "beta": "/beta", "embeddings": ""}
_GROUP = "bert/encoder/transformer/group_{i}/inner_group_0"  # ALBERT's


def _embeddings(scope: str) -> Layers:
    return {
        "embeddings/word": f"{scope}/word_embeddings",
        "embeddings/position": f"{scope}/position_embeddings",
        "embeddings/type": f"{scope}/token_type_embeddings",
        "embeddings/norm": f"{scope}/LayerNorm",
    }


def _block(scope: str) -> Layers:
    layer = f"{scope}/encoder/layer_{{i}}"
    return {
        "attention/qkv": [f"{layer}/attention/self/{name}" for name in QKV],
        "attention/output": f"{layer}/attention/output/dense",
        "attention_norm": f"{layer}/attention/output/LayerNorm",
        "intermediate": f"{layer}/intermediate/dense",
        "output": f"{layer}/output/dense",
        "output_norm": f"{layer}/output/LayerNorm",
    }


def _output_layer(scope: str) -> Layers:
    return {"logits/kernel": [f"{scope}output_weights"], "logits/bias": [f"{scope}output_bias"]}


_BERT = OF_TRANSFORMERS["bert"]._replace(
    written_if_changed={},
    values={"activation": "gelu_tanh"},
    choices=_WITH_TANH,
    endings=_ENDINGS,
    storage=Storage(transposed=("logits/kernel",)),
    embeddings=_embeddings("bert/embeddings"),
    block=_block("bert"),
    pooler={"pooler": "bert/pooler/dense"},
    heads={
        "masked_lm": {
            "transform": "cls/predictions/transform/dense",
            "norm": "cls/predictions/transform/LayerNorm",
            "bias": "cls/predictions/output_bias",
        },
        "next_sentence": _output_layer("cls/seq_relationship/"),
        "sequence": _output_layer(""),
        "spans": _output_layer("cls/squad/"),
    },
)
# The discriminator, which is the part to fine-tune.
_ELECTRA = OF_TRANSFORMERS["electra"]._replace(
    written_if_changed={},
    endings=_ENDINGS,
    storage=Storage(),
    embeddings={**_embeddings("electra/embeddings"), "embeddings/projection": "electra/embeddings_project"},
    block=_block("electra"),
    heads={
        "replaced_tokens": {
            "transform": "discriminator_predictions/dense",
            "logits": "discriminator_predictions/dense_1",
        }
    },
)
# The generator is in the same file. It shares the discriminator's embeddings, or has its own, under "generator/".
GENERATOR = _ELECTRA._replace(
    embeddings={**_ELECTRA.embeddings, "embeddings/projection": "generator/embeddings_project"},
    block=_block("generator"),
    heads={
        "masked_lm": {
            "transform": "generator_predictions/dense",
            "norm": "generator_predictions/LayerNorm",
            "bias": "generator_predictions/output_bias",
        }
    },
)
TABLES: dict[str, FamilyTable] = {
    "bert": _BERT,
    "albert": OF_TRANSFORMERS["albert"]._replace(
        written_if_changed={},
        choices=_WITH_TANH,
        endings=_ENDINGS,
        storage=_BERT.storage,
        embeddings={**_BERT.embeddings, "embeddings/projection": "bert/encoder/embedding_hidden_mapping_in"},
        block={
            "attention/qkv": [f"{_GROUP}/attention_1/self/{name}" for name in QKV],
            "attention/output": f"{_GROUP}/attention_1/output/dense",
            "attention_norm": f"{_GROUP}/LayerNorm",
            "intermediate": f"{_GROUP}/ffn_1/intermediate/dense",
            "output": f"{_GROUP}/ffn_1/intermediate/output/dense",
            "output_norm": f"{_GROUP}/LayerNorm_1",
        },
        pooler=_BERT.pooler,
        heads=_BERT.heads,
    ),
    "electra": _ELECTRA,
}


def open_file(preset: PresetFiles) -> TensorFlowFile | None:
    """Opens the checkpoint in a directory, of several the one that the file `checkpoint` names as the latest."""
    directory = preset.directory
    indexes = sorted(directory.glob("*.index"))
    if len(indexes) > 1 and (directory / "checkpoint").is_file():
        state = files.read_whole(directory / "checkpoint").decode(errors="replace")
        latest = re.search(r'^model_checkpoint_path: "([^"/\\]+)"', state, re.MULTILINE)
        indexes = [index for index in indexes if latest and index.stem == latest[1]] or indexes
    if len(indexes) > 1:
        several = listed([index.stem for index in indexes])
        raise ValueError(f"{directory} holds several checkpoints: {several}; keep one")
    return TensorFlowFile(indexes[0]) if indexes else None


def recognizes(preset: PresetFiles) -> bool:
    file = preset.once(open_file)
    return file is not None and OBJECT_GRAPH not in file.names


def open_checkpoint(preset: PresetFiles) -> Checkpoint:
    """Opens a checkpoint. Of ELECTRA's two networks, the one that has the configuration's sizes is read."""
    file = preset.once(open_file)
    assert file is not None  # see `recognizes`
    config = config_beside(preset)
    if config is None:  # Google's ELECTRA checkpoints have no file for it
        family = "electra" if any(name.startswith("electra/") for name in file.names) else "bert"
        gelu = TABLES[family].choices["activation"]["gelu"]
        config = config_from_shapes(family, file, TABLES[family], {}, gelu)
    table, spellings, extras = TABLES[config.family], {}, _EXTRAS
    if config.family == "electra":
        is_generator = _is_generator(file, config)
        extras += "|(electra|discriminator_predictions)/.*" if is_generator else "|generator(_predictions)?/.*"
        if is_generator:
            table = GENERATOR
            spellings = {name.replace(_OWN, _SHARED): name for name in file.names if name.startswith(_OWN)}
    return Checkpoint("tf1", config, file, table, spellings, extras=extras)


def files_of(config: BertConfig) -> tuple[str, ...]:
    """Lists the names of the files that `write` writes, or patterns of them."""
    prefix = f"{config.family}_model.ckpt"
    return f"{config.family}_config.json", f"{prefix}.index", f"{prefix}.data-*"


def write(directory: Path, config: BertConfig, weights: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    """Writes Google's files, and warns of the exact gelu and of an epsilon that Google's code does not have."""
    if config.family not in TABLES:
        raise ValueError(f"TensorFlow 1 checkpoints are of {', '.join(TABLES)}, not of {config.family}")
    config_file, index, _ = files_of(config)
    is_generator = config.family == "electra" and "masked_lm" in weights
    tensors = Tensors(config, GENERATOR if is_generator else TABLES[config.family], weights)
    values = values_with_warnings(config, "Google's")
    write_tensorflow((directory / index).with_suffix(""), tensors)
    files.write_texts(directory, {config_file: files.to_json(values)})


def config_of(values: dict[str, object], source: Path) -> BertConfig:
    """Makes the configuration from the content of a file whose name is in `GOOGLE_CONFIGS`."""
    family = source.name.removesuffix("_config.json")
    return TABLES[family].config_of(family, values, source)


def values_of(config: BertConfig) -> dict[str, object]:
    """Makes the content of Google's configuration file, or raises ValueError for a family or activation without one."""
    if config.family not in TABLES:
        raise ValueError(f"Google's files are of {', '.join(TABLES)}, not of {config.family}")
    table = TABLES[config.family]
    gelu = table.choices["activation"]["gelu"]
    if config.activation not in (gelu, "relu"):
        raise ValueError(f"a {config.family}_config.json has {gelu} or relu, not {config.activation!r}")
    omitted_keys = [table.config[field] for field in _NOT_IN_CONFIGS]
    return {key: value for key, value in table.entries(config).items() if key not in omitted_keys}


def values_with_warnings(config: BertConfig, owner: str) -> dict[str, object]:
    """Makes the content of `values_of`. Warns if the code of `owner`, such as "Google's", computes other outputs."""
    if config.activation == "gelu" and TABLES[config.family].choices["activation"]["gelu"] == "gelu_tanh":
        warnings.warn(
            f"this model uses the exact gelu; {owner} code will compute the tanh approximation, about 1e-3 away",
            stacklevel=4,
        )
        config = dataclasses.replace(config, activation="gelu_tanh")
    if config.layer_norm_epsilon != 1e-12:
        warnings.warn(
            f"this model's layer normalization adds {config.layer_norm_epsilon}; {owner} code will add 1e-12",
            stacklevel=4,
        )
    return values_of(config)


def config_beside(preset: PresetFiles) -> BertConfig | None:
    """Reads the configuration beside the weights. None if there is no such file."""
    name = next((name for name in GOOGLE_CONFIGS if (preset.directory / name).is_file()), None)
    return None if name is None else preset.parsed(name, config_of)


def _is_generator(file: TensorFlowFile, config: BertConfig) -> bool:
    def fits(scope: str) -> bool:
        name = f"{scope}/encoder/layer_{config.num_layers - 1}/intermediate/dense/kernel"
        return name in file.names and file.shape(name) == (config.hidden_size, config.intermediate_size)

    return fits("generator") and not fits("electra")

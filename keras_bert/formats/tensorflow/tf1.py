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
from keras_bert.formats.families.electra import TF1_GENERATOR
from keras_bert.formats.row_translator import FamilyTable, tables
from keras_bert.formats.tensorflow.bundle import OBJECT_GRAPH, TensorFlowFile, write_tensorflow
from keras_bert.presets import PresetFiles

# Fields of BertConfig that these files do not have.
_NOT_IN_CONFIGS = ("layer_norm_epsilon", "pad_token_id")
_EXTRAS = r".*/adam_[mv]|global_step"  # the state of the optimizer
TABLES = tables("tf1")
# ELECTRA's discriminator and generator are in the same file.
GENERATOR = FamilyTable(**vars(TF1_GENERATOR))
_SHARED, _OWN = "electra/embeddings/", "generator/embeddings/"


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
    family = GOOGLE_CONFIGS[source.name]
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
    if config.activation == "gelu" and config.family != "electra":
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

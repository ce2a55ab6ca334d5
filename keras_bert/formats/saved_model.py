"""Reads the variables of SavedModels of TF Hub and of this package, without running the graph.

A SavedModel of TF Hub has no configuration, so `open_checkpoint` infers it:

- The sizes come from the shapes of the weights, which have an axis for heads.
- The activation follows from the operations in the graph: `Erf` or `Erfc` is the exact gelu, `Relu` is relu; otherwise
  it is the tanh approximation, as in all models of TF Hub.
- Dropout, the epsilon of layer normalization and the initializer range are Google's (0.1, 1e-12, 0.02).
- The family is BERT: encoders with other positions or repeated layers are not recognized.

This package's own exports have no axis for heads. Their configuration is in `assets.extra/config.json`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from keras_bert.config import BertConfig
from keras_bert.formats.checkpoint import Checkpoint
from keras_bert.formats.families import table_of
from keras_bert.formats.family_table import FamilyTable, Layers
from keras_bert.formats.garden import open_graph
from keras_bert.formats.storage import Storage
from keras_bert.formats.tensorflow_file import TensorFlowFile, open_by_variable

if TYPE_CHECKING:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    from keras_bert.formats.preset import Preset

MODEL = "saved_model.pb"
CONFIG = "assets.extra/config.json"  # assets.extra is TensorFlow's folder for files that are not part of the graph
_ACTIVATIONS = {"Erf": "gelu", "Erfc": "gelu", "Relu": "relu"}
# Encoders of TF Hub also store whether the vocabulary is in lower case.
_EXTRAS = r"(.*/)?(do_lower_case|Variable|save_counter)'*"


def own_table(config: BertConfig) -> FamilyTable:
    """Makes the table of this package's own exports, whose weights have this package's names."""

    def with_own_names(layers: Layers, scope: str = "") -> Layers:
        return {path: scope + path for path in layers}

    family = table_of(config)
    return replace(
        family,
        endings={kind: f"/{kind}" for kind in family.endings},
        storage=Storage(),
        embeddings=with_own_names(family.embeddings),
        block=with_own_names(family.block, "block_{i}/"),
        pooler=with_own_names(family.pooler),
        heads={"masked_lm": with_own_names(family.heads["masked_lm"], "masked_lm_head/")},
    )


def recognizes(preset: Preset) -> bool:
    return (preset.directory / MODEL).is_file()


def open_checkpoint(preset: Preset) -> Checkpoint:
    """Opens the variables of a SavedModel; see `formats.open_checkpoint`."""
    directory = preset.directory
    file = open_by_variable(TensorFlowFile(directory / "variables" / "variables.index"))
    if "embeddings/norm/gamma" in file.names and not any(name.startswith("block_0/") for name in file.names):
        raise ValueError(
            f"{directory} was exported in bfloat16 or int8, without float weights, so it cannot be loaded as a "
            "model; load the preset that it was exported from"
        )
    if "embeddings/word/embeddings" not in file.names:
        return open_graph("saved_model", file, None, _activation(directory / MODEL), _EXTRAS)
    if not (directory / CONFIG).is_file():
        raise ValueError(f"{directory} has no {CONFIG}, so its number of heads is unknown; copy config.json there")
    config = preset.config_in(CONFIG)
    return Checkpoint("saved_model", config, file, own_table(config), extras=_EXTRAS)


def read_graphs(path: Path) -> SavedModel:
    """Reads a `saved_model.pb`. Raises ValueError if it is damaged."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    try:
        model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    except DecodeError as error:
        raise ValueError(f"{path} is not a SavedModel, or is damaged: {error}") from None
    if not model.meta_graphs:
        raise ValueError(f"{path} is damaged: it holds no graph")
    return model


def _activation(path: Path) -> str:
    operations = {
        node.op
        for graph in read_graphs(path).meta_graphs
        for function in graph.graph_def.library.function
        for node in function.node_def
    }
    return next((activation for name, activation in _ACTIVATIONS.items() if name in operations), "gelu_tanh")

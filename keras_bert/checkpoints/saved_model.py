"""Encoders of TF Hub, and those that this package exports: the variables of a SavedModel, whose graph is never run.

What a SavedModel of TF Hub does not say in so many words:

- The sizes are those of the weights, which keep the heads apart.
- The activation is read off the operations in the graph: `Erf` or `Erfc` is the exact gelu, `Relu` is relu; otherwise
  it is the tanh approximation, as in all of TF Hub's.
- Dropout, the epsilon of layer normalization and the spread of new weights are not to be known: they are Google's (0.1,
  1e-12, 0.02).
- The family is taken to be BERT: encoders that number positions otherwise, or repeat layers, are not told apart.

Ours do not keep the heads apart; what they are says a configuration beside them, `assets.extra/config.json`.
"""

from __future__ import annotations

from pathlib import Path

from keras_bert.checkpoints.checkpoint import Checkpoint, Table
from keras_bert.checkpoints.garden import open_graph
from keras_bert.checkpoints.layout import Layout
from keras_bert.checkpoints.object_graph import ObjectGraphFile
from keras_bert.checkpoints.tables import FormatNames, names_of_parts
from keras_bert.config import BertConfig
from keras_bert.families import FAMILIES, Names

MODEL = "saved_model.pb"
CONFIG = "assets.extra/config.json"  # a place that TensorFlow sets aside for such files
_ACTIVATIONS = {"Erf": "gelu", "Erfc": "gelu", "Relu": "relu"}
# Beside its weights, an encoder of TF Hub holds whether its vocabulary is in lower case.
_EXTRAS = r"(.*/)?(do_lower_case|Variable|save_counter)'*"


def _own(names: Names, scope: str = "") -> Names:
    """What this package exports has our own names."""
    return {ours: [scope + ours] for ours in names}


def recognizes(directory: Path) -> bool:
    return (directory / MODEL).is_file()


def open_checkpoint(directory: Path) -> Checkpoint:
    """Opens the variables of a SavedModel; see `checkpoints.open_checkpoint`."""
    file = ObjectGraphFile(directory / "variables" / "variables.index")
    if "embeddings/word/embeddings" not in file.names:
        return open_graph("saved_model", file, None, _activation(directory / MODEL), _EXTRAS)
    if not (directory / CONFIG).is_file():
        raise ValueError(f"{directory} has no {CONFIG}: how many heads its weights make up cannot be known")
    config = BertConfig.read(directory / CONFIG)
    family = FAMILIES[config.family]
    tables = FormatNames(
        _own(family.embeddings),
        _own(family.block, "block_{i}/"),
        _own(family.pooler),
        {"masked_lm": _own(family.heads["masked_lm"], "masked_lm_head/")},
    )
    return Checkpoint("saved_model", config, file, Table(names_of_parts(config, tables), Layout(), _EXTRAS))


def _activation(path: Path) -> str:
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    model = SavedModel()
    try:
        model.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise ValueError(f"{path} is not a SavedModel, or is damaged: {error}") from None
    operations = {
        node.op
        for graph in model.meta_graphs
        for function in graph.graph_def.library.function
        for node in function.node_def
    }
    return next((activation for name, activation in _ACTIVATIONS.items() if name in operations), "gelu_tanh")

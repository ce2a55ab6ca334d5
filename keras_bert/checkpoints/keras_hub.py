"""KerasHub's preset directories: `config.json` beside `model.weights.h5`, and `task.weights.h5` if there is a head."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert import files
from keras_bert.checkpoints.checkpoint import Checkpoint, Table
from keras_bert.checkpoints.h5_file import H5File
from keras_bert.checkpoints.layout import Layout
from keras_bert.checkpoints.shapes import Shape
from keras_bert.checkpoints.tables import FormatNames, names_of_parts
from keras_bert.config import BertConfig
from keras_bert.families import Names

CONFIG = "config.json"
WEIGHTS = "model.weights.h5"
TASK = "task.json"
TASK_WEIGHTS = "task.weights.h5"

# The state of dropout's seeds, and of an optimizer.
_EXTRAS = r".*seed_generator.*|task/optimizer/.*"


def _layers(kinds: str, layers: dict[str, str | list[str]], scope: str) -> Names:
    """The names of layers' weights, which Keras only counts: `kinds` are theirs, in that order."""
    return {
        f"{ours}/{kind}": [f"{scope}/{name}/vars/{i}" for name in ([theirs] if isinstance(theirs, str) else theirs)]
        for ours, theirs in layers.items()
        for i, kind in enumerate(kinds.split())
    }


def _dense(scope: str = "layers", **layers: str) -> Names:
    return _layers("kernel bias", layers, scope)


def _tables(position: str, word: str) -> Names:
    return _layers("embeddings", {"embeddings/word": word, "embeddings/position": position}, "layers")


_BLOCK = {
    **_layers(
        "kernel bias",
        {
            "attention/qkv": [f"_self_attention_layer/{name}_dense" for name in ("query", "key", "value")],
            "attention/output": "_self_attention_layer/output_dense",
            "intermediate": "_feedforward_intermediate_dense",
            "output": "_feedforward_output_dense",
        },
        "layers/transformer_encoder_{i}",
    ),
    **_layers(
        "gamma beta",
        {"attention_norm": "_self_attention_layer_norm", "output_norm": "_feedforward_layer_norm"},
        "layers/transformer_encoder_{i}",
    ),
}
_NORM = _layers("gamma beta", {"embeddings/norm": "layer_normalization"}, "layers")
_SEGMENTS = {
    **_tables("position_embedding", "reversible_embedding"),
    **_layers("embeddings", {"embeddings/type": "embedding"}, "layers"),
    **_NORM,
}
_NO_SEGMENTS = {
    **_tables("token_and_position_embedding/position_embedding", "token_and_position_embedding/token_embedding"),
    **_NORM,
}
# The one row of RoBERTa's table of segments is the same for every piece; KerasHub's has none, which is a row of zeros.
_ONE_SEGMENT = {**_NO_SEGMENTS, "embeddings/type/embeddings": []}
_PROJECTED = {**_SEGMENTS, **_layers("kernel bias", {"embeddings/projection": "dense"}, "layers")}
_MASKED_LM = {
    **_dense("task/layers", transform="masked_lm_head/_intermediate_dense"),
    **_layers("gamma beta", {"norm": "masked_lm_head/_intermediate_layer_norm"}, "task/layers"),
    "bias": ["task/layers/masked_lm_head/vars/0"],
}
_ONE_LAYER = {"masked_lm": _MASKED_LM, "sequence": _dense("task/layers", logits="dense")}
_TWO_LAYERS = {"masked_lm": _MASKED_LM, "sequence": _dense("task/layers", transform="dense", logits="dense_1")}


# By family.
_FORMATS = {
    "bert": FormatNames(_SEGMENTS, _BLOCK, _dense(pooler="dense"), _ONE_LAYER),
    "roberta": FormatNames(_ONE_SEGMENT, _BLOCK, {}, _TWO_LAYERS),
    "xlm-roberta": FormatNames(_ONE_SEGMENT, _BLOCK, {}, _TWO_LAYERS),
    "distilbert": FormatNames(_NO_SEGMENTS, _BLOCK, {}, _TWO_LAYERS),
    "albert": FormatNames(_PROJECTED, _BLOCK, _dense(pooler="dense_1"), _ONE_LAYER),
    "electra": FormatNames(_PROJECTED, _BLOCK),
}
# It has a pooler, which ELECTRA has not: nobody trained it.
_EXTRAS_OF_ELECTRA = rf"{_EXTRAS}|layers/dense(_1)?/vars/[01]"


def recognizes(directory: Path) -> bool:
    return (directory / WEIGHTS).is_file()


def open_checkpoint(directory: Path) -> Checkpoint:
    """Opens a preset; see `checkpoints.open_checkpoint`.

    In a masked-language model KerasHub's BERT uses the exact gelu in the head, and its approximation in the encoder;
    here the head does as the encoder, so its logits differ by about 1e-3.
    """
    path = files.find(directory, CONFIG)
    values = files.read_json(path)
    try:
        config = BertConfig.from_keras_hub(values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    task = directory / TASK_WEIGHTS
    file = _Both(H5File(directory / WEIGHTS), H5File(task) if task.is_file() else None)
    # Keras counts the layers of a class from the second on.
    spellings = {
        name.replace("transformer_encoder/", "transformer_encoder_0/"): name
        for name in file.names
        if "/transformer_encoder/" in name
    }
    layout = _LAYOUT_WITH_PADDING if config.positions_after_padding else _LAYOUT
    extras = _EXTRAS_OF_ELECTRA if config.family == "electra" else _EXTRAS
    table = Table(names_of_parts(config, _FORMATS[config.family]), layout, extras)
    return Checkpoint("keras_hub", config, file, table, spellings)


_LAYOUT = Layout(splits_heads=True)
# Positions count from 0: the rows of the table that stand for padding are left out.
_LAYOUT_WITH_PADDING = Layout(splits_heads=True, lacks_padding_positions=True)


class _Both:
    """The weights of the backbone, and those of a task with "task/" before their names."""

    def __init__(self, backbone: H5File, task: H5File | None) -> None:
        self.path = backbone.path
        self._task = task
        self._backbone = backbone
        self.names = backbone.names | ({f"task/{name}" for name in task.names} if task else set())

    def _in_its_file(self, name: str, method: Callable[[H5File, str], Any]) -> Any:
        if name.startswith("task/"):
            return method(self._task, name.removeprefix("task/"))
        return method(self._backbone, name)

    def shape(self, name: str) -> Shape:
        return self._in_its_file(name, H5File.shape)

    def read(self, name: str) -> np.ndarray:
        return self._in_its_file(name, H5File.read)

    def close(self) -> None:
        for file in (self._backbone, self._task):
            if file is not None:
                file.close()

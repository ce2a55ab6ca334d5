"""Static vectors in the files of model2vec and of sentence-transformers' StaticEmbedding."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np

from keras_bert.formats.checkpoint import WeightFile
from keras_bert.formats.weight_files import SafetensorsFile
from keras_bert.presets import PresetFiles
from keras_bert.shapes import Shape

_WEIGHTS = "model.safetensors"
_TABLES = {"embeddings": "model2vec", "embedding.weight": "static_embedding"}  # name of the table -> family
_DEFAULT_LENGTH, _ANY_LENGTH = 512, 1_000_000  # in tokens; the first is model2vec's default


def config_of(preset: PresetFiles, is_static: bool) -> dict[str, Any] | None:
    """Makes a `config.json` that these files lack; None: they lack none. `is_static`: of a StaticEmbedding."""
    try:
        values = preset.json_if_there("config.json")
    except (OSError, ValueError):
        return None  # whoever reads it will say what is wrong
    path = preset.directory / _WEIGHTS
    if "vocab_size" in values or not (is_static or values.get("model_type") == "model2vec") or not path.is_file():
        return None
    with closing(SafetensorsFile(path)) as file:
        shapes = {name: file.shape(name) for name in file.names}
    table = next((name for name in _TABLES if len(shapes.get(name, ())) == 2), None)
    if table is None:
        raise ValueError(f"{path} has no table of token vectors, {' or '.join(_TABLES)}; it has {sorted(shapes)}")
    if _TABLES[table] == "model2vec":
        length = values.get("max_length", _DEFAULT_LENGTH)
    else:
        length = (preset.json_if_there("tokenizer.json").get("truncation") or {}).get("max_length")
    (rows, *_), (_, width) = shapes.get("mapping", shapes[table]), shapes[table]
    found = {"model_type": _TABLES[table], "vocab_size": rows, "hidden_dim": width}
    return {**values, **found, "max_length": _ANY_LENGTH if length is None else length}


def settings(preset: PresetFiles) -> dict[str, Any]:
    """Reads the settings for sentence vectors in model2vec's `config.json`; empty for other models."""
    values = preset.json_if_there("config.json", {"normalize": (bool, None)})
    return {"normalize": bool(values.get("normalize"))} if values.get("model_type") == "model2vec" else {}


def whole(file: WeightFile) -> WeightFile:
    """Returns a file whose table has a row for each token, if model2vec stored it in parts or as int8."""
    is_stored = "embeddings" in file.names and file.names <= {"embeddings", "mapping", "weights"}
    return _Table(file) if is_stored else file


class _Table:
    """The table of a model2vec's file: the vector of token i is `embeddings[mapping[i]] * weights[i]`."""

    def __init__(self, file: WeightFile) -> None:
        self.path, self.size, self.names, self._file = file.path, file.size, {"embeddings"}, file
        self.close = file.close
        rows = file.shape("mapping" if "mapping" in file.names else "embeddings")[0]
        if "weights" in file.names and file.shape("weights") != (rows,):
            raise ValueError(f"{file.path}: weights has the shape {file.shape('weights')}; expected ({rows},)")
        self._rows = rows

    def shape(self, name: str) -> Shape:
        return (self._rows, *self._file.shape(name)[1:])

    def read(self, name: str) -> np.ndarray:
        table = np.asarray(self._file.read(name)).astype(np.float32)
        if "mapping" in self._file.names:
            mapping = self._file.read("mapping")
            if not 0 <= mapping.min() <= mapping.max() < len(table):
                raise ValueError(f"{self.path}: mapping has values outside of 0 to {len(table) - 1}")
            table = table[mapping]
        if "weights" in self._file.names:
            table = table * np.asarray(self._file.read("weights"), np.float32)[:, None]
        return table

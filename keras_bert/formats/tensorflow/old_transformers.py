"""What the TensorFlow classes of transformers wrote, until its version 4: the same weights under TensorFlow's names.

    PyTorch           bert.encoder.layer.0.output.dense.weight       [outputs, inputs]
    TensorFlow        bert/encoder/layer_._0/output/dense/kernel:0   [inputs, outputs]

In a file, names of enclosing models come first: `bert/tf_bert_for_masked_lm/bert/encoder/...` in `tf_model.h5`,
`tf_bert_model_1/bert/encoder/...` in a SavedModel, and the name of any model in which a user put the encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.formats.checkpoint import JoinedFile, WeightFile, all_file_names
from keras_bert.formats.families import FAMILIES
from keras_bert.formats.row_translator import FamilyTable

# The last part of a name in TensorFlow -> in PyTorch.
_ENDINGS = {"kernel": "weight", "embeddings": "weight", "gamma": "weight", "beta": "bias"}
_ENCODERS = {family.in_tensorflow for family in FAMILIES.values()} - {""}  # names of their layers
_MOST_LAYERS = 128
# ALBERT's head has two biases in TensorFlow. It adds the decoder's, and never reads the other.
_ALBERT_BIAS = {"predictions.bias": "predictions.decoder.bias"}
UNUSED = r"(.*/)?predictions/bias(:0)?|(total|count)'*"  # names of that, and of the state of Keras's metrics


def is_tensorflow(names: Iterable[str]) -> bool:
    """Checks whether names of weights are TensorFlow's. PyTorch's have dots where these have slashes."""
    return any("/" in name for name in names)


def has_lists(names: Iterable[str]) -> bool:
    """Checks whether names are of classes of transformers, which alone write the layers of a list as `layer_._0`."""
    return any("_._" in name for name in names)


def table_of(table: FamilyTable) -> FamilyTable:
    """Makes the table of TensorFlow's files from that of PyTorch's: kernels are not transposed."""
    heads = {
        head: {path: _ALBERT_BIAS.get(name, name) if isinstance(name, str) else name for path, name in layers.items()}
        for head, layers in table.heads.items()
    }
    return table._replace(heads=heads, storage=table.storage._replace(transposed=()))


def spelled(file: WeightFile, config: BertConfig, table: FamilyTable) -> tuple[WeightFile, dict[str, str]]:
    """Maps names in the table to names in the file that end with them. Returns the file without copies of weights."""
    layers = {layer for name in file.names for layer in name.split("/")}
    if table.prefix.removesuffix(".") not in layers and (others := sorted(_ENCODERS & layers)):
        raise ValueError(
            f"{file.path} has weights of {' and '.join(others)}, but model_type in config.json is {config.family!r}"
        )
    # Layers beyond those of the configuration are found, too: the checkpoint reports them.
    parts = table.parts(replace(config, num_layers=_MOST_LAYERS, num_groups=None, pooler=True))
    known = set().union(*(all_file_names(part) for part in parts.values()))
    most_words = 1 + max(name.count(".") for name in known)  # so that a hostile name of many words takes no time
    spellings: dict[str, str] = {}
    copies: dict[str, list[str]] = {}
    for name in sorted(file.names):
        words = _pytorch_name(name).split(".")[-most_words:]
        ending = next((end for i in range(len(words)) if (end := ".".join(words[i:])) in known), name)
        first = spellings.setdefault(ending, name)
        # Keras stores a variable that two layers share in the groups of both.
        if first != name and first.partition("/")[2] == name.partition("/")[2]:
            copies.setdefault(first, []).append(name)
    return _WithoutCopies(file, copies), spellings


def scopes(names: Iterable[str]) -> set[str]:
    """Finds the scopes of the classes that wrote variables: tf_bert_for_masked_lm_1."""
    return {scope for name in names for scope in name.split("/") if scope.startswith("tf") and "_for_" in scope}


def _pytorch_name(name: str) -> str:
    *layers, last = name.removesuffix(":0").split("/")
    # The layer mlm___cls is PyTorch's cls, and layer_._0 is its layer.0.
    layers = [layer.rpartition("___")[2].replace("_._", ".") for layer in layers]
    return ".".join((*layers, _ENDINGS.get(last, last)))


class _WithoutCopies(JoinedFile):
    """A file of which some arrays are copies of others. Whoever reads one is told if a copy differs."""

    def __init__(self, file: WeightFile, copies: Mapping[str, list[str]]) -> None:
        hidden = {name for names in copies.values() for name in names}
        super().__init__(file.path, {name: (file, name) for name in file.names - hidden})
        self._file = file
        self._copies = copies

    def read(self, name: str) -> np.ndarray:
        value = super().read(name)
        for copy in self._copies.get(name, ()):
            same_shape = self._file.shape(copy) == value.shape
            if not same_shape or not np.array_equal(self._file.read(copy), value, equal_nan=True):
                raise ValueError(f"{self.path}: {copy} differs from {name}, of which it must be a copy")
        return value

"""Infers the configuration of an encoder from the shapes of its weights."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping

from keras_bert.config import BertConfig
from keras_bert.formats.checkpoint import WeightFile
from keras_bert.formats.layout_table import Table
from keras_bert.formats.shapes import Names

_MOST_LAYERS = 128


def names_of_any_size(family: str, table: Table) -> dict[str, Names]:
    """The names of a family's weights, by part, for any number of layers."""
    return table.parts(BertConfig(family=family, num_layers=_MOST_LAYERS, embedding_size=1))


def config_from_shapes(
    family: str, file: WeightFile, table: Table, spellings: Mapping[str, str], activation: str
) -> BertConfig:
    """The configuration of the encoder in a file.

    It assumes dropout 0.1 and an epsilon of 1e-12, as in all of Google's models. If the shapes have no axis for heads,
    it assumes a head size of 64, as in most published sizes, with a warning. `spellings` maps names in the table to
    names in the file. Families with groups of layers are not supported: shapes do not tell the number of layers.

    Raises:
        ValueError: a needed weight is missing.
    """
    names = names_of_any_size(family, table)["encoder"]

    def spelled(ours: str) -> str:
        return spellings.get(names[ours][0], names[ours][0])

    def shape(ours: str, ranks: tuple[int, ...] = (2,)) -> tuple[int, ...]:
        if spelled(ours) not in file.names:
            raise ValueError(f"{file.path} has no {names[ours][0]} and no configuration, so its sizes are unknown")
        found = file.shape(spelled(ours))
        if len(found) not in ranks:
            raise ValueError(f"{file.path}: {names[ours][0]} has shape {found}; expected a matrix")
        return found

    vocab_size, width = shape("embeddings/word/embeddings")
    hidden_size, intermediate_size = shape("block_0/intermediate/kernel")
    kernels = (spelled(f"block_{i}/intermediate/kernel") for i in range(_MOST_LAYERS))
    layers = sum(1 for _ in itertools.takewhile(lambda name: name in file.names, kernels))
    query = shape("block_0/attention/qkv/kernel", ranks=(2, 3))
    if len(query) == 3:
        num_heads = query[1]
    else:
        num_heads = max(1, hidden_size // 64)
        warnings.warn(
            f"{file.path} has no configuration; assuming {num_heads} heads, each {hidden_size // num_heads} wide",
            stacklevel=2,
        )
    positions, types = shape("embeddings/position/embeddings")[0], shape("embeddings/type/embeddings")[0]
    try:
        return BertConfig(
            family=family,
            vocab_size=vocab_size,
            hidden_size=hidden_size,
            num_layers=layers,
            num_heads=num_heads,
            intermediate_size=intermediate_size,
            activation=activation,
            max_positions=positions,
            type_vocab_size=types,
            embedding_size=None if width == hidden_size else width,
        )
    except ValueError as error:
        raise ValueError(f"{file.path}: {error}") from None

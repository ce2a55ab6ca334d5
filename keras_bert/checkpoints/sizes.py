"""The configuration that the shapes of an encoder's weights tell, for files that have no other."""

from __future__ import annotations

import warnings

from keras_bert.checkpoints.checkpoint import WeightFile
from keras_bert.checkpoints.tables import TablesOfNames
from keras_bert.config import BertConfig


def config_from_shapes(
    family: str, file: WeightFile, tables: TablesOfNames, spellings: dict[str, str], activation: str
) -> BertConfig:
    """The configuration of the encoder in a file.

    What shapes do not tell is assumed: dropout 0.1 and an epsilon of 1e-12, as in all of Google's models; and, unless
    the file keeps the heads apart, that a head is 64 wide, as in most published sizes, which a warning says.

    Args:
        family: a key of `families.FAMILIES` without groups of layers, whose number no shape tells.
        file: open.
        tables: the format's names for the family.
        spellings: name in the tables -> name in the file.
        activation: as in BertConfig.

    Raises:
        ValueError: a weight that would tell is missing.
    """

    def shape(name: str) -> tuple[int, ...]:
        actual = spellings.get(name, name)
        if actual not in file.names:
            raise ValueError(f"{file.path} has no {name}, and no configuration: its sizes cannot be known")
        return file.shape(actual)

    def block(name: str, i: int) -> str:
        return tables.block[name][0].format(i=i)

    def rank_2(name: str) -> tuple[int, int]:
        found = shape(name)
        if len(found) != 2:
            raise ValueError(f"{file.path}: {name} has shape {found}, but a matrix is expected")
        return found[0], found[1]

    vocab_size, width = rank_2(tables.embeddings["embeddings/word/embeddings"][0])
    hidden_size, intermediate_size = rank_2(block("intermediate/kernel", 0))
    layers = 0
    while spellings.get(block("intermediate/kernel", layers), block("intermediate/kernel", layers)) in file.names:
        layers += 1
    query = shape(block("attention/qkv/kernel", 0))
    if len(query) == 3:
        num_heads = query[1]
    else:
        num_heads = max(1, hidden_size // 64)
        warnings.warn(
            f"{file.path} has no configuration; assuming {num_heads} heads, each {hidden_size // num_heads} wide",
            stacklevel=2,
        )
    return BertConfig(
        family=family,
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_layers=layers,
        num_heads=num_heads,
        intermediate_size=intermediate_size,
        activation=activation,
        max_positions=shape(tables.embeddings["embeddings/position/embeddings"][0])[0],
        type_vocab_size=shape(tables.embeddings["embeddings/type/embeddings"][0])[0],
        embedding_size=None if width == hidden_size else width,
    )

"""The names of a configuration's weights in a format, from the tables of names of its family."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from keras_bert.checkpoints.layout import Layout
from keras_bert.checkpoints.shapes import Shape
from keras_bert.config import BertConfig
from keras_bert.families import Names


class TablesOfNames(Protocol):
    """What a format calls the weights of a family; `families.Family` has it for Hugging Face's. `{i}`: a layer."""

    embeddings: Names
    block: Names
    pooler: Names
    heads: dict[str, Names]


@dataclass(frozen=True)
class FormatNames:
    """The same for another format."""

    embeddings: Names
    block: Names
    pooler: Names = field(default_factory=dict)
    heads: dict[str, Names] = field(default_factory=dict)


def names_of_parts(config: BertConfig, tables: TablesOfNames) -> dict[str, Names]:
    """The names of the weights of "encoder" (but its pooler), of "pooler", and of each head."""
    absent = [
        part for part, has in (("type", config.type_vocab_size), ("projection", config.embedding_size)) if not has
    ]
    embeddings = {
        ours: theirs
        for ours, theirs in tables.embeddings.items()
        if not any(ours.startswith(f"embeddings/{part}/") for part in absent)
    }
    blocks = {
        f"block_{i}/{ours}": [name.format(i=i) for name in theirs]
        for i in range(config.groups)
        for ours, theirs in tables.block.items()
    }
    return {"encoder": {**embeddings, **blocks}, "pooler": tables.pooler, **tables.heads}


class Tensors:
    """The arrays of a file that is to be written, one after the other.

    Args:
        config: the encoder's.
        tables: the format's names for its family.
        layout: what else the format does.
        weights: by part and by our names, as for `checkpoints.write`.
        full_name: of a part's weight, from the part and the name in the table; by default, that name.

    Raises:
        ValueError: the format has no such head, or two heads have the same names.
    """

    def __init__(
        self,
        config: BertConfig,
        tables: TablesOfNames,
        layout: Layout,
        weights: Mapping[str, Mapping[str, np.ndarray]],
        full_name: Callable[[str, str], str] = lambda part, name: name,
    ) -> None:
        self._config = config
        self._layout = layout
        self._weights = weights
        parts = names_of_parts(config, tables)
        if config.pooler:
            parts["encoder"] = {**parts["encoder"], **parts["pooler"]}
        unknown = sorted(set(weights) - (set(parts) - {"pooler"}))
        if unknown:
            known = ", ".join(tables.heads) or "no heads"
            raise ValueError(f"{config.family} in this format has no {', '.join(unknown)}; it has {known}")
        self._names = {
            part: {ours: [full_name(part, name) for name in theirs] for ours, theirs in parts[part].items()}
            for part in parts
            if part in weights
        }
        self.shapes: dict[str, Shape] = {}
        for part, ours, theirs in self._each():
            for name in theirs:
                if name in self.shapes:
                    raise ValueError(f"two heads of {', '.join(weights)} are both stored as {name}")
                shape = _shape(weights[part], ours)
                self.shapes[name] = layout.stored_shape(ours, name, shape, len(theirs), config)

    def __iter__(self) -> Iterator[tuple[str, np.ndarray]]:
        """Name and value of each, in the order of `shapes`."""
        for part, ours, theirs in self._each():
            yield from self._layout.to_theirs(ours, theirs, self._weights[part][ours], self._config).items()

    def _each(self) -> Iterator[tuple[str, str, list[str]]]:
        for part, names in self._names.items():
            for ours, theirs in names.items():
                yield part, ours, theirs


def _shape(weights: Mapping[str, np.ndarray], name: str) -> Shape:
    """The shape of a weight, without reading it where that can be avoided."""
    shapes = getattr(weights, "shapes", None)
    return tuple(weights[name].shape) if shapes is None else shapes[name]

"""Converts our weights to the arrays of a file."""

from collections.abc import Iterator, Mapping

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.formats.layout_table import Table
from keras_bert.shapes import Shape


class Tensors:
    """The arrays of a file to write, one after the other. `prefix` is the prefix of the encoder's weights.

    Raises:
        ValueError: the layout has no such head, or two heads have the same names of weights; the layout's family has no
            pooler, but the encoder has one; or a head reads the pooler, but the encoder has none.
    """

    def __init__(
        self, config: BertConfig, table: Table, weights: Mapping[str, Mapping[str, np.ndarray]], prefix: str = ""
    ) -> None:
        self._config = config
        self._storage = table.storage
        self._weights = weights
        parts = table.parts(config)
        parts["encoder"] = {ours: [prefix + name for name in theirs] for ours, theirs in parts["encoder"].items()}
        unknown = sorted(set(weights) - set(parts))
        if unknown:
            known = ", ".join(table.heads) or "no heads"
            raise ValueError(f"{config.family} in this format has no {', '.join(unknown)}; it has {known}")
        table.check(config, [part for part in weights if part != "encoder"])
        self._rows = [(part, *row) for part, names in parts.items() if part in weights for row in names.items()]
        self.shapes: dict[str, Shape] = {}
        for part, ours, theirs in self._rows:
            shape = _shape(weights[part], ours)
            stored = table.storage.stored_shapes(ours, shape, len(theirs), config) if theirs else []
            for name, each in zip(theirs, stored, strict=True):
                if name in self.shapes:
                    raise ValueError(f"two heads of {', '.join(weights)} are both stored as {name}")
                self.shapes[name] = each

    def __iter__(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yields names and values, in the order of `shapes`."""
        for part, ours, theirs in self._rows:
            values = self._storage.to_theirs(ours, self._weights[part][ours], len(theirs), self._config)
            yield from zip(theirs, values, strict=True)


def _shape(weights: Mapping[str, np.ndarray], name: str) -> Shape:
    """The shape of a weight, without reading it if possible."""
    shapes = getattr(weights, "shapes", None)
    return tuple(weights[name].shape) if shapes is None else shapes[name]

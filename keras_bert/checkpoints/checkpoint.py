"""Checkpoint: an open file of weights, whatever its format, under our names."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from keras_bert.checkpoints.layout import Layout
from keras_bert.checkpoints.shapes import Shape, shapes
from keras_bert.config import BertConfig
from keras_bert.families import Names


class WeightFile(Protocol):
    """An open file, or several that are one: names and shapes at once, values on demand."""

    path: Path
    names: set[str]

    def shape(self, name: str) -> Shape: ...

    def read(self, name: str) -> np.ndarray: ...  # float32

    def close(self) -> None: ...


@dataclasses.dataclass(frozen=True)
class Table:
    """The names of one format's weights for one configuration.

    Attributes:
        parts: for "encoder", "pooler" and each head, for each of our weights, the file's name or names.
        layout: what else differs.
        extras: what a file may hold beside its weights, such as the optimizer's slots: a pattern of whole names.
        copies: names of weights that must equal another one, if the file has them: a decoder tied to the embeddings.
    """

    parts: dict[str, Names]
    layout: Layout
    extras: str = "(?!)"
    copies: dict[str, str] = dataclasses.field(default_factory=dict)


class Checkpoint:
    """An open checkpoint. Made by `checkpoints.open_checkpoint`; a context manager, which closes the file.

    Args:
        format: of the files: "hugging_face", "tf1", ...
        config: what the configuration file says. Whether there is a pooler, the weights say.
        file: the weights.
        table: the names of the family's weights in this format.
        spellings: name in the table -> name in the file, where they differ.
        preferred: of heads whose weights have the same names, the one that it is.

    Attributes:
        format: as above.
        config: the architecture.
        path: the file that holds the weights, or says which files do.
        heads: the heads that the file has weights of: keys of `families.FAMILIES[...].heads`.
        missing: names of weights that the file should have, and has not.
        unexpected: names in the file that belong to none of these parts.
    """

    def __init__(
        self,
        format: str,
        config: BertConfig,
        file: WeightFile,
        table: Table,
        spellings: dict[str, str] | None = None,
        preferred: frozenset[str] = frozenset(),
    ) -> None:
        self.format = format
        self.path = file.path
        self._file = file
        self._table = table
        self._spellings = {name: name for name in file.names} | (spellings or {})
        parts = {part: self._names_of(part) for part in table.parts}
        has_pooler = bool(parts.get("pooler", set()) & self._spellings.keys())
        self.config = dataclasses.replace(config, pooler=has_pooler)
        heads = {part: names for part, names in parts.items() if part not in ("encoder", "pooler")}
        self.heads = frozenset(_heads_in(heads, self._spellings.keys(), preferred))
        expected = set().union(*(parts[part] for part in ("encoder", "pooler") if part in parts and self._has(part)))
        expected = expected.union(*(parts[head] for head in self.heads))
        self.missing = sorted(expected - self._spellings.keys())
        used = {self._spellings[name] for name in expected | table.copies.keys() if name in self._spellings}
        self.unexpected = sorted(name for name in file.names - used if not re.fullmatch(table.extras, name))

    def read(self, part: str, shapes: Mapping[str, Shape] | None = None) -> dict[str, np.ndarray]:
        """All weights of one part, as `weights` gives them, in memory."""
        return dict(self.weights(part, shapes).items())

    def weights(self, part: str, shapes: Mapping[str, Shape] | None = None) -> Weights:
        """The weights of one part, each of which is read when it is asked for.

        Args:
            part: "encoder" (and its pooler), or a head.
            shapes: what they must be, by our names; by default, what the configuration asks for.

        Returns:
            A mapping from our names, such as "block_0/attention/qkv/kernel", to float32 arrays.

        Raises:
            ValueError: a weight is missing or of another shape (all of them are named), or the family has no such part.
        """
        names = self._names(part)
        expected = dict(self._shapes(part) if shapes is None else shapes)
        if expected.keys() - names.keys():
            absent = ", ".join(sorted(expected.keys() - names.keys()))
            raise ValueError(f"{self.path}: a {self.config.family} in this format has no {absent}")
        self._check(names, expected)
        self._check_copies(part)
        return Weights(self, names, expected)

    def shapes(self, part: str) -> dict[str, Shape]:
        """The shape of each weight of a part, by our names, as the configuration asks for them.

        How many labels a classifier has, only the file says: `shapes("sequence")["logits/bias"]` is `(labels,)`.
        """
        return self._shapes(part)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _names(self, part: str) -> Names:
        if part not in self._table.parts or part == "pooler":
            known = ", ".join(name for name in self._table.parts if name != "pooler")
            raise ValueError(f"{self.path}: {self.config.family} in this format has no {part!r}; it may have {known}")
        names = self._table.parts[part]
        if part == "encoder" and self.config.pooler:
            names = {**names, **self._table.parts["pooler"]}
        return {ours: [self._spellings.get(name, name) for name in theirs] for ours, theirs in names.items()}

    def _names_of(self, part: str) -> set[str]:
        return {name for theirs in self._table.parts[part].values() for name in theirs}

    def _has(self, part: str) -> bool:
        return part != "pooler" or self.config.pooler

    def _shapes(self, part: str) -> dict[str, Shape]:
        names = self._names(part)
        bias = names.get("logits/bias", [""])[0]
        labels = self._file.shape(bias)[-1] if bias in self._file.names and self._file.shape(bias) else None
        return shapes(self.config, part, names, labels)

    def _check(self, names: Names, expected: Mapping[str, Shape]) -> None:
        problems = []
        for ours, theirs in names.items():
            for name in theirs:
                shape = self._table.layout.stored_shape(ours, name, expected[ours], len(theirs), self.config)
                if name not in self._file.names:
                    problems.append(f"{name} is missing")
                elif self._file.shape(name) != shape:
                    problems.append(
                        f"{name} has shape {self._file.shape(name)}, but the configuration asks for {shape}"
                    )
        if problems:
            more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
            raise ValueError(f"{self.path}: {'; '.join(problems[:5])}{more}")

    def _check_copies(self, part: str) -> None:
        """A decoder of its own has no place in our masked-language head: it would be dropped without a word."""
        for copy, original in self._table.copies.items() if part == "masked_lm" else ():
            names = [self._spellings.get(name, name) for name in (copy, original)]
            if self._file.names.issuperset(names) and not _equal(*(self._file.read(name) for name in names)):
                raise ValueError(
                    f"{self.path}: {names[0]} differs from {names[1]}; only a decoder that shares the weights of the "
                    "embeddings is supported"
                )

    def _read(self, ours: str, theirs: list[str], shape: Shape) -> np.ndarray:
        values = {name: self._file.read(name) for name in theirs}
        for name, value in values.items():
            bad = int(np.count_nonzero(~np.isfinite(value)))
            if bad:
                message = f"{self.path}: {name} holds {bad:,} values that are NaN or infinite, of {value.size:,}"
                warnings.warn(message, stacklevel=2)
        return self._table.layout.to_ours(ours, values, shape)


class Weights(Mapping[str, np.ndarray]):
    """Weights by our names, each read from its file when it is asked for: as many in memory as somebody holds.

    Attributes:
        shapes: the shape of each.
    """

    def __init__(self, checkpoint: Checkpoint, names: Names, shapes: dict[str, Shape]) -> None:
        self._checkpoint = checkpoint
        self._names = names
        self.shapes = shapes

    def __getitem__(self, name: str) -> np.ndarray:
        return self._checkpoint._read(name, self._names[name], self.shapes[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _heads_in(heads: dict[str, set[str]], present: Any, preferred: frozenset[str]) -> list[str]:
    """Which heads the names in a file make up. The names of one may be a part of another's, or the same."""
    whole = [head for head, names in heads.items() if names <= present]
    found: list[str] = []
    for head in sorted(whole, key=lambda head: (head not in preferred, -len(heads[head]))):
        if not any(heads[head] <= heads[other] for other in found):
            found.append(head)
    explained = set().union(*(heads[head] for head in found))
    # What is left over belongs to a head that lacks something.
    found += [head for head, names in heads.items() if head not in whole and names & (present - explained)]
    return found


def _equal(first: np.ndarray, second: np.ndarray) -> bool:
    return first.shape == second.shape and np.array_equal(first, second, equal_nan=True)

"""Checkpoint: an open file of weights in any format, read by this package's names."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from keras_bert import files
from keras_bert.config import BertConfig
from keras_bert.counted import listed
from keras_bert.formats.row_translator import FamilyTable, Names
from keras_bert.formats.storage import fits, from_file, stored_shapes, to_file
from keras_bert.shapes import Shape, shapes

# A file may need at most this many bytes in memory per byte on disk. Compressed and float16 files grow when they are
# read; a file that claims to grow more is damaged or hostile.
_MAX_EXPANSION = 10


class WeightFile(Protocol):
    """One or several open files. Names and shapes are read when they are opened, values on demand."""

    @property
    def path(self) -> Path: ...

    @property
    def names(self) -> set[str]: ...

    @property
    def size(self) -> int | None: ...  # bytes on disk; None if the values are missing

    def shape(self, name: str) -> Shape: ...

    def read(self, name: str) -> np.ndarray: ...  # as stored

    def close(self) -> None: ...


class Checkpoint:
    """An open checkpoint, from `formats.open_checkpoint`. It is a context manager, which closes the file.

    Attributes:
        format: the files' format: "hugging_face", "tf1", ...
        config: the configuration, with `pooler` from the weights.
        path: the file of the weights, or the index of several files.
        heads: the heads with weights in the file: keys of `formats.FAMILIES[...].heads`.
        missing: names of weights that the file lacks.
        unexpected: names in the file that belong to no part.
        extras: names in the file of arrays that are no weights, such as the optimizer's state.
        unused: names in `unexpected` that belong to an encoder, such as a layer beyond `config.num_layers`.
        entries: entries of Hugging Face's `config.json` about labels and task, if the weights' own file implies them.
        remarks: what else a user should know of the file, a line each.
    """

    def __init__(
        self,
        format: str,
        config: BertConfig,  # its `pooler` is ignored
        file: WeightFile,
        table: FamilyTable,
        spellings: Mapping[str, str] | None = None,  # name in the table -> name in the file, where they differ
        preferred: frozenset[str] = frozenset(),  # heads to choose if several have the same names of weights
        extras: str = "(?!)",  # a regular expression of names; the default matches nothing
        # Name of a weight -> that of the weight that it must equal, such as a decoder tied to the embeddings.
        copies: Mapping[str, str] | None = None,
    ) -> None:
        self.format = format
        self.path = file.path
        self.entries: Mapping[str, Any] = {}
        self.remarks: list[str] = []
        self._file = file
        self._storage = table.storage
        self._spellings = {name: name for name in file.names} | dict(spellings or {})
        self._copies = copies or {}
        self._parts = table.parts(dataclasses.replace(config, pooler=True))
        pooler = {name: self._parts["encoder"].pop(name, []) for name in ("pooler/kernel", "pooler/bias")}
        has_pooler = not self._spellings.keys().isdisjoint(all_file_names(pooler))
        self._parts["encoder"] |= pooler if has_pooler else {}
        self.config = dataclasses.replace(config, pooler=has_pooler)
        heads = {part: all_file_names(names) for part, names in self._parts.items()}
        encoder = heads.pop("encoder")
        self.heads = frozenset(_heads_in(heads, self._spellings.keys(), preferred))
        expected = encoder.union(*(heads[head] for head in self.heads))
        self.missing = sorted(expected - self._spellings.keys())
        used = {self._spellings[name] for name in expected | self._copies.keys() if name in self._spellings}
        others = sorted(file.names - used)
        self.unexpected = [name for name in others if not re.fullmatch(extras, name)]
        self.extras = [name for name in others if re.fullmatch(extras, name)]
        table_names = {name: table_name for table_name, name in self._spellings.items()}
        scopes = tuple(table.scopes)
        self.unused = [
            name for name in self.unexpected if table_names[name].startswith(scopes) or name.startswith(scopes)
        ]

    def add_head(self, head: str, names: Names, file: WeightFile, entries: Mapping[str, Any]) -> None:
        """Adds a head that only this file has, under these names; `file` replaces the weights, and has them all."""
        same = {each for each in self.heads if not all_file_names(names).isdisjoint(all_file_names(self.names(each)))}
        self._file, self.entries = file, entries
        self._parts[head] = names
        self.heads = self.heads - same | {head}
        self.unexpected = sorted({*self.unexpected} - all_file_names(names))

    @property
    def file(self) -> WeightFile:
        """The open weights, by their names in the file."""
        return self._file

    def read(self, part: str, shapes: Mapping[str, Shape] | None = None) -> dict[str, np.ndarray]:
        """Reads all weights of one part into memory. Arguments and errors are those of `weights`."""
        return dict(self.weights(part, shapes).items())

    def weights(self, part: str, shapes: Mapping[str, Shape] | None = None) -> LazyWeights:
        """Checks the names and shapes of one part's weights, and returns the weights, each to be read on demand.

        Args:
            part: "encoder" (and its pooler), or a head.
            shapes: name -> expected shape; default: the shapes of the configuration.

        Returns:
            A mapping from this package's names, such as "block_0/attention/qkv/kernel", to float32 arrays.

        Raises:
            ValueError: weights are missing or have another shape (the message names them), or there is no such part.
        """
        names = self.names(part)
        expected = dict(self.shapes(part) if shapes is None else shapes)
        if expected.keys() - names.keys():
            absent = listed(sorted(expected.keys() - names.keys()))
            raise ValueError(f"{self.path}: a {self.config.family} in this format has no {absent}")
        self._check(names, expected)
        num_bytes = 4 * sum(map(math.prod, expected.values()))
        if self._file.size is not None and num_bytes > _MAX_EXPANSION * self._file.size:
            raise ValueError(
                f"{self.path}: the weights of this configuration take {num_bytes:,} bytes, and cannot be in a file of "
                f"{self._file.size:,} bytes"
            )
        self._check_copies(part)
        return LazyWeights(self, names, expected)

    def warn_of_unused(self) -> None:
        """Warns of the encoder's weights in the file for which the configuration has no place."""
        if self.unused:
            warnings.warn(
                f"{self.path} has weights that are ignored, because the encoder of its configuration, "
                f"with num_layers {self.config.num_layers}, has no place for them: {listed(self.unused, 5)}",
                stacklevel=3,
            )

    def shapes(self, part: str) -> dict[str, Shape]:
        """Computes the shape of each weight of a part, by this package's names, from the configuration.

        Only the number of labels comes from the file: `shapes("sequence")["logits/bias"]` is `(labels,)`.
        """
        names = self.names(part)
        bias = names.get("logits/bias", [""])[0]
        labels = self._file.shape(bias)[-1] if bias in self._file.names and self._file.shape(bias) else None
        shapes_of_part = shapes(self.config, part, labels)
        return {name: shapes_of_part[name] for name in names}

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def names(self, part: str) -> Names:
        """Maps this package's names of a part's weights to those in the file, whether it has them or not."""
        if part not in self._parts:
            known = ", ".join(self._parts)
            raise ValueError(f"{self.path}: {self.config.family} in this format has no {part!r}; it may have {known}")
        names = self._parts[part].items()
        return {
            weight_name: [self._spellings.get(name, name) for name in file_names] for weight_name, file_names in names
        }

    def _check(self, names: Names, expected: Mapping[str, Shape]) -> None:
        problems = []
        for weight_name, file_names in names.items():
            stored = stored_shapes(self._storage, weight_name, expected[weight_name], len(file_names), self.config)
            for name, shape in zip(file_names, stored, strict=True):
                if name not in self._file.names:
                    problems.append(f"{name} is missing")
                elif not fits(self._storage, weight_name, self._file.shape(name), shape):
                    problems.append(
                        f"{name} has shape {self._file.shape(name)}, but the configuration asks for {shape}"
                    )
        if problems:
            more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
            raise ValueError(f"{self.path}: {'; '.join(problems[:5])}{more}")

    def _check_copies(self, part: str) -> None:
        """Raises ValueError for a decoder with its own weights, which the masked language modeling head would drop."""
        for copy, original in self._copies.items() if part == "masked_lm" else ():
            names = [self._spellings.get(name, name) for name in (copy, original)]
            if not self._file.names.issuperset(names):
                continue
            if not np.array_equal(*(self._file.read(name) for name in names), equal_nan=True):
                raise ValueError(
                    f"{self.path}: {names[0]} differs from {names[1]}; only a decoder that shares the weights of the "
                    "embeddings is supported"
                )

    def _read(self, weight_name: str, file_names: list[str], shape: Shape) -> np.ndarray:
        return from_file(
            self._storage, weight_name, [self._read_float32(name) for name in file_names], shape, self.config
        )

    def _read_float32(self, name: str) -> np.ndarray:
        """Reads an array of any float type as float32. Warns of values that are NaN or infinite."""
        value = np.asarray(self._file.read(name))
        if not np.issubdtype(value.dtype, np.floating) and value.dtype != ml_dtypes.bfloat16:
            raise ValueError(f"{self.path}: {name} is {value.dtype}, but a weight must be a float tensor")
        # A sum is faster than a look at each value, and one NaN makes it NaN. A sum of finite values may overflow; then
        # the count below is 0, and there is no warning.
        with np.errstate(over="ignore", invalid="ignore"):
            seems_finite = np.isfinite(np.sum(value, dtype=np.float32))
        num_not_finite = 0 if seems_finite else int(np.count_nonzero(~np.isfinite(value)))
        if num_not_finite:
            message = f"{self.path}: {name} holds values that are NaN or infinite: {num_not_finite:,} of {value.size:,}"
            warnings.warn(message, stacklevel=2)
        return value.astype(np.float32, copy=False)


class LazyWeights(Mapping[str, np.ndarray]):
    """Weights by this package's names. Each is read on demand and not kept in memory; `shapes` needs no reading."""

    def __init__(self, checkpoint: Checkpoint, names: Names, shapes: dict[str, Shape]) -> None:
        self._checkpoint = checkpoint
        self._names = names
        self.shapes = shapes
        self.on_read: Callable[[], object] = lambda: None  # called for each weight

    def __getitem__(self, name: str) -> np.ndarray:
        self.on_read()
        return self._checkpoint._read(name, self._names[name], self.shapes[name])

    def __contains__(self, name: object) -> bool:  # Mapping's own method reads the weight
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def all_file_names(names: Names) -> set[str]:
    return {name for file_names in names.values() for name in file_names}


def _heads_in(heads: dict[str, set[str]], present: Set[str], preferred: frozenset[str]) -> list[str]:
    """Finds the complete heads that no other contains, `preferred` first; then those of which weights are left over."""
    complete = [head for head, names in heads.items() if names <= present]
    chosen: list[str] = []
    for head in sorted(complete, key=lambda head: (head not in preferred, -len(heads[head]))):
        if not any(heads[head] <= heads[other] for other in chosen):
            chosen.append(head)
    explained = set().union(*(heads[head] for head in chosen))
    # Names that no complete head explains belong to incomplete heads.
    incomplete = [head for head, names in heads.items() if head not in complete and names & (present - explained)]
    return chosen + ([head for head in incomplete if head in preferred] or incomplete)


# -- Several files of weights that are read as one, such as shards with an index.


class JoinedFile:
    """Open files that are read as one. `places`: name -> an open file, and the array's name in it."""

    def __init__(self, path: Path, places: Mapping[str, tuple[WeightFile, str]]) -> None:
        self.path = path
        self.names = set(places)
        self._places = places
        self._files = {id(file): file for file, _ in places.values()}.values()
        self.size = sum(file.size or 0 for file in self._files)

    def shape(self, name: str) -> Shape:
        file, inside = self._places[name]
        return file.shape(inside)

    def read(self, name: str) -> np.ndarray:
        file, inside = self._places[name]
        return file.read(inside)

    def close(self) -> None:
        for file in self._files:
            file.close()


def open_shards(path: Path, open_shard: Callable[[Path], WeightFile]) -> JoinedFile:
    """Opens the shards of an index, a JSON file whose "weight_map" maps names of tensors to files beside it."""
    shard_of = files.read_json(path, {"weight_map": {str: str}})["weight_map"]
    shards: dict[str, WeightFile] = {}
    with ExitStack() as open_files:
        for shard in sorted(set(shard_of.values())):
            shards[shard] = open_shard(_shard_path(path, shard))
            open_files.callback(shards[shard].close)
        places: dict[str, tuple[WeightFile, str]] = {}
        for name, shard in shard_of.items():
            # In the shards of TensorFlow's classes, names lack the class's: "bert/..." for "tf_bert_model/bert/...".
            inside = name if name in shards[shard].names else name.partition("/")[2]
            if inside not in shards[shard].names:
                raise ValueError(f"{path} says that {name} is in {shard}, but it is not")
            places[name] = shards[shard], inside
        open_files.pop_all()
    return JoinedFile(path, places)


def _shard_path(index: Path, name: str) -> Path:
    """Returns the path of a shard. An index is not trusted: a shard must be in the directory of the index."""
    if name in ("", ".", "..") or any(separator in name for separator in ("/", "\\", "\0")):
        raise ValueError(f"{index} names the shard {name!r}; a shard must be a file beside its index, without a path")
    path = index.parent / name
    if files.leads_outside(path, index.parent):
        raise ValueError(f"{index} names the shard {name}, which is a link to a file outside of its directory")
    if not path.is_file():
        raise FileNotFoundError(f"{index} names the shard {name}, which is missing; fetch it as well")
    return path


# -- A configuration that is inferred from the shapes of the weights.

_MOST_LAYERS = 128


def names_of_any_size(family: str, table: FamilyTable) -> dict[str, Names]:
    """Lists the names of a family's weights by part, for up to 128 layers."""
    return table.parts(BertConfig(family=family, num_layers=_MOST_LAYERS, embedding_size=1))


def config_from_shapes(
    family: str, file: WeightFile, table: FamilyTable, spellings: Mapping[str, str], activation: str
) -> BertConfig:
    """Infers an encoder's configuration from shapes: no groups, Google's dropout and epsilon, 64 for a head."""
    names = names_of_any_size(family, table)["encoder"]

    def file_name(weight_name: str) -> str:
        return spellings.get(names[weight_name][0], names[weight_name][0])

    def shape(weight_name: str, ranks: tuple[int, ...] = (2,)) -> tuple[int, ...]:
        if file_name(weight_name) not in file.names:
            raise ValueError(
                f"{file.path} has no {names[weight_name][0]} and no configuration, so its sizes are unknown"
            )
        dimensions = file.shape(file_name(weight_name))
        if len(dimensions) not in ranks:
            raise ValueError(f"{file.path}: {names[weight_name][0]} has shape {dimensions}; expected a matrix")
        return dimensions

    vocab_size, width = shape("embeddings/word/embeddings")
    hidden_size, intermediate_size = shape("block_0/intermediate/kernel")
    kernels = (file_name(f"block_{i}/intermediate/kernel") for i in range(_MOST_LAYERS))
    layers = sum(1 for _ in itertools.takewhile(lambda name: name in file.names, kernels))
    query = shape("block_0/attention/qkv/kernel", ranks=(2, 3))
    if len(query) == 3:
        num_heads = query[1]
    else:
        num_heads = max(1, hidden_size // 64)
        warnings.warn(
            f"{file.path} has no configuration; assuming heads {hidden_size // num_heads} wide: {num_heads}",
            stacklevel=2,
        )
    positions, types = shape("embeddings/position/embeddings")[0], shape("embeddings/type/embeddings")[0]
    with files.as_value_error(file.path, str(file.path), ValueError):
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


class Tensors:
    """The arrays of a file to write, computed one by one. `prefix` begins the names of the encoder's weights."""

    def __init__(
        self, config: BertConfig, table: FamilyTable, weights: Mapping[str, Mapping[str, np.ndarray]], prefix: str = ""
    ) -> None:
        self._config = config
        self._storage = table.storage
        self._weights = weights
        parts = table.parts(config)
        parts["encoder"] = {
            weight_name: [prefix + name for name in file_names] for weight_name, file_names in parts["encoder"].items()
        }
        unknown = sorted(set(weights) - set(parts))
        if unknown:
            known = ", ".join(table.heads) or "no heads"
            raise ValueError(f"{config.family} in this format has no {', '.join(unknown)}; it has {known}")
        table.check(config, [part for part in weights if part != "encoder"])
        self._rows = [(part, *row) for part, names in parts.items() if part in weights for row in names.items()]
        self.shapes: dict[str, Shape] = {}
        for part, weight_name, file_names in self._rows:
            shapes_of_part = getattr(weights[part], "shapes", None)  # lazy weights know them without reading the values
            shape = tuple(weights[part][weight_name].shape) if shapes_of_part is None else shapes_of_part[weight_name]
            stored = stored_shapes(table.storage, weight_name, shape, len(file_names), config)
            for name, stored_shape in zip(file_names, stored, strict=True):
                if name in self.shapes:
                    raise ValueError(f"two heads of {', '.join(weights)} are both stored as {name}")
                self.shapes[name] = stored_shape

    def __iter__(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yields names and values, in the order of `shapes`."""
        for part, weight_name, file_names in self._rows:
            value = self._weights[part][weight_name]
            values = to_file(self._storage, weight_name, value, len(file_names), self._config)
            yield from zip(file_names, values, strict=True)

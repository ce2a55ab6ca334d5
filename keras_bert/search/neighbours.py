"""Nearest neighbours by dot product, with Faiss: exact for few vectors, approximate for many or by their signs."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np

from keras_bert import files
from keras_bert.extras import import_extra
from keras_bert.search.database import NAME, Database, Settings

# Up to this number of vectors, a query is compared with all of them, in some hundredths of a second. A larger index has
# a graph of neighbours (HNSW, Malkov and Yashunin 2018); a search of it misses about one hit in a hundred.
EXACT_UP_TO = 100_000
_LINKS = 32  # links per vector in the graph
_SEARCHED_CANDIDATES = 200  # candidates in a search of the graph
_OVERSAMPLING = 32  # vectors with the nearest signs, for each hit, among which int8 finds the hits
_MARGIN = 0.1  # added to the int8 range of each coordinate, for later vectors
_READ_BYTES = 2**24  # bytes to read at a time
_NAME = "neighbours-{}.faiss"
_MOST_TIMES = 64  # of the size of the database, which holds the vectors and texts, too
_WITH_CHECKSUM = 0x2144DF1C  # the CRC-32 of whatever ends with its CRC-32


class Neighbours:
    """Vectors to search by dot product, in a Faiss index, which a file can hold."""

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def empty(cls, width: int, size: int, extremes: np.ndarray | None = None, by_signs: bool = False) -> Neighbours:
        """Makes an index for `size` vectors; int8 if given the lowest and highest coordinates, `[2, width]`."""
        # With `by_signs`, a search reads a bit of each coordinate, and computes only the similarities of those vectors
        # whose signs differ least from the query's (Yamada et al. 2021, "Efficient Passage Retrieval with Hashing").
        faiss = import_faiss()
        graph = f"HNSW{_LINKS}," if size > EXACT_UP_TO and not by_signs else ""
        storage = "Flat" if extremes is None else "SQ8"
        index = faiss.index_factory(width, graph + storage, faiss.METRIC_INNER_PRODUCT)
        if extremes is not None:
            margin = _MARGIN * (extremes[1] - extremes[0])
            index.train(np.stack([extremes[0] - margin, extremes[1] + margin]))
        if by_signs:
            signs = faiss.IndexLSH(width, width, False)  # without a rotation: a bit is a sign
            signs.metric_type = index.metric_type  # as IndexRefine asks; bits have only one distance
            for part in (signs, index):
                part.this.disown()
            index = faiss.IndexRefine(signs, index)
            index.own_fields = index.own_refine_index = True
        return cls(index)

    def __len__(self) -> int:
        return self._index.ntotal

    @property
    def is_exact(self) -> bool:
        return not (self.has_graph or self._is_by_signs)

    @property
    def has_graph(self) -> bool:
        return hasattr(self._index, "hnsw")

    @property
    def _is_by_signs(self) -> bool:
        return hasattr(self._index, "refine_index")

    def holds(self, extremes: np.ndarray | None) -> bool:
        """Checks whether vectors with these extremes can be added without clipping: always, if not int8."""
        if extremes is None:
            return True
        lowest, size = import_faiss().vector_to_array(self._storage.sq.trained).reshape(2, -1)
        return bool((extremes[0] >= lowest).all() and (extremes[1] <= lowest + size).all())

    @property
    def _storage(self) -> Any:
        """The part of the Faiss index that holds the vectors."""
        if self.is_exact:
            return self._index
        return import_faiss().downcast_index(self._index.storage if self.has_graph else self._index.refine_index)

    def add(self, vectors: np.ndarray) -> None:
        """Adds vectors, float32 `[vectors, width]`, under the next numbers."""
        self._index.add(np.ascontiguousarray(vectors, np.float32))

    def vectors(self, numbers: np.ndarray | list[int]) -> np.ndarray:
        """Reads the vectors of these numbers, float32 `[numbers, width]`; vectors stored as int8 are rounded."""
        return self._storage.reconstruct_batch(np.ascontiguousarray(numbers, np.int64))

    def nearest(
        self, queries: np.ndarray, count: int, among: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Finds the highest products, and numbers, `[queries, count]`, -1 for none; compares each of `among`."""
        faiss, index, settings = import_faiss(), self._index, None
        queries, count = np.ascontiguousarray(queries, np.float32), min(count, len(self))
        if among is not None:
            is_chosen = np.zeros(len(self), bool)
            is_chosen[among] = True
            bits = np.packbits(is_chosen, bitorder="little")
            settings = faiss.SearchParameters(sel=faiss.IDSelectorBitmap(bits))
            index = self._storage
        elif self._is_by_signs and _OVERSAMPLING * count < len(self):
            settings = faiss.IndexRefineSearchParameters(k_factor=_OVERSAMPLING)
        elif self._is_by_signs:  # all vectors are among those with the nearest signs
            index = self._storage
        elif self.has_graph:
            settings = faiss.SearchParametersHNSW(efSearch=max(_SEARCHED_CANDIDATES, 2 * count))
        products, numbers = index.search(queries, count, params=settings)
        order = np.lexsort((numbers, -products), axis=-1)  # on a tie, the first
        return np.take_along_axis(products, order, axis=-1), np.take_along_axis(numbers, order, axis=-1)

    # -- The file of a version of an index: a cache, which is made again from the vectors if it is missing or damaged.

    def write(self, directory: Path, version: int) -> None:
        """Writes a file, with its checksum at the end. Raises OSError if it cannot be written."""
        faiss = import_faiss()
        with files.written_whole(directory / _NAME.format(version)) as path:
            with open(path, "wb") as file:  # Faiss's own errors give no reason
                faiss.write_index(self._index, faiss.PyCallbackIOWriter(file.write))
            with open(path, "r+b") as file:
                file.write(_compute_checksum(file).to_bytes(4, "little"))

    @classmethod
    def open(cls, directory: Path, settings: Settings, mapped: bool = True) -> Neighbours | None:
        """Opens the file of a version, if it is there; if `mapped`, vectors are read on demand and cannot be added."""
        faiss = import_faiss()
        try:
            path = directory / _NAME.format(settings.version)
            size = sum(each.stat().st_size for each in directory.glob(f"{NAME}*"))  # with what is not merged yet
            files.check_regular(path, _MOST_TIMES * size)
            with open(path, "rb") as file:
                if _compute_checksum(file) != _WITH_CHECKSUM:
                    return None
                file.seek(0)
                name = f"/dev/fd/{file.fileno()}"  # Faiss takes no path that is not UTF-8
                index = faiss.read_index(name, faiss.IO_FLAG_MMAP_IFC if mapped else 0)
        except (OSError, RuntimeError, ValueError):  # missing, no file, or a writer has just removed it
            return None
        return cls(index) if index.d == settings.width else None


def make_neighbours(index: Database, settings: Settings, base: Neighbours | None = None) -> Neighbours:
    """Makes the neighbours of all rows; adds to `base`, those of the first rows, where that gives the same."""

    def extremes(first: int) -> np.ndarray | None:
        """Computes the lowest and the highest value of each coordinate, float32 `[2, width]`; None: none is needed."""
        if settings.stored == "float32":
            return None
        lowest = np.full(settings.width, np.inf, np.float32)
        highest = -lowest
        for vectors in index.vectors_of_rows(settings.width, first):
            np.minimum(lowest, vectors.min(axis=0), out=lowest)
            np.maximum(highest, vectors.max(axis=0), out=highest)
        return np.stack([lowest, highest])

    by_signs = settings.stored == "binary"
    has_graph = len(index) > EXACT_UP_TO and not by_signs
    if base is None or base.has_graph != has_graph or not base.holds(extremes(len(base))):
        base = Neighbours.empty(settings.width, len(index), extremes(0), by_signs)
    for block in index.vectors_of_rows(settings.width, len(base)):
        base.add(block)
    return base


def remove_other_versions(directory: Path, version: int) -> None:
    """Removes the files of other versions, and those of killed processes."""
    for pattern in (_NAME.format("*"), f".{_NAME.format('*')}.*"):
        for path in directory.glob(pattern):
            if path.name != _NAME.format(version):
                path.unlink(missing_ok=True)


def import_faiss() -> ModuleType:
    """Imports Faiss. Raises ImportError, with the command to install it, if it is missing."""
    return import_extra("faiss", "faiss-cpu", "search")


def _compute_checksum(file: BinaryIO) -> int:
    """Computes the CRC-32 of a file, from its position to its end."""
    checksum = 0
    while part := file.read(_READ_BYTES):
        checksum = zlib.crc32(part, checksum)
    return checksum


# -- Finds the most similar pairs of many vectors, without a matrix of all pairs.

_ROWS_AT_A_TIME = 256  # rows to compute at a time


def similar_pairs(
    vectors: np.ndarray, top: int | None = None, threshold: float = -np.inf
) -> Iterator[tuple[int, int, float]]:
    """Yields the `top` pairs of vectors, highest dot product first, or all from `threshold`, in the vectors' order."""
    best = np.zeros((0, 2), np.int64), np.zeros(0, np.float32)
    for start in range(0, len(vectors), _ROWS_AT_A_TIME):
        products = vectors[start : start + _ROWS_AT_A_TIME] @ vectors[start:].T  # [rows, n - start]
        first, second = np.nonzero(np.triu(products >= threshold, k=1))
        values = products[first, second]
        pairs = np.stack([first, second], axis=1) + start
        if top is None:
            yield from _list_pairs(pairs, values)
            continue
        pairs, values = np.concatenate([best[0], pairs]), np.concatenate([best[1], values])
        chosen = np.argsort(-values, kind="stable")[:top]
        best = pairs[chosen], values[chosen]
        if len(chosen) == top:
            threshold = max(threshold, float(best[1][-1]))
    yield from _list_pairs(*best)


def _list_pairs(pairs: np.ndarray, values: np.ndarray) -> Iterator[tuple[int, int, float]]:
    for (first, second), value in zip(pairs.tolist(), values.tolist(), strict=True):
        yield first, second, value

"""Nearest neighbours by dot product, with Faiss: exact for few vectors, approximate for many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from keras_bert.extras import import_extra

# Up to this number of vectors, a query is compared with all of them, in some hundredths of a second. A larger index has
# a graph of neighbours (HNSW, Malkov and Yashunin 2018); a search of it misses about one hit in a hundred.
EXACT_UP_TO = 100_000
_LINKS = 32  # links per vector in the graph
_SEARCHED_CANDIDATES = 200  # candidates in a search of the graph
_ROWS = 16384  # vectors to compare at a time
_MARGIN = 0.1  # added to the int8 range of each coordinate, for later vectors


class Neighbours:
    """Vectors to search by dot product, in a Faiss index, which a file can hold."""

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def empty(
        cls,
        width: int,
        size: int,  # the number of vectors that will be added
        stored: str = "float32",  # int8 changes dot products by less than 0.01
        extremes: np.ndarray | None = None,  # for int8: the lowest and highest coordinates of these, `[2, width]`
        like: Neighbours | None = None,  # for int8: its range is kept where it suffices: no vector is rounded twice
    ) -> Neighbours:
        faiss = _import_faiss()
        metric, eight_bits = faiss.METRIC_INNER_PRODUCT, faiss.ScalarQuantizer.QT_8bit
        is_exact = size <= EXACT_UP_TO
        if stored == "float32":
            return cls(faiss.IndexFlatIP(width) if is_exact else faiss.IndexHNSWFlat(width, _LINKS, metric))
        index = (
            faiss.IndexScalarQuantizer(width, eight_bits, metric)
            if is_exact
            else faiss.IndexHNSWSQ(width, eight_bits, _LINKS, metric)
        )
        assert extremes is not None  # for int8
        index.train(_compute_range(extremes, like._read_range() if like else None))
        return cls(index)

    @classmethod
    def open(cls, path: Path, mapped: bool = True) -> Neighbours:
        """Opens a file; if it is `mapped`, vectors are read on demand, and cannot be added."""
        faiss = _import_faiss()
        try:
            return cls(faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC if mapped else 0))
        except RuntimeError:
            raise ValueError(f"{path} is damaged; remove its directory and index the corpus again") from None

    def write(self, path: Path) -> None:
        """Writes the file for `open`. Raises OSError if it cannot be written."""
        with open(path, "wb") as file:  # Faiss's own errors give no reason
            _import_faiss().write_index(self._index, _import_faiss().PyCallbackIOWriter(file.write))

    def __len__(self) -> int:
        return self._index.ntotal

    @property
    def width(self) -> int:
        return self._index.d

    @property
    def is_exact(self) -> bool:
        return not hasattr(self._index, "hnsw")

    def holds(self, extremes: np.ndarray) -> bool:
        """Checks whether vectors with these extremes, as for `empty`, can be added without clipping."""
        if _is_float32(self._index):
            return True
        (low, high), (lowest, highest) = extremes, self._read_range()
        return bool((low >= lowest).all() and (high <= highest).all())

    def _read_range(self) -> np.ndarray:
        """Reads the int8 range of each coordinate, float32 `[2, width]`."""
        lowest, size = _import_faiss().vector_to_array(_get_storage(self._index).sq.trained).reshape(2, self.width)
        return np.stack([lowest, lowest + size])

    def add(self, vectors: np.ndarray) -> None:
        """Adds vectors, float32 `[vectors, width]`, under the next numbers."""
        self._index.add(np.ascontiguousarray(vectors, np.float32))

    def vectors(self, numbers: np.ndarray) -> np.ndarray:
        """Reads the vectors of these numbers, float32 `[numbers, width]`; vectors stored as int8 are rounded."""
        return self._index.reconstruct_batch(np.ascontiguousarray(numbers, np.int64))

    def nearest(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Finds the highest dot products and their vectors' numbers, `[queries, count]`, padded with -1."""
        queries, count = np.ascontiguousarray(queries, np.float32), min(count, len(self))
        settings = {}
        if not self.is_exact:
            settings["params"] = _import_faiss().SearchParametersHNSW(efSearch=max(_SEARCHED_CANDIDATES, 2 * count))
        products, numbers = self._index.search(queries, count, **settings)
        order = np.lexsort((numbers, -products), axis=-1)  # on a tie, the first
        return np.take_along_axis(products, order, axis=-1), np.take_along_axis(numbers, order, axis=-1)

    def nearest_among(self, candidates: np.ndarray, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Finds the highest dot products among the vectors of some numbers, exactly: as `nearest`, maybe fewer."""
        best = np.full((len(queries), 0), 0, np.float32), np.full((len(queries), 0), 0, np.int64)
        for start in range(0, len(candidates), _ROWS):
            numbers = candidates[start : start + _ROWS]
            products = np.concatenate([best[0], queries @ self.vectors(numbers).T], axis=1)
            numbers = np.concatenate([best[1], np.broadcast_to(numbers, (len(queries), len(numbers)))], axis=1)
            order = np.lexsort((numbers, -products), axis=-1)[:, :count]
            best = np.take_along_axis(products, order, axis=1), np.take_along_axis(numbers, order, axis=1)
        return best


def check_installed() -> None:
    """Raises ImportError, with the command to install Faiss, if Faiss is missing."""
    _import_faiss()


def _import_faiss() -> ModuleType:
    return import_extra("faiss", "faiss-cpu", "search")


def _compute_range(extremes: np.ndarray, known: np.ndarray | None) -> np.ndarray:
    """Computes an int8 range, float32 `[2, width]`: with a margin, or the `known` one where it suffices."""
    low, high = extremes
    if known is not None:
        low, high = np.minimum(low, known[0]), np.maximum(high, known[1])
    margin = _MARGIN * (high - low)
    wider = np.stack([low - margin, high + margin])
    return wider if known is None else np.where(np.stack([low, high]) == known, known, wider)


def _is_float32(index: Any) -> bool:
    return not hasattr(_get_storage(index), "sq")


def _get_storage(index: Any) -> Any:
    """Returns the part of a Faiss index that holds the vectors."""
    return _import_faiss().downcast_index(index.storage) if hasattr(index, "hnsw") else index


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

"""Vectors of tokens in an index: candidates by the mean of their vectors, ranked by exact MaxSim."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from keras_bert.answers.token_vectors import max_similarities
from keras_bert.search import database, neighbours
from keras_bert.search.database import Database, Encode, Found, Settings
from keras_bert.search.dense_vectors import DenseVectors

if TYPE_CHECKING:
    from keras_bert.answers.token_vectors import MultiVectorEncoder
    from keras_bert.formats import Preset

# Up to this number of rows, a query is compared with all of them; else with so many candidates.
EXACT_UP_TO = 10_000
CANDIDATES = 1000
_ROWS_AT_A_TIME = 256  # whose vectors are in memory


class TokenVectors:
    """The vectors of a multi-vector encoder's tokens, a `Representation`; of a large index, also their means."""

    STORED: ClassVar[tuple[str, ...]] = ("tokens",)

    def __init__(self, settings: Settings, ids: np.ndarray, means: DenseVectors | None) -> None:
        self._width, self._ids, self._means = settings.width, ids, means
        self.is_exact = means is None

    def __len__(self) -> int:
        return len(self._ids) if self._means is None else len(self._means)

    @staticmethod
    def load(preset: str | Path | Preset) -> Any:
        from keras_bert.tasks.registry import load_as

        neighbours.import_faiss()  # raises
        return load_as("BertMultiVectorEncoder", preset)

    @staticmethod
    def width(model: MultiVectorEncoder) -> int:
        return model.vector_size

    @staticmethod
    def documents(model: MultiVectorEncoder, batch_tokens: int) -> Encode:
        def encode(texts: list[str]) -> tuple[list[np.ndarray], int]:
            vectors, truncated = model.encode_counted(texts, batch_tokens)
            if any(np.abs(each).max(initial=0) > np.finfo(np.float16).max for each in vectors):
                raise ValueError(
                    "a token's vector has values that float16 cannot hold; use a model with normalize=True"
                )
            return [each.astype(np.float16) for each in vectors], truncated

        encode([])  # raises
        return encode

    @staticmethod
    def queries(model: MultiVectorEncoder, texts: list[str]) -> list[np.ndarray]:
        found = model.encode(texts, progress=False, kind="query")
        return [each / len(each) for each in found] if model.mean_maxsim else found

    @classmethod
    def update(cls, index: Database, settings: Settings, old: Settings | None, leaving: list[int], added: int) -> None:
        if len(index) > EXACT_UP_TO:
            DenseVectors.update(_Means(index), settings, old, leaving, added)

    @classmethod
    def open(cls, index: Database, settings: Settings, ids: np.ndarray) -> TokenVectors:
        is_exact = len(ids) <= EXACT_UP_TO
        return cls(settings, ids, None if is_exact else DenseVectors.open(_Means(index), settings, ids))

    def nearest(self, index: Database, queries: list[np.ndarray], count: int, among: np.ndarray | None) -> Found:
        numbers = np.arange(len(self)) if among is None else among
        if self._means is None or len(numbers) <= EXACT_UP_TO:
            chosen = [numbers] * len(queries)
            scores = self._scores(index, queries, numbers)
        else:
            means = np.stack([query.mean(axis=0) for query in queries])
            found = self._means.nearest(index, means, max(count, CANDIDATES), among)
            chosen = [row[row >= 0] for _, row in found]
            scores = map(functools.partial(self.products, index), queries, chosen)
        for row, values in zip(chosen, scores, strict=True):
            order = np.lexsort((row, -values))[:count]
            yield values[order], row[order]

    def products(self, index: Database, query: np.ndarray, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        return self._scores(index, [query], np.asarray(numbers, int))[0]

    def _scores(self, index: Database, queries: list[np.ndarray], numbers: np.ndarray) -> np.ndarray:
        """Computes the MaxSim of queries with rows, some of them at a time: float32 `[queries, numbers]`."""
        scores = np.zeros((len(queries), len(numbers)), np.float32)
        for first in range(0, len(numbers), _ROWS_AT_A_TIME):
            some = slice(first, first + _ROWS_AT_A_TIME)
            contents = index.contents_of(self._ids[numbers[some]].tolist())
            scores[:, some] = max_similarities(queries, [_read(index, each, self._width) for each in contents])
        return scores


class _Means(Database):
    """An index that has, as the vector of a row, the mean of its tokens' vectors, of length 1."""

    def __init__(self, index: Database) -> None:
        self.execute, self.executemany, self.path = index.execute, index.executemany, index.path

    def vectors_of_rows(self, width: int, first: int = 0) -> Iterator[np.ndarray]:
        for contents in self.contents_of_rows(first):
            sums = np.stack([_read(self, each, width).sum(axis=0) for each in contents])
            yield sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)


def _read(index: Database, content: bytes, width: int) -> np.ndarray:
    """Reads the vectors of a row's tokens, float32 `[tokens, width]`."""
    if len(content) % (2 * width):
        raise database.damaged_error(index.path, "a vector has changed")
    return np.frombuffer(content, "<f2").reshape(-1, width).astype(np.float32)

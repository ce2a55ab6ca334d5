"""Weights of tokens in an index: an inverted index in the database, from each token to its rows and weights."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from keras_bert.answers.vector_metrics import best_indices
from keras_bert.search.database import WEIGHT, Database, Encode, Found, Settings, damaged_error

if TYPE_CHECKING:
    from keras_bert.answers.tokens import SparseEncoder
    from keras_bert.formats import Preset

_WEIGHTS_AT_A_TIME = 4_000_000  # weights in memory while postings are made


class Postings:
    """The weights of a sparse encoder, a `Representation`. A row that shares no token with a query is not found."""

    STORED: ClassVar[tuple[str, ...]] = ("weights",)
    is_exact = True

    def __init__(self, ids: np.ndarray) -> None:
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids)

    @staticmethod
    def load(preset: str | Path | Preset) -> Any:
        from keras_bert.tasks.registry import load_as

        return load_as("BertSparseEncoder", preset)

    @staticmethod
    def width(model: SparseEncoder) -> int:
        return model.preprocessor.tokenizer.vocabulary_size

    @staticmethod
    def documents(model: SparseEncoder, batch_tokens: int) -> Encode:
        encode = functools.partial(model.encode_counted, batch_tokens=batch_tokens)
        encode([])  # raises
        return encode

    @staticmethod
    def queries(model: SparseEncoder, texts: list[str]) -> list[np.ndarray]:
        return model.query_rows(texts)

    @classmethod
    def update(cls, index: Database, settings: Settings, old: Settings | None, leaving: list[int], added: int) -> None:
        index.remove_weights(leaving)
        ids, blocks, count = iter(index.ids_and_words()[0][len(index) - added :].tolist()), [], 0
        for contents in index.contents_of_rows(len(index) - added):
            if any(len(each) % 8 for each in contents):
                raise damaged_error(index.path, "the weights of a text have changed")
            tokens, weights = np.frombuffer(b"".join(contents), "<f4").reshape(-1, 2).T
            block = np.empty(len(tokens), WEIGHT)
            block["token"], block["weight"] = tokens, weights
            block["row"] = np.repeat([next(ids) for _ in contents], [len(each) // 8 for each in contents])
            blocks, count = [*blocks, block], count + len(block)
            if count >= _WEIGHTS_AT_A_TIME:
                index.add_weights(np.concatenate(blocks))
                blocks, count = [], 0
        if count:
            index.add_weights(np.concatenate(blocks))

    @classmethod
    def open(cls, index: Database, settings: Settings, ids: np.ndarray) -> Postings:
        return cls(ids)

    def nearest(self, index: Database, queries: list[np.ndarray], count: int, among: np.ndarray | None) -> Found:
        for query in queries:
            products = self._products(index, query)
            found = np.flatnonzero(products) if among is None else among[products[among] != 0]
            best = found[best_indices(products[found], count)] if len(found) else found
            yield products[best], best

    def products(self, index: Database, query: np.ndarray, numbers: list[int]) -> np.ndarray:
        return self._products(index, query)[numbers]

    def _products(self, index: Database, query: np.ndarray) -> np.ndarray:
        """Computes the dot products of a query, float32 `[tokens, 2]`, and all rows, float64 `[rows]`."""
        products = np.zeros(len(self._ids))
        for token, weight in query.tolist():
            rows, weights = index.weights_of(int(token))
            numbers = np.searchsorted(self._ids, rows)
            if len(rows) and numbers.max() == len(self._ids):
                raise damaged_error(index.path, "a list of rows has changed")
            products[numbers] += weight * weights
        return products

"""Dense vectors in an index: encoded with the model's prompts for queries and documents, and compared by Faiss."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from keras_bert import precisions
from keras_bert.search import neighbours
from keras_bert.search.database import Database, Encode, Found, Settings
from keras_bert.search.neighbours import Neighbours, make_neighbours

if TYPE_CHECKING:
    from keras_bert.answers.similarity import SentenceEncoder
    from keras_bert.formats import Preset

# Names of prompts, as sentence-transformers' `encode_query` and `encode_document` look for them.
_PROMPTS = {"query": ("query",), "document": ("document", "passage", "corpus")}


def find_prompt(model: SentenceEncoder, role: str) -> str | None:
    """Returns the name of the first prompt for a "query" or a "document" that a model has; else None, the default."""
    return next((name for name in _PROMPTS[role] if name in model.prompts), None)


def encoder_of(model: SentenceEncoder, role: str, batch_tokens: int) -> Encode:
    """Makes a function that encodes texts, and counts the truncated ones. Raises ValueError if a batch has no token."""
    encode = functools.partial(model.encode_counted, batch_tokens=batch_tokens, prompt=find_prompt(model, role))
    encode([])  # raises
    return encode


class DenseVectors:
    """The vectors of a sentence encoder, a `Representation`. Faiss's file holds them once more, to be searched."""

    STORED: ClassVar[tuple[str, ...]] = precisions.INDEXES

    def __init__(self, vectors: Neighbours) -> None:
        self._neighbours, self.is_exact = vectors, vectors.is_exact

    def __len__(self) -> int:
        return len(self._neighbours)

    @staticmethod
    def load(preset: str | Path | Preset) -> Any:
        from keras_bert.tasks.registry import load_to_compare

        neighbours.import_faiss()  # raises
        return load_to_compare(preset)

    @staticmethod
    def width(model: SentenceEncoder) -> int:
        return model.vector_size

    @staticmethod
    def documents(model: SentenceEncoder, batch_tokens: int) -> Encode:
        return encoder_of(model, "document", batch_tokens)

    @staticmethod
    def queries(model: SentenceEncoder, texts: list[str]) -> np.ndarray:
        return model.encode(texts, progress=False, prompt=find_prompt(model, "query"))

    @classmethod
    def update(cls, index: Database, settings: Settings, old: Settings | None, leaving: list[int], added: int) -> None:
        directory = index.path.parent
        base = Neighbours.open(directory, old, mapped=False) if old and not leaving else None
        make_neighbours(index, settings, base).write(directory, settings.version)

    @classmethod
    def open(cls, index: Database, settings: Settings, ids: np.ndarray) -> DenseVectors:
        directory = index.path.parent
        if (found := Neighbours.open(directory, settings)) is None:
            found = make_neighbours(index, settings)
            with contextlib.suppress(OSError):  # then each process makes its own
                found.write(directory, settings.version)
                found = Neighbours.open(directory, settings) or found
        return cls(found)

    def nearest(self, index: Database, queries: np.ndarray, count: int, among: np.ndarray | None) -> Found:
        return zip(*self._neighbours.nearest(queries, count, among), strict=True)

    def products(self, index: Database, query: np.ndarray, numbers: list[int]) -> np.ndarray:
        return self._neighbours.vectors(numbers) @ query

"""The sentence encoder of a search: it encodes queries and documents, each with the model's prompt for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from keras_bert.embedding import file_embedding

# Names of prompts, as sentence-transformers' `encode_query` and `encode_document` look for them.
_QUERY_PROMPTS = ("query",)
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")


def load(preset: str | Path) -> str:
    """Loads the model, and returns its digest. Raises as `BertSentenceEncoder.from_preset`."""
    return file_embedding.load(preset, to_compare=True)


class SearchModel:
    """A loaded model, whose vectors are compared by dot product. Raises ValueError for a preset of another digest."""

    def __init__(self, preset: str | Path, digest: str) -> None:
        self._model = file_embedding.model_of(preset, digest, to_compare=True)
        self.width = self._model.vector_size
        self.similarity = self._model.similarity

    def encode_queries(self, texts: Iterable[str]) -> np.ndarray:
        """Encodes queries, float32 `[texts, width]`."""
        return self._model.encode(texts, progress=False, prompt=self._find_prompt(_QUERY_PROMPTS))

    def encode_queries_counted(self, texts: Sequence[str], batch_tokens: int) -> tuple[np.ndarray, int]:
        """Encodes queries, and counts the truncated ones. Raises ValueError if `batch_tokens` is less than 1."""
        return self._model.encode_counted(texts, batch_tokens, self._find_prompt(_QUERY_PROMPTS))

    def encode_documents(self, texts: Sequence[str], batch_tokens: int) -> tuple[np.ndarray, int]:
        """Encodes documents, float32 `[texts, width]`; counts truncated ones. Raises as `encode_queries_counted`."""
        return self._model.encode_counted(texts, batch_tokens, self._find_prompt(_DOCUMENT_PROMPTS))

    def _find_prompt(self, names: Sequence[str]) -> str | None:
        """Returns the name of the first of these prompts that the model has; else None, the default prompt."""
        return next((name for name in names if name in self._model.prompts), None)

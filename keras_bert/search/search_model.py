"""The sentence encoder of a search: vectors to compare by dot product, with the model's prompts for both sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from keras_bert.embedding import file_embedding

# Names of prompts, as sentence-transformers' `encode_query` and `encode_document` look for them.
_QUERY = ("query",)
_DOCUMENT = ("document", "passage", "corpus")


def load(preset: str | Path) -> str:
    """Loads the model, and returns its digest. Raises as `BertSentenceEncoder.from_preset`."""
    return file_embedding.load(preset, to_compare=True)


class SearchModel:
    """A loaded model. Raises ValueError if the preset holds a model with another digest."""

    def __init__(self, preset: str | Path, digest: str) -> None:
        self._model = file_embedding.model_of(preset, digest, to_compare=True)
        self.width = self._model.vector_size
        self.similarity = self._model.similarity

    def queries(self, texts: Iterable[str]) -> np.ndarray:
        """float32 `[texts, width]`."""
        return self._model.encode(texts, progress=False, prompt=self._prompt(_QUERY))

    def queries_counted(self, texts: Sequence[str], batch_tokens: int) -> tuple[np.ndarray, int]:
        """Like `queries`, with the number of truncated texts. Raises ValueError if `batch_tokens` is less than 1."""
        return self._model.encode_counted(texts, batch_tokens, self._prompt(_QUERY))

    def documents(self, texts: Sequence[str], batch_tokens: int) -> tuple[np.ndarray, int]:
        """float32 `[texts, width]`, with the number of truncated texts. Raises ValueError as `queries_counted`."""
        return self._model.encode_counted(texts, batch_tokens, self._prompt(_DOCUMENT))

    def _prompt(self, names: Sequence[str]) -> str | None:
        """The first of these prompts that the model has; else None, the default prompt."""
        return next((name for name in names if name in self._model.prompts), None)

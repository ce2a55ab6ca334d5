"""How a search encodes texts: with the model's prompt for queries, or for documents."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from keras_bert.answers.similarity import SentenceEncoder

# Names of prompts, as sentence-transformers' `encode_query` and `encode_document` look for them.
_PROMPTS = {"query": ("query",), "document": ("document", "passage", "corpus")}


def find_prompt(model: SentenceEncoder, role: str) -> str | None:
    """Returns the name of the first prompt for a "query" or a "document" that a model has; else None, the default."""
    return next((name for name in _PROMPTS[role] if name in model.prompts), None)


def encoder_of(model: SentenceEncoder, role: str, batch_tokens: int) -> Callable[[list[str]], tuple[np.ndarray, int]]:
    """Makes a function that encodes texts, and counts the truncated ones. Raises ValueError if a batch has no token."""
    encode = functools.partial(model.encode_counted, batch_tokens=batch_tokens, prompt=find_prompt(model, role))
    encode([])  # raises
    return encode

"""Splits the contexts of questions into windows: `read_contexts` of the heads in NumPy, without TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_bert.text.arrays.packing import Windows, most_context
from keras_bert.text.arrays.preprocessor import ArrayPreprocessor
from keras_bert.text.arrays.tokenizer import Tokens


class Contexts(NamedTuple):
    """Questions, and the windows of their contexts."""

    # The question of each window, at most half a row, and the window; `rows` has the index of its question, and
    # `starts` that of its first token in the context. A preprocessor packs `windows.segments`.
    windows: Windows
    most_context: list[np.ndarray]  # bool [tokens] for each window: whether it has the most context for the token
    tokens: list[Tokens]  # of each context, with offsets in characters
    tokens_before: np.ndarray  # int64 [windows], the tokens before the window in its row, special tokens included


def read_contexts(preprocessor: ArrayPreprocessor, questions: Sequence[str], contexts: Sequence[str]) -> Contexts:
    """Tokenizes texts, and splits contexts into windows that fit into a row with their question."""
    tokens = preprocessor.tokenize_with_offsets(contexts)
    windows = preprocessor.windows((preprocessor.tokenize(questions), [each.ids for each in tokens]))
    before = 1 + preprocessor.pair_format.between + np.array([*map(len, windows.segments[0])], np.int64)
    return Contexts(windows, most_context(windows), tokens, before)

"""Runs an engine over texts in batches of similar length; see `answers/by_length.py`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from tqdm import tqdm

from keras_bert.answers.by_length import ByLength, Item, rows_by_length
from keras_bert.answers.columns import Pair
from keras_bert.text.arguments import list_of_str
from keras_bert.text.arrays.packing import Column, lengths_of

Results: TypeAlias = "Sequence[np.ndarray] | np.ndarray"  # one for each text
Segments: TypeAlias = "tuple[Column, ...]"  # one of single texts, two of pairs; others say where words begin


class EngineByLength(ByLength):
    """`ByLength` of an engine. `compute` gets the tokens of texts, and returns a result for each."""

    def __init__(self, preprocessor: Any, compute: Callable[..., Results]) -> None:
        super().__init__(preprocessor)
        self._compute = compute

    def tokenize(self, texts: list[Item], prompt: str = "", first: int = 0) -> Segments:
        are_pairs = bool(texts) and isinstance(texts[0], Pair)
        parts: Any = zip(*texts, strict=True) if are_pairs else (texts,)
        columns = [list_of_str(each, first=first) for each in parts]
        if prompt:
            columns[0] = [prompt + text for text in columns[0]]
        return tuple(self._preprocessor.tokenize(column) for column in columns)

    def lengths(self, segments: Segments) -> np.ndarray:
        return sum(map(lengths_of, segments)) + self._preprocessor.special_tokens(len(segments))

    def compute_single(
        self, chunk: list[Item], prompt: str, first: int, options: Mapping[str, Hashable]
    ) -> tuple[list[np.ndarray], np.ndarray]:
        segments = self.tokenize(chunk, prompt, first)
        return [*self._compute(segments, **options)], self.lengths(segments)

    def compute(
        self, segments: Segments, lengths: np.ndarray, batch_tokens: int, bar: tqdm, **options: Hashable
    ) -> list[np.ndarray]:
        results: list[Any] = [None] * len(lengths)
        for rows in rows_by_length(lengths, batch_tokens):
            order = rows.tolist()
            batch = tuple([column[row] for row in order] for column in segments)
            for row, values in zip(order, self._compute(batch, **options), strict=True):
                results[row] = values
            bar.update(len(order))
        return results


class EngineBySentence(EngineByLength):
    """`EngineByLength` for lists of words: `compute` gets tokens, and a mask of them: 1 where a word begins."""

    def tokenize(self, texts: list[Item], prompt: str = "", first: int = 0) -> Segments:
        sentences = self._preprocessor.tokenize_words(texts)
        tokens = [[token for word in words for token in word] for words in sentences]
        begins = [[int(i == 0) for word in words for i in range(len(word))] for words in sentences]
        return tokens, begins

    def lengths(self, segments: Segments) -> np.ndarray:
        return super().lengths(segments[:1])

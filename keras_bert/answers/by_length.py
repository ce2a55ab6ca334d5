"""Runs models over any number of texts in batches of similar length, with little padding."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from tqdm import tqdm

from keras_bert.answers.columns import Pair
from keras_bert.counted import counted
from keras_bert.progress import progress_bar
from keras_bert.text.arguments import check_many

Item: TypeAlias = "str | Pair | Sequence[str]"  # a text, two texts to read together, or the words of a sentence

# Texts to sort at a time: enough for batches of almost equal lengths, and few enough to keep in memory.
_TEXTS_AT_A_TIME = 16384


class ByLength:
    """A function over texts, run in batches of similar length. A subclass tokenizes and computes."""

    def __init__(self, preprocessor: Any) -> None:
        self._preprocessor = preprocessor

    def __call__(
        self,
        texts: Iterable[Item],
        batch_tokens: int,
        progress: bool | None = None,
        prompt: str = "",
        **options: Hashable,
    ) -> list[np.ndarray]:
        """Computes the results of texts, in their order, and warns of truncated texts."""
        results, truncated = self.counted(texts, batch_tokens, progress, prompt, **options)
        if truncated:
            longest = self._preprocessor.longest
            warnings.warn(f"texts truncated to {longest} tokens, the model's maximum: {truncated}", stacklevel=3)
        return results

    def counted(
        self,
        texts: Iterable[Item],
        batch_tokens: int,
        progress: bool | None = None,
        prompt: str = "",
        **options: Hashable,
    ) -> tuple[list[np.ndarray], int]:
        """Computes the results of texts, in their order, and counts the truncated texts."""
        check_many(texts)
        check_batch_tokens(batch_tokens)
        fixed = self._preprocessor.sequence_length  # None: the longest row of each batch
        longest = self._preprocessor.longest
        total = len(texts) if isinstance(texts, Sized) else None
        has_windows = self._preprocessor.stride is not None
        with progress_bar(total, "texts", progress) as bar:
            results, truncated = [], 0
            for chunk in _chunks(texts):
                if len(chunk) == 1:
                    computed, lengths = self.compute_single(chunk, prompt, len(results), options)
                    bar.update()
                else:
                    segments = self.tokenize(chunk, prompt, len(results))
                    lengths = self.lengths(segments)
                    padded = lengths if has_windows else np.minimum(lengths, longest)
                    padded = np.maximum(padded, fixed) if fixed else padded
                    computed = self.compute(segments, padded, batch_tokens, bar, **options)
                check_finite(computed, len(results))
                results += computed
                truncated += 0 if has_windows else int(np.sum(lengths > longest))
        return results, truncated

    def tokenize(self, texts: list[Item], prompt: str = "", first: int = 0) -> Any:
        """Tokenizes texts, or pairs of texts; `first` is the number of the first text, for error messages."""
        raise NotImplementedError

    def lengths(self, segments: Any) -> np.ndarray:
        """Counts the tokens of each row before truncation, special tokens included: int64 `[texts]`."""
        raise NotImplementedError

    def compute_single(
        self, chunk: list[Item], prompt: str, first: int, options: Mapping[str, Hashable]
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Computes the result and the length for a chunk of one text or pair."""
        raise NotImplementedError

    def compute(
        self, segments: Any, lengths: np.ndarray, batch_tokens: int, bar: tqdm, **options: Hashable
    ) -> list[np.ndarray]:
        """Computes the rows in batches of similar length; results are in the order of the rows."""
        raise NotImplementedError


def _chunks(texts: Iterable[Item]) -> Iterator[list[Item]]:
    iterator = iter(texts)
    while chunk := list(islice(iterator, _TEXTS_AT_A_TIME)):
        yield chunk


def check_finite(outputs: Sequence[np.ndarray], first: int = 0, item: str = "text") -> None:
    """Refuses outputs with NaN or infinity: one of them for each text, the first of which has the number `first`."""
    if bad := [number for number, each in enumerate(outputs, first + 1) if not np.isfinite(each).all()]:
        raise ValueError(
            f"the model's output for {len(bad):,} of {counted(outputs, item)} is not finite (NaN or infinity), first "
            f"for {item} {bad[0]:,}: its weights are damaged, as by a training that diverged, or its values too large "
            "for its precision; train it again with a lower learning_rate, or load it in float32"
        )


def check_batch_tokens(batch_tokens: int) -> None:
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens is {batch_tokens}; expected at least 1")


def rows_by_length(lengths: np.ndarray, batch_tokens: int) -> list[np.ndarray]:
    """Splits rows, of lengths `[rows]` in tokens, into batches of at most `batch_tokens` tokens, padding included."""
    order = np.argsort(-lengths, kind="stable")  # longest first: if memory runs out, the first batch fails
    batches = []
    start = 0
    while start < len(order):
        count = max(1, batch_tokens // int(lengths[order[start]]))
        batches.append(order[start : start + count])
        start += count
    return batches

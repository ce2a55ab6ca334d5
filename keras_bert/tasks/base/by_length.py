"""Runs models over any number of texts in batches of similar length, with little padding."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from keras_bert.counted import counted
from keras_bert.progress import progress_bar
from keras_bert.tasks.base.columns import Pair
from keras_bert.text import BertPreprocessor
from keras_bert.text.arguments import check_many
from keras_bert.text.strings import as_strings, readable_errors

Item: TypeAlias = "str | Pair | Sequence[str]"  # a text, two texts to read together, or the words of a sentence

# Texts to sort at a time: enough for batches of almost equal lengths, and few enough to keep in memory.
_TEXTS_AT_A_TIME = 16384

# Two batches per core: while one waits for a core or for memory, others compute. At most 8, to save memory.
_BATCHES_IN_FLIGHT = min(2 * (os.cpu_count() or 1), 8)

STRINGS = tf.TensorSpec([None], tf.string)
_SEGMENT = tf.RaggedTensorSpec([None, None], tf.int32, row_splits_dtype=tf.int64)


class Graphs:
    """The graphs of a model's functions. A graph takes a tenth of the time of hundreds of eager operations."""

    def __init__(self) -> None:
        self._graphs: dict[Hashable, Callable[..., Any]] = {}

    def get(self, key: Hashable, function: Callable[..., Any], signature: list[Any]) -> Callable[..., Any]:
        """Returns the graph with this key; makes it of the function if there is none."""
        if tf.config.functions_run_eagerly():  # as `tf.function`: to debug
            return function
        if graph := self._graphs.get(key):
            return graph
        # A concrete function: finding it again at each call takes as long as the checks of a text.
        new = tf.function(function, input_signature=signature, autograph=False).get_concrete_function()
        return self._graphs.setdefault(key, new)  # another thread may have made one

    def clear(self) -> None:
        """Drops the graphs, so that the next calls are traced again."""
        self._graphs.clear()


def are_texts(columns: Sequence[object]) -> bool:
    """Checks for one or two string tensors `[batch]`, in an eager call outside of a strategy's scope."""
    are_strings = all(isinstance(each, tf.Tensor) and STRINGS.is_compatible_with(each) for each in columns)
    return are_strings and len(columns) <= 2 and tf.executing_eagerly() and not tf.distribute.has_strategy()


class ByLength:
    """A function over texts, run in batches of similar length. A single text is tokenized and computed in one graph."""

    def __init__(self, preprocessor: BertPreprocessor, compute: Callable[..., tf.Tensor], graphs: Graphs) -> None:
        self._preprocessor = preprocessor
        self._compute = compute  # a tuple of ragged int32 tensors `[batch, (tokens)]`, and options -> `[batch, ...]`
        self._graphs = graphs

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
                    computed, lengths = self._compute_single(chunk, prompt, len(results), options)
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

    def tokenize(self, texts: list[Item], prompt: str = "", first: int = 0) -> list[tf.RaggedTensor]:
        """Tokenizes texts, or pairs of texts; `first` is the number of the first text, for error messages."""
        return self._segments(*self._as_tensors(texts, prompt, first))

    def lengths(self, segments: list[tf.RaggedTensor]) -> np.ndarray:
        """Counts the tokens of each row before truncation, special tokens included: int64 `[texts]`."""
        return self._lengths(segments).numpy()

    def _as_tensors(self, texts: list[Item], prompt: str, first: int) -> list[tf.Tensor]:
        """Converts texts, or pairs of texts, to the arguments of `_segments`."""
        are_pairs = bool(texts) and isinstance(texts[0], Pair)
        columns = [list(column) for column in zip(*texts, strict=True)] if are_pairs else [texts]
        strings, *second = (as_strings(column, first) for column in columns)
        return [tf.strings.join([prompt, strings]) if prompt else strings, *second]

    def _segments(self, *columns: tf.Tensor) -> list[tf.RaggedTensor]:
        return [self._preprocessor.tokenizer.tokenize(column) for column in columns]

    def _lengths(self, segments: Sequence[tf.RaggedTensor]) -> tf.Tensor:
        special_tokens = self._preprocessor.tokenizer.pair_format.special_tokens(len(segments))
        return tf.add_n([segment.row_lengths() for segment in segments]) + special_tokens

    def _compute_single(
        self, chunk: list[Item], prompt: str, first: int, options: Mapping[str, Hashable]
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Computes the result and the length for a chunk of one text or pair, in one graph."""

        def compute_single(*tensors: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            segments = self._segments(*tensors)
            return self._compute(tuple(segments), **options), self._lengths(segments)

        tensors = self._as_tensors(chunk, prompt, first)
        signature = [tf.TensorSpec([None], each.dtype) for each in tensors]
        with readable_errors():
            values, lengths = self._graphs.get((len(tensors), *options.items()), compute_single, signature)(*tensors)
        return [values.numpy()[0]], lengths.numpy()

    def compute(
        self,
        segments: list[tf.RaggedTensor],
        lengths: np.ndarray,
        batch_tokens: int,
        bar: tqdm,
        **options: Hashable,
    ) -> list[np.ndarray]:
        """Computes the rows in batches of similar length, several at a time; results are in the order of the rows."""

        def compute_rows(segments: list[tf.RaggedTensor], rows: tf.Tensor) -> tf.Tensor:
            return self._compute(tuple(tf.gather(segment, rows) for segment in segments), **options)

        results: list[np.ndarray] = [None] * segments[0].shape[0]
        signature = [[_SEGMENT] * len(segments), tf.TensorSpec([None], tf.int64)]
        graph = self._graphs.get(("rows", len(segments), *options.items()), compute_rows, signature)
        batches = rows_by_length(lengths, batch_tokens)
        # Single rows run one by one, because the memory of attention grows with the square of the length.
        num_single = sum(bool(lengths[rows[0]] > batch_tokens) for rows in batches) if len(batches) > 1 else 1
        pool = ThreadPoolExecutor(_BATCHES_IN_FLIGHT)  # threads start when there is work

        def compute(rows: np.ndarray) -> tf.Tensor:
            return graph(segments, rows)

        def outputs() -> Iterator[tf.Tensor]:
            yield from map(compute, batches[:num_single])
            yield from pool.map(compute, batches[num_single:])

        try:
            for rows, values in zip(batches, outputs(), strict=True):
                for row, value in zip(rows, values.numpy(), strict=True):
                    results[row] = value
                bar.update(len(rows))
        finally:
            pool.shutdown(cancel_futures=True)  # an interrupt waits only for the batches in flight
        return results


class BySentence(ByLength):
    """`ByLength` for sentences that are lists of words: `compute` gets tokens, and a mask: 1 where a word begins."""

    def _as_tensors(self, sentences: list[Item], prompt: str, first: int) -> list[tf.Tensor]:
        words = [word for sentence in sentences for word in sentence]
        return [as_strings(words), tf.constant([len(sentence) for sentence in sentences], tf.int64)]

    def _segments(self, words: tf.Tensor, lengths: tf.Tensor) -> list[tf.RaggedTensor]:
        sentences = tf.RaggedTensor.from_row_lengths(words, lengths)
        return list(flat_tokens(self._preprocessor.tokenizer.tokenize_words(sentences)))

    def _lengths(self, segments: Sequence[tf.RaggedTensor]) -> tf.Tensor:
        return super()._lengths(segments[:1])


def flat_tokens(words: tf.RaggedTensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Flattens words, int32 `[batch, (words), (tokens)]`, to tokens, and a mask of them: 1 where a word begins."""
    begins = tf.concat([tf.ones_like(words.values[:, :1]), tf.zeros_like(words.values[:, 1:])], axis=1)
    return words.merge_dims(1, 2), words.with_values(begins).merge_dims(1, 2)


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

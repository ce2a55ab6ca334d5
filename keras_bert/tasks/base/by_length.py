"""Runs models of Keras over texts in batches of similar length; see `answers/by_length.py`."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from keras_bert.answers.by_length import ByLength, Item, rows_by_length
from keras_bert.answers.columns import Pair
from keras_bert.text import BertPreprocessor
from keras_bert.text.strings import as_strings, readable_errors

# Texts to sort at a time: enough for batches of almost equal lengths, and few enough to keep in memory.
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


class GraphByLength(ByLength):
    """`ByLength` in the graph. A single text is tokenized and computed in one graph."""

    def __init__(self, preprocessor: BertPreprocessor, compute: Callable[..., tf.Tensor], graphs: Graphs) -> None:
        super().__init__(preprocessor)
        self._compute = compute  # a tuple of ragged int32 tensors `[batch, (tokens)]`, and options -> `[batch, ...]`
        self._graphs = graphs

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

    def compute_single(
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
        self, segments: list[tf.RaggedTensor], lengths: np.ndarray, batch_tokens: int, bar: tqdm, **options: Hashable
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


class GraphBySentence(GraphByLength):
    """`GraphByLength` for lists of words: `compute` gets tokens, and a mask of them: 1 where a word begins."""

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

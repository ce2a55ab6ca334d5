"""Turns texts into the inputs of an encoder without TensorFlow: for exports, and on Keras's other backends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_bert.formats import Preset
from keras_bert.text.arguments import list_of_str
from keras_bert.text.arrays import packing
from keras_bert.text.arrays.packing import Column, Windows, most_context, truncate
from keras_bert.text.arrays.tokenizer import ArrayTokenizer, Tokens, array_tokenizer
from keras_bert.text.pairs import check_rows, room_of, row_settings

Texts = str | Sequence[str]


class ArrayPreprocessor:
    """The preprocessor of exports, and on Keras's other backends: the inputs of `BertPreprocessor` as NumPy arrays.

    Hugging Face's `tokenizers` (the extra `runtimes`) splits the texts: a list of str; or a tuple of two, for pairs; or
    one str. Ordinary text gets the same ids; the guide about runtimes lists the exceptions. For the arguments, the
    results and the errors, see `BertPreprocessor`.
    """

    def __init__(
        self,
        tokenizer: ArrayTokenizer,
        sequence_length: int | None = 128,
        truncation: str = "longest_first",
        pad_to_multiple_of: int = 1,
        max_sequence_length: int = 512,
        stride: int | None = None,
    ) -> None:
        check_rows(sequence_length, truncation, pad_to_multiple_of, max_sequence_length, stride)
        self.tokenizer = tokenizer
        self.sequence_length = sequence_length
        self.truncation = truncation
        self.pad_to_multiple_of = pad_to_multiple_of
        self.max_sequence_length = max_sequence_length
        self.stride = stride
        self.tokenize, self.tokenize_words = tokenizer.tokenize, tokenizer.tokenize_words
        self.tokenize_with_offsets = tokenizer.tokenize_with_offsets
        self.vocabulary, self.special_ids = tokenizer.vocabulary, tokenizer.special_ids
        self.includes_space, self.pair_format = tokenizer.includes_space, tokenizer.pair_format
        self.pad_token_id, self.mask_token_id = tokenizer.pad_token_id, tokenizer.mask_token_id
        self.mask_token = tokenizer.special_tokens["mask_token"]

    @property
    def longest(self) -> int:
        """The most tokens that a row may have, special tokens included."""
        return self.max_sequence_length if self.sequence_length is None else self.sequence_length

    def __call__(self, texts: Texts | tuple[Texts, ...]) -> dict[str, np.ndarray]:
        columns = texts if isinstance(texts, tuple) else (texts,)
        single = [[column] for column in columns if isinstance(column, str)]
        if len(single) == len(columns):
            return {name: values[0] for name, values in self(tuple(single)).items()}
        columns = [list_of_str(column) for column in columns]
        if len(columns) > 2 or len({len(column) for column in columns}) > 1:
            raise ValueError(f"got texts in columns of {[len(each) for each in columns]}; expected a pair")
        segments = tuple(self.tokenize(column) for column in columns)
        if self.stride is None:
            return self.pack(segments)
        split = self.windows(segments)
        place = np.arange(len(split.rows)) - np.searchsorted(split.rows, split.rows)  # in the windows of a row
        shape, padding = (len(columns[0]), place.max(initial=0) + 1), {"input_word_ids": self.pad_token_id}
        inputs = {}
        for name, values in self.pack(split.segments).items():
            inputs[name] = np.full((*shape, values.shape[1]), padding.get(name, 0), np.int32)
            inputs[name][split.rows, place] = values
        return inputs

    def special_tokens(self, segments: int) -> int:
        """Counts the special tokens in a row of one or two segments."""
        return self.pair_format.special_tokens(segments)

    def pack(self, segments: tuple[Column, ...]) -> dict[str, np.ndarray]:
        """Packs the ids of one or two columns of texts, or the segments of `windows`, into rows of at most `longest`.

        Raises:
            ValueError: a row is too long, under `truncation="error"`; or rows have no room for special tokens.
        """
        rows = truncate(segments, self._room(segments), self.truncation)
        tokenizer, multiple = self.tokenizer, self.pad_to_multiple_of
        special_ids = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
        format_of_rows = self.pair_format, tokenizer.unk_token_id
        return packing.pack(rows, self.sequence_length, self.longest, multiple, *special_ids, *format_of_rows)

    def windows(self, segments: tuple[Column, ...]) -> Windows:
        """Splits the last text of each row into windows for `pack`. Without a stride, each row is one window.

        Raises:
            ValueError: rows have no room for windows.
        """
        room = self._room(segments)
        if self.stride is None:
            count = len(segments[0])
            return Windows(np.arange(count), np.zeros(count, np.int64), segments)
        if room < len(segments):
            raise ValueError(f"rows of {self.longest} tokens have no room for windows over {len(segments)} texts")
        return packing.windows(segments, room, self.stride)

    def _room(self, segments: tuple[Column, ...]) -> int:
        return room_of(self.longest, self.special_tokens(len(segments)))

    @classmethod
    def from_preset(
        cls, handle: str | Path | Preset, special_tokens_in_text: bool | None = None, **overrides: Any
    ) -> ArrayPreprocessor:
        """Reads a preset's tokenizer; see `BertPreprocessor.from_preset`. Raises ImportError without `tokenizers`."""
        with Preset.open(handle) as preset:
            tokenizer = array_tokenizer(preset.tokenizer_files, special_tokens_in_text)
            config, settings = preset.config, row_settings(preset, overrides)
        config.check_vocabulary(tokenizer.vocabulary_size, False)
        return cls(tokenizer, **settings)


# -- Contexts of questions


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

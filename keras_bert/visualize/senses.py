"""The occurrences of a word in a text as points: their contextual vectors in two dimensions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_bert.encoder import BertEncoder
from keras_bert.pretraining.corpus import sentences
from keras_bert.text import BertPreprocessor
from keras_bert.text.arguments import list_of_str

_SENTENCES_AT_A_TIME = 16


@dataclass(frozen=True)
class Occurrence:
    """An occurrence of a word: `sentence[start:end]`."""

    sentence: str
    start: int
    end: int


@dataclass(frozen=True)
class Senses:
    """A word's occurrences and their vectors.

    Attributes:
        word: the word, in the case of the call.
        occurrences: in the order of the text.
        vectors: float32 `[occurrences, hidden]`: the means of the word's hidden states in the last layer.
        static: float32 `[hidden]`: the mean of its tokens' rows in the embedding table, which do not depend on context.
        points: float32 `[occurrences, 2]`: the two principal components of `vectors`.
        static_point: float32 `[2]`: `static` in the same projection.
    """

    word: str
    occurrences: tuple[Occurrence, ...]
    vectors: np.ndarray
    static: np.ndarray
    points: np.ndarray
    static_point: np.ndarray


def find_occurrences(word: str, paragraphs: Iterable[str]) -> list[Occurrence]:
    """Finds the occurrences of a whole word in a text, ignoring case.

    Args:
        word: one word, or several with spaces.
        paragraphs: the text, which is split into sentences.

    Raises:
        TypeError: the word, or a paragraph, is not a str.
        ValueError: the word is empty.

    Example:
        >>> [(each.sentence, each.start) for each in find_occurrences("bank", ["A Bank. Banks! The river bank?"])]
        [('A Bank.', 2), ('The river bank?', 10)]
    """
    if not isinstance(word, str):
        raise TypeError(f"word is {word!r:.60} ({type(word).__name__}); expected a str")
    if not word.strip():
        raise ValueError("the word is empty")
    pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
    return [
        Occurrence(sentence, *found.span())
        for paragraph in list_of_str(paragraphs, "paragraphs", "paragraph")
        for sentence in sentences(paragraph)
        for found in pattern.finditer(sentence)
    ]


def find_senses(encoder: BertEncoder, preprocessor: BertPreprocessor, word: str, paragraphs: Iterable[str]) -> Senses:
    """Encodes a text sentence by sentence: a vector and a point for each occurrence of a word.

    Use it to see how many senses of a word an encoder separates.

    Args:
        encoder: the encoder.
        preprocessor: the encoder's, with `sequence_length=None`.
        word, paragraphs: as for `find_occurrences`.

    Raises:
        ValueError: the word occurs less than twice, or in a sentence that is too long for the model.

    Example:
        >>> encoder = BertEncoder.from_preset("all-MiniLM-L6-v2")
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=None)
        >>> text = ["He robbed a bank. She left the bank rich. They sat on the bank of the river."]
        >>> robbed, rich, river = find_senses(encoder, preprocessor, "bank", text).vectors
        >>> bool(robbed @ rich > robbed @ river)
        True
    """
    occurrences = find_occurrences(word, paragraphs)
    if len(occurrences) < 2:
        count = "once" if occurrences else "nowhere"
        raise ValueError(f"{word!r} occurs {count} in the text; a comparison needs at least two occurrences")
    vectors = _vectors(encoder, preprocessor, occurrences)
    tokens = preprocessor.tokenizer.tokenize_words(tf.ragged.constant([word.split()]))
    static = encoder.embeddings.word_embeddings(tokens.flat_values)
    if encoder.embeddings.projection is not None:
        static = encoder.embeddings.projection(static)
    static = np.mean(np.float32(static), axis=0)
    centre = vectors.mean(axis=0)
    axes = np.linalg.svd(vectors - centre, full_matrices=False)[2][:2]  # [2, hidden]
    axes = axes * np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])[:, None]  # SVD leaves signs open
    return Senses(
        word=word,
        occurrences=tuple(occurrences),
        vectors=vectors,
        static=static,
        points=(vectors - centre) @ axes.T,
        static_point=(static - centre) @ axes.T,
    )


def _vectors(encoder: BertEncoder, preprocessor: BertPreprocessor, occurrences: Sequence[Occurrence]) -> np.ndarray:
    vectors = np.zeros((len(occurrences), encoder.config.hidden_size), np.float32)
    room = preprocessor.max_sequence_length - preprocessor.tokenizer.pair_format.special_tokens(1)
    for first in range(0, len(occurrences), _SENTENCES_AT_A_TIME):
        some = occurrences[first : first + _SENTENCES_AT_A_TIME]
        ids, starts, ends = preprocessor.tokenizer.tokenize_with_offsets([each.sentence for each in some])
        for each, length in zip(some, ids.row_lengths().numpy().tolist(), strict=True):
            if length > room:
                raise ValueError(
                    f"a sentence has {length} tokens, more than the {room} that this model reads; split it: "
                    f"{each.sentence[:60]!r}..."
                )
        states = np.float32(encoder(preprocessor.pack(ids), training=False)["sequence_output"])
        for row, (each, begins, stops) in enumerate(zip(some, starts.to_list(), ends.to_list(), strict=True)):
            start, end = (len(each.sentence[:place].encode()) for place in (each.start, each.end))
            inside = (np.array(begins) < end) & (np.array(stops) > start)
            if not inside.any():
                raise ValueError(f"{each.sentence[each.start : each.end]!r} has no tokens")
            vectors[first + row] = states[row, 1 : 1 + len(inside)][inside].mean(axis=0)  # after [CLS]
    return vectors

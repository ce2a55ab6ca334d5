"""Packs several short texts into each sequence."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

_OPEN = 64  # the largest number of unfilled sequences at a time


def sequences_of(lengths: np.ndarray, room: int) -> list[list[int]]:
    """The indices of the texts in each sequence. A text goes into the fullest sequence that has room for it.

    Args:
        lengths: int `[texts]`: the number of tokens of each text, at most `room`.
        room: the number of tokens in a sequence.

    Example:
        >>> sequences_of(np.array([5, 7, 3, 2, 4]), room=10)
        [[0, 3], [1, 2], [4]]
    """
    full: list[list[int]] = []
    unfilled: list[tuple[int, list[int]]] = []  # room that is left, texts
    for number, length in enumerate(lengths):
        fitting = [each for each in unfilled if each[0] >= length]
        best = min(fitting, key=lambda each: each[0], default=(room, []))
        if fitting:
            unfilled.remove(best)
        best[1].append(number)
        unfilled.append((best[0] - int(length), best[1]))
        if len(unfilled) > _OPEN:
            fullest = min(unfilled, key=lambda each: each[0])
            unfilled.remove(fullest)
            full.append(fullest[1])
    return sorted(full + [texts for _, texts in unfilled])


def joined(packed: dict[str, tf.Tensor], counts: tf.Tensor, pad_id: int = 0) -> dict[str, tf.Tensor]:
    """Rows with one text each -> rows with several texts.

    Args:
        packed: single texts, packed by `BertPreprocessor` to the length of a sequence.
        counts: int64 `[sequences]`: the number of texts in each; their sum is the number of rows. The texts must fit.
        pad_id: the id of the padding token.

    Returns:
        int32 `[sequences, seq_length]` each: `input_word_ids`, `input_mask`, `input_type_ids`, and
        `input_document_ids`, the number of each token's text, from 1; 0 at padding.

    Example:
        >>> from keras_bert import BertPreprocessor
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=8)
        >>> together = joined(preprocessor(["a cat", "it rains"]), tf.constant([2], tf.int64))
        >>> together["input_document_ids"].numpy()
        array([[1, 1, 1, 1, 2, 2, 2, 2]], dtype=int32)
    """
    lengths = tf.reduce_sum(packed["input_mask"], axis=1)
    number = tf.ragged.range(1, counts + 1).values  # [rows]
    numbers = tf.cast(number[:, None], tf.int32) * packed["input_mask"]
    found = {}
    for name, value in {**packed, "input_document_ids": numbers}.items():
        texts = tf.RaggedTensor.from_row_lengths(tf.RaggedTensor.from_tensor(value, lengths), counts)
        padding = pad_id if name == "input_word_ids" else 0
        found[name] = texts.merge_dims(1, 2).to_tensor(padding, shape=[None, value.shape[1]])
    return found

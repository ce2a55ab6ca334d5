"""Measures the loss of an encoder in int8, for each block and in total."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.encoder import BertEncoder

Block = Callable[..., Any]


class _Beside:
    """A block that returns float32, and compares it with the output of its int8 version for the same input."""

    def __init__(self, exact: Block, lower: Block) -> None:
        self._exact, self._lower = exact, lower
        self.losses: list[tf.Tensor] = []

    def __call__(self, hidden: Any, **settings: Any) -> Any:
        exact = self._exact(hidden, **settings)
        self.losses.append(tf.reshape(1 - _cosines(exact, self._lower(hidden, **settings)), [-1]))  # [tokens]
        return exact


def losses_of_blocks(encoder: BertEncoder, lower: Sequence[Block], batches: Iterable[dict[str, Any]]) -> np.ndarray:
    """float32 `[blocks]`: 1 - the mean cosine of what each block gives to what the encoder's own gives, from the hidden
    states of the latter."""

    @tf.function(autograph=False, reduce_retracing=True)
    def losses(inputs: dict[str, Any]) -> tf.Tensor:
        both = [_Beside(one, other) for one, other in zip(encoder.blocks, lower, strict=True)]
        encoder.run(inputs, both)
        return tf.stack([tf.concat(block.losses, axis=0) for block in both])  # [blocks, tokens]

    return np.concatenate([losses(batch).numpy() for batch in batches], axis=1).mean(axis=1)


def mean_cosine(encoder: BertEncoder, lower: Sequence[Block], words: Any, batches: Iterable[dict[str, Any]]) -> float:
    """The mean cosine of the tokens' last hidden states, with these blocks and embeddings, to the encoder's own."""

    @tf.function(autograph=False, reduce_retracing=True)
    def cosines(inputs: dict[str, Any]) -> tf.Tensor:
        one = encoder.run(inputs, encoder.blocks)["sequence_output"]
        other = encoder.run(inputs, lower, words=words)["sequence_output"]
        return tf.boolean_mask(_cosines(one, other), tf.not_equal(inputs["input_mask"], 0))  # [tokens]

    return float(np.concatenate([cosines(batch).numpy() for batch in batches]).mean())


def _cosines(one: Any, other: Any) -> tf.Tensor:
    one, other = (tf.math.l2_normalize(tf.cast(each, tf.float32), axis=-1) for each in (one, other))
    return tf.reduce_sum(one * other, axis=-1)

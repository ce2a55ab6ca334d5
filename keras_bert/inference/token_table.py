"""The table of token embeddings, in each precision."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

_LEVELS = 127  # int8 from -127 to 127


class TokenTable:
    """Token embeddings in bfloat16, or in int8 with a scale for each row.

    Args:
        table: float32 `[tokens, width]`.
        precision: "bfloat16" or "int8".

    Call arguments:
        ids: int `[rows]`.

    Returns:
        float32 `[rows, width]`.
    """

    def __init__(self, table: np.ndarray, precision: str) -> None:
        self._scales = None
        if precision == "bfloat16":
            self._values = tf.constant(table, tf.bfloat16)
            return
        scales = np.maximum(np.abs(table).max(axis=1, keepdims=True), np.finfo(np.float32).tiny) / _LEVELS
        self._values = tf.constant(np.rint(table / scales).astype(np.int8))
        self._scales = tf.constant(scales, tf.float32)

    def __call__(self, ids: tf.Tensor) -> tf.Tensor:
        found = tf.cast(tf.gather(self._values, ids), tf.float32)
        return found if self._scales is None else found * tf.gather(self._scales, ids)

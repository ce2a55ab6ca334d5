"""Root mean square layer normalization (Zhang and Sennrich 2019)."""

from typing import Any

import keras
from keras import ops


class RMSNorm(keras.layers.Layer):
    """`x / sqrt(mean(x^2) + epsilon) * gamma` over the last axis, computed in float32 under any dtype policy.

    Args:
        epsilon: added to the mean.

    Call arguments:
        x: float `[..., width]`.

    Returns:
        float of that shape.
    """

    def __init__(self, epsilon: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.gamma = self.add_weight(shape=input_shape[-1:], initializer="ones", name="gamma", autocast=False)

    def call(self, x: Any) -> Any:
        x = ops.cast(x, "float32")
        scale = ops.rsqrt(ops.mean(ops.square(x), axis=-1, keepdims=True) + self.epsilon)
        return ops.cast(x * scale * ops.cast(self.gamma, "float32"), self.compute_dtype)

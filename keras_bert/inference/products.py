"""The dense layers of a Transformer block and the table of token embeddings, in each precision."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from keras_bert.inference import onednn
from keras_bert.inference.ranges import InputRange

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


Weights = Mapping[str, np.ndarray]

FACTOR = "factor"  # the half of a gated "intermediate" without activation; both halves have the same input


def beside_int8() -> tf.DType:
    """The type of all computations other than products, if the products are int8."""
    return tf.bfloat16 if onednn.has_bfloat16() else tf.float32


class FloatProducts:
    """Products in float32 or bfloat16.

    Args:
        weights: float32, by name: "qkv/kernel", ...
        dtype: the type of the products.
    """

    def __init__(self, weights: Weights, dtype: tf.DType) -> None:
        self.dtype = dtype
        self._constants = {name: tf.constant(value, dtype) for name, value in weights.items()}

    def __call__(
        self, name: str, x: tf.Tensor, activation: str | None = None, dtype: tf.DType | None = None
    ) -> tf.Tensor:
        """`activation(x kernel + bias)` of the dense layer `name`.

        Args:
            name: "qkv", ...
            x: float `[rows, inputs]`.
            activation: of `config.ACTIVATIONS`, or None.
            dtype: the type of the result; None: that of the products.

        Returns:
            `[rows, units]`.
        """
        kernel, bias = self._constants[f"{name}/kernel"], self._constants[f"{name}/bias"]
        return tf.cast(onednn.dense(tf.cast(x, self.dtype), kernel, bias, activation), dtype or self.dtype)

    def gated(self, name: str, x: tf.Tensor, activation: str) -> tf.Tensor:
        """The activation of the dense layer `name`, times its factor, which has no activation."""
        x = tf.cast(x, self.dtype)
        return self(name, x, activation) * FloatProducts.__call__(self, FACTOR, x)


class RecordingProducts(FloatProducts):
    """Float32 products that record their inputs, for calibration.

    Attributes:
        seen: name -> the largest absolute value of each input, float32 `[inputs]`; and some rows, `[n, inputs]`.
    """

    ROWS = 32  # roughly the most rows to record of a batch

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights, tf.float32)
        self.seen: dict[str, tuple[tf.Tensor, tf.Tensor]] = {}

    def kernel(self, name: str) -> np.ndarray:
        """float32 `[inputs, units]`: all kernels that this input is multiplied with."""
        names = [name, FACTOR] if name == "intermediate" and f"{FACTOR}/kernel" in self._constants else [name]
        return np.concatenate([self._constants[f"{each}/kernel"].numpy() for each in names], axis=1)

    def __call__(
        self, name: str, x: tf.Tensor, activation: str | None = None, dtype: tf.DType | None = None
    ) -> tf.Tensor:
        largest, rows = tf.reduce_max(tf.abs(x), axis=0), x[:: tf.maximum(tf.shape(x)[0] // self.ROWS, 1)]
        if name in self.seen:  # layers may share their weights
            largest = tf.maximum(largest, self.seen[name][0])
            rows = tf.concat([rows, self.seen[name][1]], axis=0)
        self.seen[name] = largest, rows
        return super().__call__(name, x, activation, dtype)


class Int8Products:
    """Int8 products. Their ranges are static, so that an answer does not depend on the rest of its batch.

    Args:
        weights: float32, by name.
        ranges: name of a product -> the range of its input.
    """

    def __init__(self, weights: Weights, ranges: Mapping[str, InputRange]) -> None:
        self.dtype = beside_int8()
        self._ranges = dict(ranges)
        if f"{FACTOR}/kernel" in weights:
            self._ranges[FACTOR] = ranges["intermediate"]
        divisors = {name: each.divisors for name, each in self._ranges.items() if each.divisors is not None}
        self._kernels, self._biases = {}, {}
        self._factors = {name: tf.constant(1 / each, tf.float32) for name, each in divisors.items()}
        if weights["qkv/kernel"].shape[1] == 3 * len(divisors["context"]):  # else, heads share values, but not divisors
            weights = _with_divided_values(weights, divisors["context"])
            del self._factors["context"]
        for name in self._ranges:
            kernel = weights[f"{name}/kernel"]
            if name in divisors:
                kernel = kernel * divisors[name][:, None]
            self._kernels[name] = onednn.QuantizedKernel(kernel)
            self._biases[name] = tf.constant(weights[f"{name}/bias"], tf.float32)

    def __call__(
        self, name: str, x: tf.Tensor, activation: str | None = None, dtype: tf.DType | None = None
    ) -> tf.Tensor:
        """See `FloatProducts`. The output of an activation stays int8 if the next product takes int8."""
        output = dtype or self.dtype
        if activation is not None:
            is_float = self._ranges["output"].divisors is not None
            output = tf.float32 if is_float else self._ranges["output"].limit
        return self._product(name, self._quantized(name, x), activation, output)

    def gated(self, name: str, x: tf.Tensor, activation: str) -> tf.Tensor:
        """See `FloatProducts`."""
        x = self._quantized(name, x)
        return self._product(name, x, activation, tf.float32) * self._product(FACTOR, x, None, tf.float32)

    def _quantized(self, name: str, x: tf.Tensor) -> tf.Tensor:
        if x.dtype == onednn.INT8:
            return x
        x = tf.cast(x, tf.float32)  # elementwise operations are slower in bfloat16
        return onednn.quantize(x * self._factors[name] if name in self._factors else x, self._ranges[name].limit)

    def _product(self, name: str, x: tf.Tensor, activation: str | None, output: tf.DType | float) -> tf.Tensor:
        limit, kernel, bias = self._ranges[name].limit, self._kernels[name], self._biases[name]
        return onednn.quantized_dense(x, limit, kernel, bias, activation, output)


def _with_divided_values(weights: Weights, divisors: np.ndarray) -> Weights:
    """The weights with attention's values divided. Means of divided values are divided means."""
    factors = np.concatenate([np.ones(2 * len(divisors), np.float32), 1 / divisors])
    return {**weights, **{name: weights[name] * factors for name in ("qkv/kernel", "qkv/bias")}}

"""One layer of the Transformer for inference in bfloat16 or int8: its dense layers, and the block that uses them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.attention import AttentionHeads
from keras_bert.encoder.positions import RelativeBias
from keras_bert.encoder.unpadding import AttentionMask, Unpadding
from keras_bert.inference import onednn
from keras_bert.inference.ranges import DENSE_LAYERS, InputRange

# -- Token embeddings, and their vectors: int `[tokens]` -> float32 `[tokens, width]`.

TokenEmbedding = Callable[[tf.Tensor], tf.Tensor]


def bfloat16_embedding(vectors: np.ndarray) -> TokenEmbedding:
    """Stores the vectors of all tokens, float32 `[vocab_size, width]`, in bfloat16."""
    values = tf.constant(vectors, tf.bfloat16)
    return lambda ids: tf.cast(tf.gather(values, ids), tf.float32)


def int8_embedding(vectors: np.ndarray) -> TokenEmbedding:
    """Stores the vectors of all tokens, float32 `[vocab_size, width]`, in int8, with a scale for each."""
    scales = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), np.finfo(np.float32).tiny) / onednn.LEVELS
    values, factors = tf.constant(np.rint(vectors / scales).astype(np.int8)), tf.constant(scales, tf.float32)
    return lambda ids: tf.cast(tf.gather(values, ids), tf.float32) * tf.gather(factors, ids)


# -- The dense layers of a block, by name, such as "qkv", in each precision.

ArraysByName = Mapping[str, np.ndarray]
Ranges: TypeAlias = "Mapping[str, InputRange] | None"  # of a block's dense layers; None: the block is left out of int8

# The up projection of a gated feed-forward layer: the half of "intermediate" without activation. Both halves have the
# same input.
UP = "up"


class FloatDense:
    """The dense layers of a block in float32 or bfloat16, from float32 weights by name, such as "qkv/kernel"."""

    def __init__(self, weights: ArraysByName, dtype: tf.DType) -> None:
        self.dtype = dtype
        self._constants = {name: tf.constant(value, dtype) for name, value in weights.items()}

    def __call__(
        self, name: str, x: tf.Tensor, activation: str | None = None, dtype: tf.DType | None = None
    ) -> tf.Tensor:
        """Computes `activation(x kernel + bias)` of a layer, `[tokens, inputs]` -> `[tokens, units]`, and casts it."""
        kernel, bias = self._constants[f"{name}/kernel"], self._constants[f"{name}/bias"]
        return tf.cast(onednn.dense(tf.cast(x, self.dtype), kernel, bias, activation), dtype or self.dtype)

    def gated(self, name: str, x: tf.Tensor, activation: str) -> tf.Tensor:
        """Computes a gated layer: `activation(x kernel + bias)` of `name`, times `x kernel + bias` of `UP`."""
        x = tf.cast(x, self.dtype)
        return self(name, x, activation) * FloatDense.__call__(self, UP, x)


class RecordingDense(FloatDense):
    """Dense layers in float32 that record their inputs, for calibration."""

    TOKENS = 32  # the approximate maximum of recorded tokens per batch

    def __init__(self, weights: ArraysByName) -> None:
        super().__init__(weights, tf.float32)
        # By layer, the largest absolute value of each input, [inputs], and the inputs of some tokens, [n, inputs].
        self.recorded: dict[str, tuple[tf.Tensor, tf.Tensor]] = {}

    def kernel(self, name: str) -> np.ndarray:
        """Joins all kernels that the layer's input is multiplied by: float32 `[inputs, units]`."""
        names = [name, UP] if name == "intermediate" and f"{UP}/kernel" in self._constants else [name]
        return np.concatenate([self._constants[f"{each}/kernel"].numpy() for each in names], axis=1)

    def __call__(
        self, name: str, x: tf.Tensor, activation: str | None = None, dtype: tf.DType | None = None
    ) -> tf.Tensor:
        largest, some = tf.reduce_max(tf.abs(x), axis=0), x[:: tf.maximum(tf.shape(x)[0] // self.TOKENS, 1)]
        if name in self.recorded:  # layers may share their weights
            largest = tf.maximum(largest, self.recorded[name][0])
            some = tf.concat([some, self.recorded[name][1]], axis=0)
        self.recorded[name] = largest, some
        return super().__call__(name, x, activation, dtype)


class Int8Dense:
    """The dense layers of a block in int8, with static ranges: no token depends on its batch. All else is float32."""

    dtype = tf.float32

    def __init__(self, weights: ArraysByName, ranges: Mapping[str, InputRange]) -> None:
        self._ranges = dict(ranges)
        if f"{UP}/kernel" in weights:
            self._ranges[UP] = ranges["intermediate"]
        scales = {name: each.smoothing_scales for name, each in self._ranges.items()}
        scales = {name: each for name, each in scales.items() if each is not None}
        self._kernels, self._biases = {}, {}
        self._inverse_scales = {name: tf.constant(1 / each, tf.float32) for name, each in scales.items()}
        if weights["qkv/kernel"].shape[1] == 3 * len(scales["context"]):  # otherwise, heads share V, but not scales
            weights = _fold_scales_into_values(weights, scales["context"])
            del self._inverse_scales["context"]
        for name in self._ranges:
            kernel = weights[f"{name}/kernel"]
            if name in scales:
                kernel = kernel * scales[name][:, None]
            self._kernels[name] = onednn.QuantizedKernel(kernel)
            self._biases[name] = tf.constant(weights[f"{name}/bias"], tf.float32)

    def __call__(
        self, name: str, x: tf.Tensor, activation: str | None = None, dtype: tf.DType | None = None
    ) -> tf.Tensor:
        """Computes a dense layer as `FloatDense` does; with a fused activation, it stays int8 for the next."""
        output_limit = None
        if activation is not None and self._ranges["output"].smoothing_scales is None:
            output_limit = self._ranges["output"].limit
        return self._compute_int8(name, self._quantize(name, x), activation, output_limit)

    def gated(self, name: str, x: tf.Tensor, activation: str) -> tf.Tensor:
        """Computes a gated layer as `FloatDense` does, in float32 after the int8 products."""
        x = self._quantize(name, x)
        return self._compute_int8(name, x, activation) * self._compute_int8(UP, x)

    def _quantize(self, name: str, x: tf.Tensor) -> tf.Tensor:
        if x.dtype == onednn.INT8:
            return x
        scaled = x * self._inverse_scales[name] if name in self._inverse_scales else x
        return onednn.quantize(scaled, self._ranges[name].limit)

    def _compute_int8(
        self, name: str, x: tf.Tensor, activation: str | None = None, output_limit: float | None = None
    ) -> tf.Tensor:
        limit, kernel, bias = self._ranges[name].limit, self._kernels[name], self._biases[name]
        return onednn.quantized_dense(x, limit, kernel, bias, activation, output_limit)


def _fold_scales_into_values(weights: ArraysByName, scales: np.ndarray) -> ArraysByName:
    """Folds the scales of attention's output into V: attention averages V, so scaling V scales its output."""
    factors = np.concatenate([np.ones(2 * len(scales), np.float32), 1 / scales])
    return {**weights, **{name: weights[name] * factors for name in ("qkv/kernel", "qkv/bias")}}


# -- The block.

DenseT = TypeVar("DenseT", bound=FloatDense | Int8Dense, covariant=True)


class InferenceBlock(Generic[DenseT]):
    """A `TransformerBlock` without dropout, with constant weights (float32, by name) and fused operations."""

    # Hidden states and normalization are float32, which costs no more, and hidden states are not rounded in each layer.
    # Scores and softmax have the type `dense.dtype`.

    def __init__(
        self,
        config: BertConfig,
        layer: int,
        weights: ArraysByName,
        make_dense: Callable[[ArraysByName, Ranges], DenseT],
        ranges: Ranges = None,
    ) -> None:
        self.config = config
        self.dense = make_dense(_dense_weights(config, weights), ranges)
        self._heads = AttentionHeads(config, layer)
        self._attention_norm = self._norm("attention_norm", weights)
        self._output_norm = self._norm("output_norm", weights)

    @property
    def int8_inputs(self) -> tuple[str, ...]:
        """The dense layers whose input is int8 already, because the layer before them fuses the activation."""
        is_fused = not self.config.gated and self.config.activation in onednn.FUSED
        return ("output",) if is_fused else ()

    def __call__(
        self,
        hidden: tf.Tensor,  # float32 [tokens, hidden], as the result
        unpadding: Unpadding,
        attention_mask: AttentionMask,
        relative: RelativeBias | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        bias = None if relative is None else relative.bias
        mask = attention_mask.additive(self._heads.is_local, self.dense.dtype.name, bias)
        if self.config.pre_norm:
            hidden = hidden + self._attention(self._attention_norm(hidden), unpadding, mask)
            return hidden + self._feed_forward(self._output_norm(hidden))
        hidden = self._attention_norm(hidden + self._attention(hidden, unpadding, mask))
        return self._output_norm(hidden + self._feed_forward(hidden))

    def _attention(self, hidden: tf.Tensor, unpadding: Unpadding, mask: tf.Tensor | None) -> tf.Tensor:
        # The kernel of Q holds the scale.
        context = self._heads.attend(self.dense("qkv", hidden), unpadding, onednn.scores, mask)
        return self.dense("context", context, dtype=tf.float32)

    def _feed_forward(self, hidden: tf.Tensor) -> tf.Tensor:
        compute = self.dense.gated if self.config.gated else self.dense
        return self.dense("output", compute("intermediate", hidden, self.config.activation), dtype=tf.float32)

    def _norm(self, name: str, weights: ArraysByName) -> Callable[[tf.Tensor], tf.Tensor]:
        """Makes a normalization from its weights; a first one that a block with `pre_norm` lacks changes nothing."""
        if name == "attention_norm" and self.config.pre_norm and f"{name}/gamma" not in weights:
            return lambda x: x
        gamma = weights[f"{name}/gamma"]
        scale, epsilon = tf.constant(gamma, tf.float32), self.config.layer_norm_epsilon
        if self.config.norm == "rms_norm":
            return lambda x: ops.rms_normalization(x, scale, axis=-1, epsilon=epsilon)
        shift = tf.constant(weights.get(f"{name}/beta", np.zeros_like(gamma)), tf.float32)
        return lambda x: onednn.layer_norm(x, scale, shift, epsilon)


def _dense_weights(config: BertConfig, weights: ArraysByName) -> dict[str, np.ndarray]:
    """Collects the dense layers' weights: lacking biases are 0, and Q's include the division by `sqrt(head_size)`."""
    dense = {}
    for name, path in DENSE_LAYERS.items():
        kernel = np.asarray(weights[f"{path}/kernel"])
        dense[f"{name}/kernel"] = kernel
        dense[f"{name}/bias"] = np.asarray(weights.get(f"{path}/bias", np.zeros(kernel.shape[1], np.float32)))
    scale = np.ones(sum(config.qkv_sizes), np.float32)
    scale[: config.qkv_sizes[0]] = 1 / math.sqrt(config.head_size)
    for part in ("kernel", "bias"):
        dense[f"qkv/{part}"] = dense[f"qkv/{part}"] * scale
        if config.gated:
            halves = np.split(dense[f"intermediate/{part}"], 2, axis=-1)
            dense[f"intermediate/{part}"], dense[f"{UP}/{part}"] = map(np.ascontiguousarray, halves)
    return dense

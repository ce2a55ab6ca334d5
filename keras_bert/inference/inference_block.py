"""One layer of the Transformer for inference in bfloat16 or int8."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.attention import AttentionHeads, masked
from keras_bert.encoder.block import residual
from keras_bert.encoder.layout import Layout
from keras_bert.inference import onednn
from keras_bert.inference.products import FACTOR, FloatProducts, Int8Products, Weights

# Product -> the path of its weights in a `TransformerBlock`.
_PATHS = {"qkv": "attention/qkv", "context": "attention/output", "intermediate": "intermediate", "output": "output"}


class InferenceBlock:
    """`TransformerBlock` without dropout, with constant weights and fused operations.

    Hidden states and normalization are float32: they cost no more, and are not rounded in each layer. Softmax is
    computed in float32, too.

    Args:
        config: the architecture.
        layer: the number of the layer, from 0.
        weights: the weights of a `TransformerBlock`, float32, by name.
        make_products: makes the dense layers from their weights.
    """

    def __init__(
        self,
        config: BertConfig,
        layer: int,
        weights: Weights,
        make_products: Callable[[Weights], FloatProducts | Int8Products],
    ) -> None:
        self.config = config
        self.products = make_products(_dense_weights(config, weights))
        self._heads = AttentionHeads(config, layer)
        self._attention_norm = self._norm("attention_norm", weights)
        self._output_norm = self._norm("output_norm", weights)

    @property
    def gets_int8(self) -> tuple[str, ...]:
        """The products whose input is int8 already, if the product before computes the activation in between."""
        is_fused = not self.config.gated and self.config.activation in onednn.FUSED
        return ("output",) if is_fused else ()

    def __call__(self, hidden: Any, layout: Layout, training: bool | None = None) -> Any:
        """float32 `[rows, hidden]` -> the same."""
        attention = lambda x: self._attention(x, layout)  # noqa: E731
        return residual(self.config, hidden, attention, self._attention_norm, self._feed_forward, self._output_norm)

    def _attention(self, hidden: Any, layout: Layout) -> Any:
        mask = _mask(layout, self._heads, self.products.dtype)

        def weights(query: Any, key: Any) -> Any:
            return tf.nn.softmax(onednn.scores(query, key, mask))  # the query is already scaled

        context = self._heads.attend(self.products("qkv", hidden), layout, weights)
        return self.products("context", context, dtype=tf.float32)

    def _feed_forward(self, hidden: Any) -> Any:
        compute = self.products.gated if self.config.gated else self.products
        return self.products("output", compute("intermediate", hidden, self.config.activation), dtype=tf.float32)

    def _norm(self, name: str, weights: Weights) -> Callable[[Any], Any] | None:
        """A normalization layer, or None if there is none."""
        if f"{name}/gamma" not in weights:
            return None
        gamma = weights[f"{name}/gamma"]
        scale, epsilon = tf.constant(gamma, tf.float32), self.config.layer_norm_epsilon
        if self.config.norm == "rms_norm":
            return lambda x: ops.rms_normalization(x, scale, axis=-1, epsilon=epsilon)
        shift = tf.constant(weights.get(f"{name}/beta", np.zeros_like(gamma)), tf.float32)
        return lambda x: onednn.layer_norm(x, scale, shift, epsilon)


def _mask(layout: Layout, heads: AttentionHeads, dtype: tf.DType) -> tf.Tensor | None:
    """The mask that is added to a layer's scores. Layers with equal masks share it.

    Returns:
        `[batch or 1, num_heads or 1, seq_length or 1, seq_length]`, in a band `[blocks, 1, block, 3 * block]`: very
        negative numbers hide keys. None: there is no mask.
    """
    key = "mask", heads.reach, dtype
    if key not in layout.shared:
        band = heads.band(layout)
        if band is not None:
            mask = tf.where(band.mask, tf.constant(0, dtype), dtype.min)
        elif layout.padding_mask is None and layout.bias is None and layout.same_document is None:
            mask = None
        else:  # float32's most negative number would become infinite in bfloat16
            mask = tf.cast(tf.maximum(masked(tf.zeros((1, 1, 1, 1)), layout), float(dtype.min)), dtype)
        layout.shared[key] = mask
    return layout.shared[key]


def _dense_weights(config: BertConfig, weights: Weights) -> dict[str, np.ndarray]:
    """The weights of the products; biases that the architecture lacks are zero.

    The query's weights are divided by sqrt(head size), so that scores need no scaling.
    """
    found = {}
    for name, path in _PATHS.items():
        kernel = np.asarray(weights[f"{path}/kernel"])
        found[f"{name}/kernel"] = kernel
        found[f"{name}/bias"] = np.asarray(weights.get(f"{path}/bias", np.zeros(kernel.shape[1], np.float32)))
    scale = np.ones(sum(config.qkv_sizes), np.float32)
    scale[: config.hidden_size] = 1 / math.sqrt(config.head_size)
    for part in ("kernel", "bias"):
        found[f"qkv/{part}"] = found[f"qkv/{part}"] * scale
        if config.gated:
            halves = np.split(found[f"intermediate/{part}"], 2, axis=-1)
            found[f"intermediate/{part}"], found[f"{FACTOR}/{part}"] = map(np.ascontiguousarray, halves)
    return found

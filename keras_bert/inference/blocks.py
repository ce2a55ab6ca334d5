"""Transformer blocks for inference in bfloat16 or int8."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.attention import masked
from keras_bert.encoder.layout import Layout
from keras_bert.encoder.weights import digest, values_by_name
from keras_bert.inference import onednn
from keras_bert.inference.calibration import input_ranges
from keras_bert.inference.losses import losses_of_blocks, mean_cosine
from keras_bert.inference.products import FloatProducts, Int8Products, RecordingProducts, Weights, beside_int8
from keras_bert.inference.ranges import Int8Ranges
from keras_bert.inference.token_table import TokenTable

PRECISIONS = ("float32", "bfloat16", "int8")

# Blocks are left out of int8 until the last hidden states of tokens have this mean cosine to those in float32.
_LEAST_COSINE = 0.98
_BATCHES = 8  # to measure that with

_PRODUCTS = {"qkv": "attention/qkv", "context": "attention/output", "intermediate": "intermediate", "output": "output"}


class InferenceBlock:
    """`TransformerBlock` without dropout; its weights are constants, its operations fused.

    Softmax, and the sums of layer normalization, are float32.

    Args:
        config: the architecture.
        weights: of a `TransformerBlock`, float32, by name.
        make_products: makes the dense layers from their weights.
    """

    def __init__(
        self, config: BertConfig, weights: Weights, make_products: Callable[[Weights], FloatProducts | Int8Products]
    ) -> None:
        self.config = config
        self.products = make_products(_dense_weights(config, weights))
        self._norms = {
            f"{name}/{part}": tf.constant(weights[f"{name}/{part}"], self.products.dtype)
            for name in ("attention_norm", "output_norm")
            for part in ("gamma", "beta")
        }

    def __call__(self, hidden: Any, layout: Layout, training: bool | None = None) -> Any:
        """float `[rows, hidden]` -> bfloat16 of that shape."""
        hidden = tf.cast(hidden, self.products.dtype)
        hidden = self._norm("attention_norm", hidden + self._attention(hidden, layout))
        intermediate = self.products("intermediate", hidden, self.config.activation)
        return self._norm("output_norm", hidden + self.products("output", intermediate))

    def _attention(self, hidden: Any, layout: Layout) -> Any:
        heads, width = self.config.num_heads, self.config.hidden_size
        qkv = layout.sequences(self.products("qkv", hidden))  # [batch, seq_length, 3 * hidden]
        qkv = tf.reshape(qkv, (*layout.shape, 3, heads, width // heads))
        query, key, value = tf.unstack(tf.transpose(qkv, (2, 0, 3, 1, 4)), 3)  # the query is scaled already
        scores = tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32)
        weights = tf.cast(tf.nn.softmax(masked(scores, layout)), hidden.dtype)
        context = tf.transpose(tf.matmul(weights, value), (0, 2, 1, 3))  # [batch, seq_length, num_heads, head_size]
        return self.products("context", tf.reshape(layout.rows(context), (-1, width)))

    def _norm(self, name: str, x: Any) -> Any:
        gamma, beta = self._norms[f"{name}/gamma"], self._norms[f"{name}/beta"]
        return onednn.layer_norm(x, gamma, beta, self.config.layer_norm_epsilon)


def set_precision(
    encoder: BertEncoder,
    precision: str,
    batches: Iterable[dict[str, Any]] = (),
    ranges: Int8Ranges | None = None,
) -> None:
    """Makes an encoder compute its layers in a precision, from the weights that it has now.

    Training needs "float32". Sums of embeddings, and the pooler, stay float32.

    Args:
        encoder: as loaded or trained.
        precision: "float32", "bfloat16" or "int8".
        batches: inputs of the encoder, for the ranges of int8.
        ranges: those of an earlier calibration, in place of batches.

    Raises:
        ValueError: an unknown precision, int8 without batches, ranges of another encoder, or not what this machine,
            Keras's backend or the activation of this family can do.
    """
    _check(encoder.config, precision)
    encoder.inference = None
    if precision == "float32":
        return
    weights = values_by_name(encoder)
    words = TokenTable(np.asarray(weights["embeddings/word/embeddings"]), precision)
    if precision == "bfloat16":
        blocks = _blocks(encoder.config, weights, lambda _, dense: FloatProducts(dense, tf.bfloat16))
    elif ranges is not None:
        if ranges.weights != digest(encoder):
            raise ValueError("these ranges of int8 were found for other weights; calibrate again")
        blocks = _int8_blocks(encoder.config, weights, ranges)
    else:
        ranges, blocks = _calibrated(encoder, weights, words, list(batches))
    encoder.inference = Inference(
        precision, functools.partial(encoder.run, blocks=blocks, words=words), ranges if precision == "int8" else None
    )


def _calibrated(
    encoder: BertEncoder, weights: Weights, words: TokenTable, batches: list[dict[str, Any]]
) -> tuple[Int8Ranges, list[InferenceBlock]]:
    """Ranges for all blocks, but for those that lose most by themselves if all of them together lose too much."""
    found = input_ranges(encoder, _blocks(encoder.config, weights, lambda _, dense: RecordingProducts(dense)), batches)
    ranges = Int8Ranges(tuple(found), digest(encoder), is_built_in=False)
    blocks = _int8_blocks(encoder.config, weights, ranges)
    some = batches[:_BATCHES]
    if mean_cosine(encoder, blocks, words, some) < _LEAST_COSINE:
        in_float = _blocks(encoder.config, weights, lambda _, dense: FloatProducts(dense, beside_int8()))
        for worst in np.argsort(-losses_of_blocks(encoder, blocks, some)):
            found[worst], blocks[worst] = None, in_float[worst]
            if mean_cosine(encoder, blocks, words, some) >= _LEAST_COSINE:
                break
        ranges = dataclasses.replace(ranges, blocks=tuple(found))
    return ranges, blocks


def _int8_blocks(config: BertConfig, weights: Weights, ranges: Int8Ranges) -> list[InferenceBlock]:
    def products(i: int, dense: Weights) -> FloatProducts | Int8Products:
        of_block = ranges.blocks[i]
        return FloatProducts(dense, beside_int8()) if of_block is None else Int8Products(dense, of_block)

    return _blocks(config, weights, products)


class Inference:
    """An encoder's computation in low precision.

    Args:
        precision: "bfloat16" or "int8".
        run: the inputs of the encoder -> its outputs.
        ranges: of int8.
    """

    def __init__(
        self, precision: str, run: Callable[[dict[str, Any]], dict[str, Any]], ranges: Int8Ranges | None = None
    ) -> None:
        self.precision = precision
        self.ranges = ranges
        self._run = run
        self._in_a_graph = tf.function(run, autograph=False, reduce_retracing=True)

    def __call__(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return self._in_a_graph(inputs) if tf.executing_eagerly() else self._run(inputs)


def _blocks(
    config: BertConfig, weights: Weights, make_products: Callable[[int, Weights], FloatProducts | Int8Products]
) -> list[InferenceBlock]:
    made = []
    for i in range(config.groups):
        prefix = f"block_{i}/"
        own = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
        made.append(InferenceBlock(config, own, functools.partial(make_products, i)))
    return made


def _check(config: BertConfig, precision: str) -> None:
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")
    if precision == "float32":
        return
    other = [name for name in config.block_changes if name != "relative_buckets"]
    if other:
        raise ValueError(
            f"precision={precision!r} computes layers as BERT's only, and this model's are others "
            f'({", ".join(other)}); use "float32"'
        )
    if keras.backend.backend() != "tensorflow":
        raise ValueError(f"precision={precision!r} needs Keras's TensorFlow backend, not {keras.backend.backend()}")
    if precision == "bfloat16" and not onednn.has_bfloat16():
        raise ValueError('precision="bfloat16" needs a processor with AVX-512, and this one has none; use "float32"')
    if precision == "int8" and not onednn.has_int8():
        raise ValueError(
            'precision="int8" needs TensorFlow\'s oneDNN operations for x86, which this processor or this build of '
            'TensorFlow lacks; use "float32"'
        )
    if config.activation not in onednn.ACTIVATIONS:
        raise ValueError(f'precision={precision!r} does not know the activation {config.activation}; use "float32"')


def _dense_weights(config: BertConfig, weights: Weights) -> dict[str, np.ndarray]:
    """The weights of the products. The query's are divided by sqrt(head size), so that scores need not be."""
    found = {
        f"{name}/{part}": np.asarray(weights[f"{path}/{part}"])
        for name, path in _PRODUCTS.items()
        for part in ("kernel", "bias")
    }
    scale = np.ones(3 * config.hidden_size, np.float32)
    scale[: config.hidden_size] = 1 / math.sqrt(config.hidden_size // config.num_heads)
    return {name: value * scale if name.startswith("qkv/") else value for name, value in found.items()}

"""Sets the precision of an encoder's layers: float32, bfloat16 or int8."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert import processors
from keras_bert.choices import PRECISIONS
from keras_bert.config import BertConfig
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.weights import digest, values_by_name
from keras_bert.inference import onednn
from keras_bert.inference.calibration import block_errors, input_ranges, mean_cosine
from keras_bert.inference.inference_block import (
    ArraysByName,
    DenseT,
    FloatDense,
    InferenceBlock,
    Int8Dense,
    RecordingDense,
    TokenTable,
)
from keras_bert.inference.ranges import InputRange, Int8Ranges
from keras_bert.tensors import EncoderOutputs

# The minimum mean cosine of tokens' last hidden states, in int8 and in float32, on the texts of the calibration. Below
# it, blocks are left out of int8.
_MIN_CALIBRATION_COSINE = 0.98
_BATCHES = 8  # the number of batches that measure the mean cosine


def set_precision(
    encoder: BertEncoder,
    precision: str,
    batches: Iterable[dict[str, tf.Tensor]] = (),
    ranges: Int8Ranges | None = None,
) -> None:
    """Sets the precision of an encoder's layers, with its current weights.

    Use "bfloat16" or "int8" for inference on an x86 processor where they are faster. Training needs "float32". The sum
    of the embeddings and the pooler stay float32. After a change of the weights, call it again.

    Args:
        encoder: the encoder.
        precision: "float32", "bfloat16" or "int8".
        batches: inputs of the encoder that calibrate int8.
        ranges: the ranges of an earlier calibration, in place of batches.

    Raises:
        ValueError: the precision is unknown, int8 has no batches, the ranges belong to another encoder, the model has
            disentangled attention, or the machine or the Keras backend does not support the precision.
    """
    _check(encoder.config, precision)
    encoder.inference = None
    if precision == "float32":
        return
    weights = values_by_name(encoder)
    token_table = TokenTable(np.asarray(weights["embeddings/word/embeddings"]), precision)
    if precision == "bfloat16":
        blocks = _make_blocks(encoder.config, weights, lambda _, arrays: FloatDense(arrays, tf.bfloat16))
    elif ranges is not None:
        if ranges.weights != digest(encoder):
            raise ValueError("these int8 ranges belong to other weights; calibrate again")
        blocks = _make_int8_blocks(encoder.config, weights, ranges)
    else:
        ranges, blocks = _calibrate(encoder, weights, token_table, list(batches))
    encoder.inference = Inference(precision, encoder.run, blocks, token_table, ranges if precision == "int8" else None)


def _calibrate(
    encoder: BertEncoder, weights: ArraysByName, token_table: TokenTable, batches: list[dict[str, tf.Tensor]]
) -> tuple[Int8Ranges, list[InferenceBlock[FloatDense | Int8Dense]]]:
    """Calibrates all blocks, and leaves out the blocks that lose most if int8 loses too much."""
    recording = _make_blocks(encoder.config, weights, lambda _, arrays: RecordingDense(arrays))
    ranges_by_block: list[Mapping[str, InputRange] | None] = [*input_ranges(encoder, recording, batches)]
    ranges = Int8Ranges(tuple(ranges_by_block), digest(encoder), is_built_in=False)
    blocks = _make_int8_blocks(encoder.config, weights, ranges)
    sample = batches[:_BATCHES]
    if mean_cosine(encoder, blocks, token_table, sample) < _MIN_CALIBRATION_COSINE:
        float_blocks = _make_blocks(encoder.config, weights, lambda _, arrays: FloatDense(arrays, tf.float32))
        for worst in np.argsort(-block_errors(encoder, blocks, sample)):
            ranges_by_block[worst], blocks[worst] = None, float_blocks[worst]
            if mean_cosine(encoder, blocks, token_table, sample) >= _MIN_CALIBRATION_COSINE:
                break
        ranges = dataclasses.replace(ranges, blocks=tuple(ranges_by_block))
    return ranges, blocks


def _make_int8_blocks(
    config: BertConfig, weights: ArraysByName, ranges: Int8Ranges
) -> list[InferenceBlock[FloatDense | Int8Dense]]:
    def make_dense(i: int, arrays: ArraysByName) -> FloatDense | Int8Dense:
        block_ranges = ranges.blocks[i]
        return FloatDense(arrays, tf.float32) if block_ranges is None else Int8Dense(arrays, block_ranges)

    return _make_blocks(config, weights, make_dense)


def cosine_to_float32(encoder: BertEncoder, batches: Iterable[dict[str, tf.Tensor]]) -> float:
    """Measures the mean cosine of tokens' last hidden states, in the encoder's precision and in float32.

    Use it to see what low precision costs: 1 means that nothing is lost.

    Args:
        encoder: an encoder in low precision.
        batches: inputs of the encoder.
    """
    inference = encoder.inference
    return mean_cosine(encoder, inference.blocks, inference.token_embedding, batches)


class Inference:
    """An encoder's computation in low precision.

    Args:
        precision: "bfloat16" or "int8".
        run: the encoder's method `run`.
        blocks: the encoder's blocks in this precision.
        token_embedding: the encoder's table of token embeddings in this precision.
        ranges: the int8 ranges; None for bfloat16.
    """

    def __init__(
        self,
        precision: str,
        run: Callable[..., EncoderOutputs],
        blocks: Sequence[InferenceBlock],
        token_embedding: TokenTable,
        ranges: Int8Ranges | None = None,
    ) -> None:
        self.precision = precision
        self.blocks = blocks
        self.token_embedding = token_embedding
        self.ranges = ranges
        self._run = run = functools.partial(run, blocks=blocks, token_embedding=token_embedding)
        self._traced_run = tf.function(run, autograph=False, reduce_retracing=True)

    def __call__(self, inputs: Mapping[str, tf.Tensor]) -> EncoderOutputs:
        return self._traced_run(inputs) if tf.executing_eagerly() else self._run(inputs)


def _make_blocks(
    config: BertConfig, weights: ArraysByName, make_dense: Callable[[int, ArraysByName], DenseT]
) -> list[InferenceBlock[DenseT]]:
    blocks = []
    for i in range(config.groups):
        prefix = f"block_{i}/"
        block_weights = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
        blocks.append(InferenceBlock(config, i, block_weights, functools.partial(make_dense, i)))
    return blocks


def _check(config: BertConfig, precision: str) -> None:
    if precision not in PRECISIONS:
        raise ValueError(f"precision is {precision!r}; expected one of {', '.join(PRECISIONS)}")
    if precision == "float32":
        return
    if config.disentangled_buckets is not None:
        raise ValueError(
            f"precision={precision!r} does not support disentangled attention (disentangled_buckets), which "
            'this model has; use "float32"'
        )
    if keras.backend.backend() != "tensorflow":
        raise ValueError(f"precision={precision!r} needs Keras's TensorFlow backend, not {keras.backend.backend()}")
    if precision == "bfloat16" and not processors.has_bfloat16():
        raise ValueError('precision="bfloat16" needs a processor with AVX-512, and this one has none; use "float32"')
    if precision == "int8" and not onednn.has_int8():
        raise ValueError(
            'precision="int8" needs TensorFlow\'s oneDNN operations for x86, which this processor or this build of '
            'TensorFlow lacks; use "float32"'
        )

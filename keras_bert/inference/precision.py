"""Sets the precision of an encoder's layers: float32, or one of the table `LOW_PRECISIONS`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from keras_bert import processors
from keras_bert.choices import check_choice
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
    Ranges,
    RecordingDense,
    TokenEmbedding,
    bfloat16_embedding,
    int8_embedding,
)
from keras_bert.inference.ranges import Int8Ranges
from keras_bert.precisions import INFERENCE, PRECISIONS
from keras_bert.tensors import EncoderOutputs


@dataclass(frozen=True)
class LowPrecision:
    """How an encoder computes in a precision below float32."""

    make_dense: Callable[[ArraysByName, Ranges], FloatDense | Int8Dense]  # of a block, from its weights
    make_embedding: Callable[[np.ndarray], TokenEmbedding]  # from the vectors of all tokens
    is_supported: Callable[[], bool]  # by this processor and this TensorFlow
    needs: str  # what they lack if not
    processors: str  # of a SavedModel, for its README


def _int8_dense(arrays: ArraysByName, ranges: Ranges) -> FloatDense | Int8Dense:
    return FloatDense(arrays, tf.float32) if ranges is None else Int8Dense(arrays, ranges)


LOW_PRECISIONS = {
    "bfloat16": LowPrecision(
        lambda arrays, ranges: FloatDense(arrays, tf.bfloat16),
        bfloat16_embedding,
        lambda: processors.has_bfloat16(),  # which tests replace
        "a processor with AVX-512, and this one has none",
        "The processor must have AVX-512: without it, oneDNN ends the process. It is fast with AVX512_BF16 or AMX.",
    ),
    "int8": LowPrecision(
        _int8_dense,
        int8_embedding,
        onednn.has_int8,
        "TensorFlow's oneDNN operations for x86, which this processor or this build of TensorFlow lacks",
        "It runs on any x86 processor, and is fast on those with AVX512_VNNI or AMX.",
    ),
}

# The minimum mean cosine of tokens' last hidden states, in int8 and in float32, on the texts of the calibration. Below
# it, blocks are left out of int8.
_MIN_CALIBRATION_COSINE = 0.98
_BATCHES = 8  # the number of batches that measure the mean cosine


def set_precision(
    encoder: BertEncoder, precision: str, batches: Iterable[dict[str, tf.Tensor]] = (), ranges: Int8Ranges | None = None
) -> None:
    """Sets the precision of an encoder's layers, with its current weights.

    Use "bfloat16" or "int8" for inference on an x86 processor where they are faster. Training needs "float32". The sum
    of the embeddings and the pooler stay float32. After a change of the weights, call it again.

    Args:
        encoder, precision: an encoder, and "float32", "bfloat16" or "int8".
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
    low, weights = LOW_PRECISIONS[precision], values_by_name(encoder)
    embedding = low.make_embedding(np.asarray(weights["embeddings/word/embeddings"]))
    if not PRECISIONS[precision].has_ranges:
        ranges, blocks = None, _make_blocks(encoder.config, weights, low.make_dense)
    elif ranges is None:
        ranges, blocks = _calibrate(encoder, weights, low, embedding, list(batches))
    elif ranges.weights != digest(encoder):
        raise ValueError(f"these {precision} ranges belong to other weights; calibrate again")
    else:
        blocks = _make_blocks(encoder.config, weights, low.make_dense, ranges.blocks)
    encoder.inference = Inference(precision, encoder.run, blocks, embedding, ranges)


def _calibrate(
    encoder: BertEncoder,
    weights: ArraysByName,
    low: LowPrecision,
    embedding: TokenEmbedding,
    batches: list[dict[str, tf.Tensor]],
) -> tuple[Int8Ranges, list[InferenceBlock[FloatDense | Int8Dense]]]:
    """Calibrates all blocks, and leaves out the blocks that lose most if the precision loses too much."""
    recording = _make_blocks(encoder.config, weights, lambda arrays, _: RecordingDense(arrays))
    ranges: list[Ranges] = [*input_ranges(encoder, recording, batches)]
    blocks = _make_blocks(encoder.config, weights, low.make_dense, ranges)
    sample = batches[:_BATCHES]
    if mean_cosine(encoder, blocks, embedding, sample) < _MIN_CALIBRATION_COSINE:
        left_out = _make_blocks(encoder.config, weights, low.make_dense)
        for worst in np.argsort(-block_errors(encoder, blocks, sample)):
            ranges[worst], blocks[worst] = None, left_out[worst]
            if mean_cosine(encoder, blocks, embedding, sample) >= _MIN_CALIBRATION_COSINE:
                break
    return Int8Ranges(tuple(ranges), digest(encoder), is_built_in=False), blocks


def cosine_to_float32(encoder: BertEncoder, batches: Iterable[dict[str, tf.Tensor]]) -> float:
    """Measures the mean cosine of tokens' last hidden states, in the encoder's low precision and in float32.

    Use it to see what low precision costs for `batches` of the encoder's inputs: 1 means that nothing is lost.
    """
    inference = encoder.inference
    return mean_cosine(encoder, inference.blocks, inference.token_embedding, batches)


class Inference:
    """An encoder's computation in low precision: its `run` with blocks and token embeddings in this precision."""

    def __init__(
        self,
        precision: str,
        run: Callable[..., EncoderOutputs],
        blocks: Sequence[InferenceBlock],
        token_embedding: TokenEmbedding,
        ranges: Int8Ranges | None = None,  # only int8 has some
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
    config: BertConfig,
    weights: ArraysByName,
    make_dense: Callable[[ArraysByName, Ranges], DenseT],
    ranges: Sequence[Ranges] | None = None,
) -> list[InferenceBlock[DenseT]]:
    blocks = []
    for i in range(config.groups):
        prefix = f"block_{i}/"
        block_weights = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
        dense_ranges = None if ranges is None else ranges[i]
        blocks.append(InferenceBlock(config, i, block_weights, make_dense, dense_ranges))
    return blocks


def _check(config: BertConfig, precision: str) -> None:
    check_choice("precision", precision, INFERENCE)
    if precision == "float32":
        return
    if config.disentangled_buckets is not None:
        raise ValueError(
            f"precision={precision!r} does not support disentangled attention (disentangled_buckets), which "
            'this model has; use "float32"'
        )
    if keras.backend.backend() != "tensorflow":
        raise ValueError(f"precision={precision!r} needs Keras's TensorFlow backend, not {keras.backend.backend()}")
    if not LOW_PRECISIONS[precision].is_supported():
        raise ValueError(f'precision="{precision}" needs {LOW_PRECISIONS[precision].needs}; use "float32"')

"""Calibrates int8: finds the input ranges of dense layers from sample texts, and measures the error against float32."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.encoder import BertEncoder
from keras_bert.inference.inference_block import InferenceBlock, RecordingDense, TokenEmbedding
from keras_bert.inference.ranges import InputRange

# The built-in texts for calibration: sentences of many kinds and lengths.
SAMPLE_TEXTS = Path(__file__).with_name("sample_texts.txt").read_text(encoding="utf-8").splitlines()

# SmoothQuant's alpha, the migration strength: 1 moves all differences in size between inputs into the kernel, 0 none.
_SMOOTHING = 0.6

# Dense layer -> the factor that widens its input's limit. Attention's outputs are largest if one key takes all the
# weight, which is rare in calibration texts. Over 1,500 texts of STS-B, the factor raised the worst cosine to float32
# from 0.967 to 0.986; the mean did not fall.
_LIMIT_FACTORS = {"context": 1.5}

# Candidates for a limit, as shares of the largest absolute value.
_CANDIDATE_SHARES = np.linspace(0.1, 1.0, 19)


def input_ranges(
    encoder: BertEncoder, blocks: Sequence[InferenceBlock[RecordingDense]], batches: Iterable[dict[str, tf.Tensor]]
) -> list[dict[str, InputRange]]:
    """Finds the int8 range of each dense layer's input in each block. Raises ValueError if there are no batches."""
    largest, samples = _record(encoder, blocks, batches)
    ranges = []
    for index, block in enumerate(blocks):
        block_ranges = {}
        for name in block.dense.recorded:
            inputs, kernel = np.concatenate(samples[index, name]), block.dense.kernel(name)
            scales = None
            if name not in block.int8_inputs:
                scales = _smoothing_scales(largest[index, name], kernel)
                inputs, kernel = inputs / scales, kernel * scales[:, None]
            block_ranges[name] = InputRange(_best_limit(inputs, kernel) * _LIMIT_FACTORS.get(name, 1.0), scales)
        ranges.append(block_ranges)
    return ranges


def _record(
    encoder: BertEncoder, blocks: Sequence[InferenceBlock[RecordingDense]], batches: Iterable[dict[str, tf.Tensor]]
) -> tuple[dict[tuple[int, str], np.ndarray], dict[tuple[int, str], list[np.ndarray]]]:
    """Records each dense layer's inputs by `(block, name)`: the largest absolute values `[inputs]`, and some tokens."""

    @tf.function(autograph=False, reduce_retracing=True)
    def record(inputs: dict[str, tf.Tensor]) -> list[dict[str, tuple[tf.Tensor, tf.Tensor]]]:
        for block in blocks:
            block.dense.recorded = {}
        encoder.run(inputs, blocks)
        return [dict(block.dense.recorded) for block in blocks]

    largest: dict[tuple[int, str], np.ndarray] = {}
    samples: dict[tuple[int, str], list[np.ndarray]] = {}
    for batch in batches:
        for i, recorded in enumerate(record(batch)):
            for name, (batch_largest, some) in recorded.items():
                largest[i, name] = np.maximum(largest.get((i, name), 0.0), batch_largest.numpy())
                samples.setdefault((i, name), []).append(some.numpy())
    if not samples:
        raise ValueError("there are no texts to calibrate int8 with; pass a few hundred texts")
    return largest, samples


def _smoothing_scales(largest: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Computes SmoothQuant's scales, `max|x_j|^alpha / max|W_j|^(1 - alpha)` for input j: float32 `[inputs]`."""
    largest_weight = np.abs(kernel).max(axis=1)
    scales = np.maximum(largest, 1e-3) ** _SMOOTHING / np.maximum(largest_weight, 1e-5) ** (1 - _SMOOTHING)
    return scales.astype(np.float32)


def _best_limit(inputs: np.ndarray, kernel: np.ndarray) -> float:
    """Finds the limit that minimizes the mean of `|(q(x) - x) W|^2 / |x W|^2` over tokens; q rounds to int8."""
    # A few tokens, such as `[SEP]`, have the largest values. A limit that does not clip them would cost all others
    # precision.
    largest = float(np.abs(inputs).max()) or 1.0
    squared_norms = np.square(inputs @ kernel).sum(axis=1) + np.finfo(np.float32).tiny

    def error(limit: float) -> float:
        rounded = np.clip(np.rint(inputs * (127 / limit)), -127, 127) * (limit / 127)
        return float((np.square((rounded - inputs) @ kernel).sum(axis=1) / squared_norms).mean())

    return min((float(share * largest) for share in _CANDIDATE_SHARES), key=error)


# -- The error of an encoder in int8, of each block and in total.

Block = Callable[..., tf.Tensor]


def block_errors(
    encoder: BertEncoder, int8_blocks: Sequence[Block], batches: Iterable[dict[str, tf.Tensor]]
) -> np.ndarray:
    """Measures errors, float32 `[blocks]`: 1 - mean cosine to the float32 block, each given the float32 inputs."""

    @tf.function(autograph=False, reduce_retracing=True)
    def errors(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        found: list[list[tf.Tensor]] = [[] for _ in int8_blocks]  # of each block, [tokens] for each of its uses

        def run_both(hidden: tf.Tensor, block: int, **settings: Any) -> tf.Tensor:
            exact = encoder.blocks[block](hidden, **settings)
            found[block].append(tf.reshape(1 - _cosines(exact, int8_blocks[block](hidden, **settings)), [-1]))
            return exact

        encoder.run(inputs, [functools.partial(run_both, block=block) for block in range(len(int8_blocks))])
        return tf.stack([tf.concat(each, axis=0) for each in found])  # [blocks, tokens]

    return np.concatenate([errors(batch).numpy() for batch in batches], axis=1).mean(axis=1)


def mean_cosine(
    encoder: BertEncoder,
    blocks: Sequence[Block],
    token_embedding: TokenEmbedding,
    batches: Iterable[dict[str, tf.Tensor]],
) -> float:
    """Measures the mean cosine of tokens' last hidden states: with these blocks and embeddings, and in float32."""

    @tf.function(autograph=False, reduce_retracing=True)
    def cosines(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        exact = encoder.run(inputs, encoder.blocks)["sequence_output"]
        approximate = encoder.run(inputs, blocks, token_embedding=token_embedding)["sequence_output"]
        mask = inputs.get("input_mask", tf.ones_like(inputs["input_word_ids"]))  # without a mask there is no padding
        return tf.boolean_mask(_cosines(exact, approximate), tf.not_equal(mask, 0))  # [tokens]

    return float(np.concatenate([cosines(batch).numpy() for batch in batches]).mean())


def _cosines(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    x, y = (tf.math.l2_normalize(tf.cast(each, tf.float32), axis=-1) for each in (x, y))
    return tf.reduce_sum(x * y, axis=-1)

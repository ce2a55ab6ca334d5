"""TensorFlow's fused oneDNN operations, which have no public Python function: see `add_private_operation`.

TensorFlow's stock wheel for x86 Linux has them. They work only inside traced functions.
"""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf

from keras_bert.undocumented import add_private_operation

# Operations that `tf.raw_ops` lacks.
OPERATIONS = ("_MklNativeFusedMatMul", "_MklFusedBatchMatMulV2", "_MklLayerNorm", "_MklSwish", "_QuantizedMatMul")

INT8 = tf.qint8
LEVELS = 127  # int8 from -127 to 127

# Weights have one bit less. Without VNNI, oneDNN makes the inputs unsigned, at most 255, and adds two products in 16
# bits. These sums saturate beyond 2^15 - 1, and 2 * 255 * 64 is below that.
WEIGHT_LEVELS = 64


@functools.cache
def has_int8() -> bool:
    """Checks whether this TensorFlow has int8 products, and computes those of the largest values correctly."""
    x = np.stack([np.ones(64), -np.ones(64), np.tile([1, -1], 32)]).astype(np.float32)
    kernel = x.T / 16

    @tf.function(autograph=False)
    def product() -> tf.Tensor:
        return quantized_dense(quantize(tf.constant(x), 1.0), 1.0, QuantizedKernel(kernel), tf.zeros(3), "gelu")

    try:
        return np.allclose(product(), tf.nn.gelu(x @ kernel), atol=0.02)
    except (tf.errors.OpError, ValueError):
        return False


def dense(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, activation: str | None = None) -> tf.Tensor:
    """Computes `activation(x kernel + bias)`, `[tokens, units]`, of constants, which oneDNN reorders once."""
    (y,) = add_private_operation(
        "_MklNativeFusedMatMul",
        [x, kernel, bias],
        [x.dtype],
        T=x.dtype,
        num_args=1,
        fused_ops=["BiasAdd", *_fused_operations(activation)],
        transpose_a=False,
        transpose_b=False,
        is_filter_const=True,
        _kernel="MklNameChangeOp",
    )
    return _apply_unfused(activation, y)


def scores(query: tf.Tensor, key: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
    """Computes `query key^T + mask`, all of one type, `[batch, heads, queries, keys]`; rounds only after the sum."""
    if mask is None:
        return tf.matmul(query, key, transpose_b=True)
    (y,) = add_private_operation(
        "_MklFusedBatchMatMulV2",
        [query, key, tf.constant(1, query.dtype), mask],
        [query.dtype],
        T=query.dtype,
        num_args=2,
        fused_ops=["Mul", "Add"],
        adj_x=False,
        adj_y=True,
    )
    return y


def silu(x: tf.Tensor) -> tf.Tensor:
    """Computes `x sigmoid(x)` (Elfwing et al. 2017), in one operation."""
    (y,) = add_private_operation("_MklSwish", [x], [x.dtype], T=x.dtype)
    return y


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Computes layer normalization over the last axis in one operation; sums are float32 even for bfloat16."""
    (y,) = add_private_operation("_MklLayerNorm", [x, gamma, beta], [x.dtype], T=x.dtype, epsilon=float(epsilon))
    return y


def quantize(x: tf.Tensor, limit: float) -> tf.Tensor:
    """Converts float32 to int8: `limit` becomes 127, `-limit` becomes -127, and numbers beyond are clipped."""
    return tf.raw_ops.QuantizeV2(
        input=x, min_range=-limit, max_range=limit, T=INT8, mode="SCALED", round_mode="HALF_TO_EVEN", narrow_range=True
    ).output


def quantized_dense(
    x: tf.Tensor,
    limit: float,
    kernel: QuantizedKernel,
    bias: tf.Tensor,
    activation: str | None = None,
    output_limit: float | None = None,
) -> tf.Tensor:
    """Computes `activation(x kernel + bias)` with an int8 product: `[tokens, inputs]` -> `[tokens, units]`."""
    # `limit` is what 127 stands for in `x`. The result is float32 or, with its own limit and with no activation or one
    # in `FUSED`, int8.
    ranges = [tf.constant(-limit), tf.constant(limit), tf.constant(-kernel.limits), tf.constant(kernel.limits)]
    out, range_outputs = tf.float32, []
    if output_limit is not None:
        out, range_outputs = INT8, [tf.float32, tf.float32]
        ranges += [tf.constant(-output_limit), tf.constant(output_limit)]
    product = add_private_operation(
        "_QuantizedMatMul",
        [x, tf.bitcast(kernel.values, INT8), bias, *ranges],
        [out, *range_outputs],
        Tdevice_inputs=[INT8, INT8, tf.float32],
        Thost_inputs=[tf.float32] * len(ranges),
        Tdevice_outputs=[out],
        Thost_outputs=range_outputs,
        T1=INT8,
        T2=INT8,
        Tbias=tf.float32,
        U=tf.float32,
        Tout=out,
        transpose_a=False,
        transpose_b=False,
        is_weight_const=True,
        is_bias_const=True,
        fused_ops=["BiasAdd", *_fused_operations(activation), "Dequantize" if output_limit is None else "Requantize"],
        input_quant_mode="SCALED",
        output_quant_mode="SCALED",
    )
    return _apply_unfused(activation, product[0])


class QuantizedKernel:
    """A matrix, float32 `[inputs, units]`, in int8, with a scale for each column."""

    def __init__(self, kernel: np.ndarray) -> None:
        scales = np.maximum(np.abs(kernel).max(axis=0), np.finfo(np.float32).tiny).astype(np.float32) / WEIGHT_LEVELS
        self.limits = scales * LEVELS  # [units]: what 127 stands for
        self.values = tf.constant(np.rint(kernel / scales).astype(np.int8))  # at most WEIGHT_LEVELS


# Activations that oneDNN computes within a product -> oneDNN's names for them.
FUSED = {"gelu": "GeluExact", "gelu_tanh": "GeluApproximate", "relu": "Relu"}


def _fused_operations(activation: str | None) -> list[str]:
    return [FUSED[activation]] if activation in FUSED else []


def _apply_unfused(activation: str | None, y: tf.Tensor) -> tf.Tensor:
    """Computes an activation that oneDNN does not compute within a product."""
    return y if activation is None or activation in FUSED else {"silu": silu}[activation](y)

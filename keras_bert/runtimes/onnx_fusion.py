"""Fuses the ONNX graph of a model: an operator each for attention, layer normalization, GELU and look-ups.

TensorFlow spells these out, in some sixty nodes a block, and a short text waits for their overhead. What has another
shape, such as attention with relative positions, stays as it is. ONNX Runtime fuses tanh's GELU itself when it loads.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx
    from onnxscript import ir

_MICROSOFT = "com.microsoft"  # the domain of ONNX Runtime's own operators
_INT32 = 6  # onnx.TensorProto.INT32

# A rule is the expression that TensorFlow writes, the one that replaces it, and a condition on what the names match.
# `op` makes the node of an operator; all other arguments are values of the graph.


def _look_up(op: Any, table: Any, ids: Any, zero: Any, size: Any) -> Any:
    """Keras's look-up, in which a negative index counts from the end. So it does in ONNX."""
    is_negative = op.Less(op.Cast(ids), zero)
    from_end = op.Mul(op.Cast(is_negative), op.Add(ids, size))
    return op.Gather(table, op.Add(from_end, op.Mul(ids, op.Cast(op.Not(is_negative)))), axis=0)


def _gather(op: Any, table: Any, ids: Any, **_: Any) -> Any:
    return op.Gather(table, ids)


def _norm(op: Any, x: Any, axes: Any, epsilon: Any, gamma: Any, beta: Any) -> Any:
    mean = op.ReduceMean(x, axes, keepdims=1)
    centered = op.Sub(x, mean)
    variance = op.ReduceMean(op.Mul(centered, centered), axes, keepdims=1)
    scale = op.Mul(op.Reciprocal(op.Sqrt(op.Add(variance, epsilon))), gamma)
    return op.Add(op.Mul(x, scale), op.Add(op.Mul(op.Neg(mean), scale), beta))


def _is_over_last_axis(context: Any, axes: Any, epsilon: Any, gamma: Any, beta: Any, **_: Any) -> bool:
    are_constant = all(_constant(each) is not None for each in (axes, epsilon, gamma, beta))
    return are_constant and _constant(axes).tolist() == [-1]


def _layer_normalization(op: Any, x: Any, epsilon: Any, gamma: Any, beta: Any, **_: Any) -> Any:
    from onnxscript import ir

    weights = [op.initializer(ir.tensor(_constant(each).ravel()), f"{each.name}/flat") for each in (gamma, beta)]
    return op.LayerNormalization(x, *weights, axis=-1, epsilon=float(_constant(epsilon)))


def _erf_gelu(op: Any, x: Any, half: Any, factor: Any, one: Any) -> Any:
    """`_add_operations` in `onnx.py` makes this of TensorFlow's `0.5 x erfc(-x / sqrt(2))`."""
    return op.Mul(op.Mul(half, x), op.Add(op.Erf(op.Mul(x, factor)), one))


def _is_gelu(context: Any, half: Any, factor: Any, one: Any, **_: Any) -> bool:
    found = [_constant(each) for each in (half, factor, one)]
    return all(each is not None for each in found) and np.allclose(found, [0.5, 0.5**0.5, 1])


def _gelu(op: Any, x: Any, **_: Any) -> Any:
    return op.Gelu(x, _domain=_MICROSOFT)


def _self_attention(
    op: Any, hidden: Any, kernel: Any, bias: Any, heads: Any, scale: Any, mask: Any, axis: Any, shape: Any
) -> Any:
    """`SelfAttention` of the encoder, up to its output layer; `hidden` is `[tokens, hidden]`."""
    qkv = op.Transpose(op.Reshape(op.Add(op.MatMul(hidden, kernel), bias), heads), perm=[2, 0, 3, 1, 4])
    query, key, value = (op.Squeeze(each, axis) for each in op.Split(qkv, axis=0, num_outputs=3, _outputs=3))
    scores = op.Add(op.MatMul(op.Mul(query, scale), op.Transpose(key, perm=[0, 1, 3, 2])), mask)
    return op.Reshape(op.Transpose(op.MatMul(op.Softmax(scores), value), perm=[0, 2, 1, 3]), shape)


def _masks_padding(context: Any, kernel: Any, scale: Any, mask: Any, **_: Any) -> bool:
    return all(_constant(each) is not None for each in (kernel, scale)) and _padding_mask(mask) is not None


def _attention(op: Any, hidden: Any, kernel: Any, bias: Any, scale: Any, mask: Any, shape: Any, **_: Any) -> Any:
    width, of_qkv = _constant(kernel).shape
    head_size = round(float(_constant(scale)) ** -2)
    padding_mask, lowest = _padding_mask(mask)  # int [batch, seq_length]
    rows = op.Concat(op.Shape(padding_mask), op.Constant(value_ints=[width]), axis=0)
    attributes = {"num_heads": of_qkv // 3 // head_size, "mask_filter_value": lowest, "_domain": _MICROSOFT}
    context = op.Attention(op.Reshape(hidden, rows), kernel, bias, op.Cast(padding_mask, to=_INT32), **attributes)
    return op.Reshape(context, shape)


def _padding_mask(mask: Any) -> Any:
    """Finds the mask of tokens, and the score of the others, in `AttentionMask.additive` of padding; else None."""
    lowest = None
    for operator, argument in [("Unsqueeze", 0), ("Unsqueeze", 0), ("Mul", 0), ("Sub", 1), ("Cast", 0)]:
        node = mask.producer()
        if node is None or node.op_type != operator:
            return None
        if operator == "Mul":
            lowest = _constant(node.inputs[1])
        mask = node.inputs[argument]
    return None if lowest is None else (mask, float(lowest))


def _constant(value: Any) -> Any:
    """Returns an array, or None if the value depends on the inputs."""
    return None if value.const_value is None else value.const_value.numpy()


_RULES = [
    (_look_up, _gather),
    (_norm, _layer_normalization, _is_over_last_axis),
    (_erf_gelu, _gelu, _is_gelu),
    (_self_attention, _attention, _masks_padding),
]


def fuse(model: onnx.ModelProto, weights: Mapping[str, np.ndarray]) -> ir.Model:
    """Fuses a graph after its inputs in `weights` have become constants."""
    from onnxscript import ir, optimizer, rewriter

    whole = ir.from_proto(model)
    for value in [each for each in whole.graph.inputs if each.name in weights]:
        whole.graph.inputs.remove(value)
        value.const_value = ir.tensor(weights[value.name], name=value.name)
        whole.graph.register_initializer(value)
    optimizer.fold_constants(whole, input_size_limit=sys.maxsize, output_size_limit=sys.maxsize)
    rules = [rewriter.pattern.RewriteRule(*each) for each in _RULES]
    fused = rewriter.rewrite(whole, rewriter.pattern.RewriteRuleSet(rules, commute=True))
    fused.opset_imports.setdefault(_MICROSOFT, 1)
    return fused

"""Storage: how a file's arrays differ from this package's: transposed, split, reordered, or with an axis for heads.

In this module, `weight_name` is this package's name of a weight.
"""

from __future__ import annotations

import math

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.formats.families.row import Storage
from keras_bert.shapes import Shape

_POSITIONS = "embeddings/position/embeddings"
_QKV = "attention/qkv/"


def fits(storage: Storage, weight_name: str, stored: Shape, expected: Shape) -> bool:
    """Checks whether an array of the shape `stored` can be read where `stored_shapes` says `expected`."""
    can_be_cut = weight_name in storage.cut_tables and stored[1:] == expected[1:] and stored > expected
    return stored == expected or can_be_cut


def stored_shapes(storage: Storage, weight_name: str, shape: Shape, parts: int, config: BertConfig) -> list[Shape]:
    """Computes the file's shapes of the `parts` arrays that a weight concatenates on its last axis."""
    if parts == 0:  # the format has no such weight
        return []
    if storage.lacks_padding_positions and weight_name == _POSITIONS:
        return [(config.max_positions, shape[-1])]
    heads = (config.num_heads, config.head_size)
    stored = []
    for width in _widths(weight_name, shape, parts, config):
        part = (*shape[:-1], width)
        if storage.splits_heads and _QKV in weight_name:
            part = (*part[:-1], *heads)
        elif storage.splits_heads and weight_name.endswith("attention/output/kernel"):
            part = (*heads, part[-1])
        elif weight_name.endswith(storage.transposed):
            part = part[::-1]
        stored.append(part)
    return stored


def from_file(
    storage: Storage, weight_name: str, values: list[np.ndarray], shape: Shape, config: BertConfig
) -> np.ndarray:
    """Makes a weight from the file's arrays, in order. Zeros if the format has no such weight."""
    if not values:
        return np.zeros(shape, np.float32)
    if storage.lacks_padding_positions and weight_name == _POSITIONS:
        (value,) = values
        return np.concatenate([np.zeros((shape[0] - len(value), shape[1]), value.dtype), value])
    if weight_name in storage.cut_tables:
        values = [value[: shape[0]] for value in values]
    widths = _widths(weight_name, shape, len(values), config)
    if len(values) == 1 and not weight_name.endswith(storage.transposed):
        weight = values[0].reshape(shape)
    else:
        weight = empty(shape, values[0].dtype)
        for value, part in zip(values, np.split(weight, np.cumsum(widths)[:-1], axis=-1), strict=True):
            if weight_name.endswith(storage.transposed):
                _copy_transposed(value, part)
            else:
                part[...] = value.reshape(part.shape)
    order = _order(storage, weight_name, config)
    return weight if order is None else np.ascontiguousarray(weight[..., order])


def to_file(storage: Storage, weight_name: str, value: np.ndarray, parts: int, config: BertConfig) -> list[np.ndarray]:
    """Makes the file's `parts` arrays, in order, from a weight. It is the inverse of `from_file`."""
    order = _order(storage, weight_name, config)
    if order is not None:
        value = value[..., np.argsort(order)]
    pieces = np.split(value, np.cumsum(_widths(weight_name, value.shape, parts, config))[:-1], axis=-1)
    stored = stored_shapes(storage, weight_name, value.shape, parts, config)
    return [
        piece.T if weight_name.endswith(storage.transposed) else piece.reshape(shape)
        for piece, shape in zip(pieces, stored, strict=True)
    ]


def _order(storage: Storage, weight_name: str, config: BertConfig) -> list[int] | None:
    layer = weight_name.partition("/")[2].rpartition("/")[0]
    return storage.orders[layer](config) if layer in storage.orders else None


def _widths(weight_name: str, shape: Shape, parts: int, config: BertConfig) -> tuple[int, ...]:
    """Computes the size of each part's last axis."""
    return config.qkv_sizes if parts == 3 and _QKV in weight_name else (shape[-1] // parts,) * parts


def _copy_transposed(value: np.ndarray, result: np.ndarray) -> None:
    """Computes `result[...] = value.T`, 64 rows at a time: numpy takes up to twice as long for all rows at once."""
    for start in range(0, len(value), 64):
        result[..., start : start + 64] = value[start : start + 64].T


# -- Arrays that are aligned for TensorFlow, which copies other arrays once or twice when it assigns a variable.

ALIGNMENT = 64  # bytes, as in TensorFlow's own tensors


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Allocates an array like `np.empty`, but with an address that is a multiple of `ALIGNMENT`."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def is_aligned(array: np.ndarray) -> bool:
    """Checks whether TensorFlow can use an array without a copy."""
    return array.flags.c_contiguous and array.flags.writeable and array.ctypes.data % ALIGNMENT == 0

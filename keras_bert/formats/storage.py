"""Storage: how a file's arrays differ from this package's: transposed, split, reordered, or with an axis for heads.

In this module, `weight_name` is this package's name of a weight.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.shapes import Shape

_POSITIONS = "embeddings/position/embeddings"
_QKV = "attention/qkv/"


@dataclass(frozen=True)
class Storage:
    """A format's way to store this package's kernels, `[inputs, outputs]`, and other weights."""

    transposed: tuple[str, ...] = ()  # suffixes of the names of weights that are `[outputs, inputs]` in the file
    # Whether attention has an axis for the heads: query `[hidden, heads, size]`, output `[heads, size, hidden]`.
    splits_heads: bool = False
    # Whether the file's position table lacks RoBERTa's first rows, which are for padding. They are read as zeros.
    lacks_padding_positions: bool = False
    cut_tables: tuple[str, ...] = ()  # weights of which a file may have more rows; only the first ones are read
    # This package's name of a layer in a block -> for each of its outputs, the index of that output in the file.
    orders: Mapping[str, Callable[[BertConfig], np.ndarray]] = field(default_factory=dict)

    def is_transposed(self, weight_name: str) -> bool:
        return weight_name.endswith(self.transposed)

    def fits(self, weight_name: str, stored: Shape, expected: Shape) -> bool:
        """Checks whether an array of the shape `stored` can be read where `stored_shapes` says `expected`."""
        can_be_cut = weight_name in self.cut_tables and stored[1:] == expected[1:] and stored > expected
        return stored == expected or can_be_cut

    def stored_shapes(self, weight_name: str, shape: Shape, parts: int, config: BertConfig) -> list[Shape]:
        """Computes the file's shapes of the `parts` arrays that a weight concatenates on its last axis."""
        if parts == 0:  # the format has no such weight
            return []
        if self.lacks_padding_positions and weight_name == _POSITIONS:
            return [(config.max_positions, shape[-1])]
        heads = (config.num_heads, config.head_size)
        stored = []
        for width in _widths(weight_name, shape, parts, config):
            part = (*shape[:-1], width)
            if self.splits_heads and _QKV in weight_name:
                part = (*part[:-1], *heads)
            elif self.splits_heads and weight_name.endswith("attention/output/kernel"):
                part = (*heads, part[-1])
            elif self.is_transposed(weight_name):
                part = part[::-1]
            stored.append(part)
        return stored

    def from_file(self, weight_name: str, values: list[np.ndarray], shape: Shape, config: BertConfig) -> np.ndarray:
        """Makes a weight from the file's arrays, in order. Zeros if the format has no such weight."""
        if not values:
            return np.zeros(shape, np.float32)
        if self.lacks_padding_positions and weight_name == _POSITIONS:
            (value,) = values
            return np.concatenate([np.zeros((shape[0] - len(value), shape[1]), value.dtype), value])
        if weight_name in self.cut_tables:
            values = [value[: shape[0]] for value in values]
        widths = _widths(weight_name, shape, len(values), config)
        if len(values) == 1 and not self.is_transposed(weight_name):
            weight = values[0].reshape(shape)
        else:
            weight = empty(shape, values[0].dtype)
            for value, part in zip(values, np.split(weight, np.cumsum(widths)[:-1], axis=-1), strict=True):
                if self.is_transposed(weight_name):
                    _copy_transposed(value, part)
                else:
                    part[...] = value.reshape(part.shape)
        order = self._order(weight_name, config)
        return weight if order is None else np.ascontiguousarray(weight[..., order])

    def to_file(self, weight_name: str, value: np.ndarray, parts: int, config: BertConfig) -> list[np.ndarray]:
        """Makes the file's `parts` arrays, in order, from a weight. It is the inverse of `from_file`."""
        order = self._order(weight_name, config)
        if order is not None:
            value = value[..., np.argsort(order)]
        pieces = np.split(value, np.cumsum(_widths(weight_name, value.shape, parts, config))[:-1], axis=-1)
        stored = self.stored_shapes(weight_name, value.shape, parts, config)
        return [
            piece.T if self.is_transposed(weight_name) else piece.reshape(shape)
            for piece, shape in zip(pieces, stored, strict=True)
        ]

    def _order(self, weight_name: str, config: BertConfig) -> np.ndarray | None:
        layer = weight_name.partition("/")[2].rpartition("/")[0]
        return self.orders[layer](config) if layer in self.orders else None


def gate_last(config: BertConfig) -> np.ndarray:
    """Computes the order for files in which a gate's activated half is the second. In this package it is the first."""
    return np.roll(np.arange(2 * config.intermediate_size), config.intermediate_size)


def by_head(config: BertConfig) -> np.ndarray:
    """Computes the order of Q, K and V for files that store them head by head, with interleaved rotary coordinates.

        file           for each head: Q, K, V; Q and K are [x0, y0, x1, y1, ...]
        this package   Q of all heads, K of all heads, V of all heads; Q and K are [x0, x1, ..., y0, y1, ...]

    QK^T does not change if the coordinates of Q and K are permuted in the same way. V keeps its order.
    """
    size = config.head_size
    deinterleaved = np.arange(size).reshape(-1, 2).T.ravel()  # 0, 2, ..., 1, 3, ...
    starts = 3 * size * np.arange(config.num_heads)[:, None]  # [num_heads, 1]
    parts = [starts + part * size + (np.arange(size) if part == 2 else deinterleaved) for part in range(3)]
    return np.concatenate([part.ravel() for part in parts])


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

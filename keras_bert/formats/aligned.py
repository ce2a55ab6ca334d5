"""Arrays aligned for TensorFlow, which copies others once or twice on their way into a variable."""

import math

import numpy as np

ALIGNMENT = 64  # bytes, as TensorFlow's own tensors


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Like `np.empty`, but the values begin at a multiple of `ALIGNMENT`."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def is_aligned(array: np.ndarray) -> bool:
    """Whether TensorFlow can use it without a copy."""
    return array.flags.c_contiguous and array.flags.writeable and array.ctypes.data % ALIGNMENT == 0

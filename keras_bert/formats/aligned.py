"""Arrays that TensorFlow takes as they are. It copies others, once or twice, before a variable has them."""

import math

import numpy as np

ALIGNMENT = 64  # bytes; of TensorFlow's own tensors


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """As `np.empty`, but the values begin at a multiple of `ALIGNMENT`."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def is_aligned(array: np.ndarray) -> bool:
    """Whether TensorFlow can take it as it is."""
    return array.flags.c_contiguous and array.flags.writeable and array.ctypes.data % ALIGNMENT == 0

"""Arrays of vectors as `.npy` files, written row by row."""

from collections.abc import Iterable
from typing import BinaryIO

import numpy as np


def write_npy(file: BinaryIO, blocks: Iterable[np.ndarray], width: int) -> None:
    """Writes a `.npy` file row by row. The number of rows is written into its header at the end.

    Args:
        file: open for writing, at its beginning.
        blocks: float32 `[rows, width]` each, any number of them.
        width: the length of a row.
    """

    def write_header(rows: int) -> None:  # its length is constant: numpy leaves room for digits
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
        np.lib.format.write_array_header_1_0(file, header)

    write_header(0)
    rows = 0
    for block in blocks:
        file.write(block.astype("<f4").tobytes())
        rows += len(block)
    file.seek(0)
    write_header(rows)

"""`.npy` files of vectors, written row by row."""

from collections.abc import Iterable
from typing import BinaryIO

import numpy as np


def write_npy(file: BinaryIO, blocks: Iterable[np.ndarray], width: int) -> None:
    """Writes blocks of vectors, float32 `[rows, width]` each, into an empty file. The header is written last."""

    def write_header(rows: int) -> None:  # of constant length: numpy leaves room for digits
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
        np.lib.format.write_array_header_1_0(file, header)

    write_header(0)
    rows = 0
    for block in blocks:
        file.write(block.astype("<f4").tobytes())
        rows += len(block)
    file.seek(0)
    write_header(rows)

"""The int8 ranges of a calibrated encoder, and their file in a preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_bert.formats.model_files import INT8_RANGES
from keras_bert.formats.weight_files import read_checked, write_checked

# The dense layers of a block, in order -> their paths in a `TransformerBlock`.
DENSE_LAYERS = {
    "qkv": "attention/qkv",
    "context": "attention/output",
    "intermediate": "intermediate",
    "output": "output",
}
_SCALES_KEY = "divisors"  # the end of their names in the file


class InputRange(NamedTuple):
    """The conversion of a dense layer's input to int8 (Xiao et al. 2022, "SmoothQuant", equation 3)."""

    limit: float  # becomes 127, after the division by the scales; larger values are clipped
    # float32 [inputs]: each input is divided by its scale, and its weights multiplied by it, so that large inputs lose
    # less. None: the input is already int8.
    smoothing_scales: np.ndarray | None = None


@dataclass(frozen=True)
class Int8Ranges:
    """The result of a calibration."""

    blocks: tuple[Mapping[str, InputRange] | None, ...]  # of dense layers; None: the block is left out of int8
    weights: str  # the digest of the weights that the ranges belong to
    is_built_in: bool  # whether the texts were `SAMPLE_TEXTS`

    @property
    def float_blocks(self) -> list[int]:
        """The indices of the blocks that are not computed in int8, because they would lose too much."""
        return [i for i, block in enumerate(self.blocks) if block is None]


def to_arrays(ranges: Int8Ranges) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Converts ranges to the arrays and texts of their file."""
    arrays = {}
    for i, block in enumerate(ranges.blocks):
        for name, (limit, scales) in (block or {}).items():
            arrays[f"block_{i}/{name}/limit"] = np.array([limit], np.float32)
            if scales is not None:
                arrays[f"block_{i}/{name}/{_SCALES_KEY}"] = np.ascontiguousarray(scales, np.float32)
    return arrays, {"weights": ranges.weights, "blocks": str(len(ranges.blocks)), "built_in": str(ranges.is_built_in)}


def write_ranges(directory: str | Path, ranges: Int8Ranges) -> None:
    """Writes ranges into a preset's directory, and replaces older ranges there."""
    write_checked(Path(directory) / INT8_RANGES, *to_arrays(ranges))


def read_ranges(directory: str | Path) -> Int8Ranges | None:
    """Reads the ranges of a preset; None if it has no such file. Raises ValueError if it is damaged."""
    path = Path(directory) / INT8_RANGES
    if not path.is_file():
        return None
    try:
        tensors, metadata = read_checked(path)
        blocks = tuple(_block(tensors, f"block_{i}/") for i in range(int(metadata["blocks"])))
        return Int8Ranges(blocks, metadata["weights"], metadata["built_in"] == "True")
    except (KeyError, ValueError) as error:
        problem = str(error) if str(path) in str(error) else f"{path} is damaged ({error})"
        raise ValueError(f"{problem}; remove it, and calibrate again") from None


def _block(tensors: Mapping[str, np.ndarray], prefix: str) -> dict[str, InputRange] | None:
    if not any(name.startswith(prefix) for name in tensors):
        return None
    ranges = {}
    for name in DENSE_LAYERS:
        key = f"{prefix}{name}/{_SCALES_KEY}"
        scales = tensors[key] if name != "output" or key in tensors else None  # none if its input is already int8
        (limit,) = tensors[f"{prefix}{name}/limit"].tolist()
        for values in (np.array(limit), scales):
            if values is not None and not (np.isfinite(values).all() and (values > 0).all()):
                raise ValueError(f"{prefix}{name} is not positive")
        ranges[name] = InputRange(limit, scales)
    return ranges

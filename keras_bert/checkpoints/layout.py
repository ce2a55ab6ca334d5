"""How a file's arrays relate to ours: which stand side by side in ours, are transposed, or keep the heads apart."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keras_bert.checkpoints.shapes import Shape
from keras_bert.config import BertConfig

_POSITIONS = "embeddings/position/embeddings"


def _never(ours: str, theirs: str) -> bool:
    return False


@dataclass(frozen=True)
class Layout:
    """What a format does to our `[inputs, outputs]`.

    Attributes:
        is_transposed: of a weight, by our name and theirs, whether the file has it as `[outputs, inputs]`.
        splits_heads: whether the attention's kernels and biases have an axis for the heads:
            query `[hidden, heads, size]`, output `[heads, size, hidden]`.
        lacks_padding_positions: whether the table of positions begins with that of the first piece, where ours has rows
            for padding before it (RoBERTa). They are read as zeros.
    """

    is_transposed: Callable[[str, str], bool] = _never
    splits_heads: bool = False
    lacks_padding_positions: bool = False

    def stored_shape(self, ours: str, theirs: str, shape: Shape, parts: int, config: BertConfig) -> Shape:
        """The shape in the file of one of the `parts` that stand side by side (on the last axis) in ours."""
        shape = (*shape[:-1], shape[-1] // parts)
        if self.lacks_padding_positions and ours == _POSITIONS:
            return (config.max_positions, shape[-1])
        heads = (config.num_heads, config.hidden_size // config.num_heads)
        if self.splits_heads and "attention/qkv/" in ours:
            return (*shape[:-1], *heads)
        if self.splits_heads and ours.endswith("attention/output/kernel"):
            return (*heads, shape[-1])
        return shape[::-1] if self.is_transposed(ours, theirs) else shape

    def to_ours(self, ours: str, values: dict[str, np.ndarray], shape: Shape) -> np.ndarray:
        """One of our weights from theirs, by their names, in order; zeros where a format has no such weight."""
        if not values:
            return np.zeros(shape, np.float32)
        if self.lacks_padding_positions and ours == _POSITIONS:
            (value,) = values.values()
            return np.concatenate([np.zeros((shape[0] - len(value), shape[1]), value.dtype), value])
        part = (*shape[:-1], shape[-1] // len(values))
        parts = [
            _transposed(value) if self.is_transposed(ours, theirs) else value.reshape(part)
            for theirs, value in values.items()
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    def to_theirs(self, ours: str, theirs: list[str], value: np.ndarray, config: BertConfig) -> dict[str, np.ndarray]:
        """Their weights, by their names, from one of ours."""
        result = {}
        for name, part in zip(theirs, np.split(value, len(theirs), axis=-1), strict=True):
            if self.is_transposed(ours, name):
                result[name] = part.T
            else:
                result[name] = part.reshape(self.stored_shape(ours, name, value.shape, len(theirs), config))
        return result


def _transposed(value: np.ndarray) -> np.ndarray:
    """`value.T` in memory of its own, 16 rows at a time: numpy takes three to five times as long to copy the whole."""
    result = np.empty(value.shape[::-1], value.dtype)
    for start in range(0, len(value), 16):
        result[..., start : start + 16] = value[start : start + 16].T
    return result

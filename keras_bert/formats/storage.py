"""How a file's arrays differ from ours: transposed, split into parts, or with an axis for the heads."""

from dataclasses import dataclass

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.formats.shapes import Shape

_POSITIONS = "embeddings/position/embeddings"


@dataclass(frozen=True)
class Storage:
    """How a layout stores our `[inputs, outputs]`."""

    transposed: tuple[str, ...] = ()  # suffixes of the names of weights that are `[outputs, inputs]` in the file
    # Whether attention has an axis for the heads: query `[hidden, heads, size]`, output `[heads, size, hidden]`.
    splits_heads: bool = False
    # Whether the table of positions lacks our first rows, for padding (RoBERTa). They are read as zeros.
    lacks_padding_positions: bool = False

    def is_transposed(self, ours: str) -> bool:
        return ours.endswith(self.transposed)

    def stored_shape(self, ours: str, shape: Shape, parts: int, config: BertConfig) -> Shape:
        """The shape in the file of one of the `parts` that ours concatenates on the last axis."""
        shape = (*shape[:-1], shape[-1] // parts)
        if self.lacks_padding_positions and ours == _POSITIONS:
            return (config.max_positions, shape[-1])
        heads = (config.num_heads, config.hidden_size // config.num_heads)
        if self.splits_heads and "attention/qkv/" in ours:
            return (*shape[:-1], *heads)
        if self.splits_heads and ours.endswith("attention/output/kernel"):
            return (*heads, shape[-1])
        return shape[::-1] if self.is_transposed(ours) else shape

    def to_ours(self, ours: str, values: list[np.ndarray], shape: Shape) -> np.ndarray:
        """One of our weights from the file's, in order; zeros if the layout has no such weight."""
        if not values:
            return np.zeros(shape, np.float32)
        if self.lacks_padding_positions and ours == _POSITIONS:
            (value,) = values
            return np.concatenate([np.zeros((shape[0] - len(value), shape[1]), value.dtype), value])
        part = (*shape[:-1], shape[-1] // len(values))
        parts = [_transposed(value) if self.is_transposed(ours) else value.reshape(part) for value in values]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    def to_theirs(self, ours: str, value: np.ndarray, parts: int, config: BertConfig) -> list[np.ndarray]:
        """The file's weights, in order, from one of ours."""
        stored = self.stored_shape(ours, value.shape, parts, config)
        pieces = np.split(value, parts, axis=-1)
        return [piece.T if self.is_transposed(ours) else piece.reshape(stored) for piece in pieces]


def _transposed(value: np.ndarray) -> np.ndarray:
    """A copy of `value.T`, made 16 rows at a time: numpy takes three to five times as long to copy the whole."""
    result = np.empty(value.shape[::-1], value.dtype)
    for start in range(0, len(value), 16):
        result[..., start : start + 16] = value[start : start + 16].T
    return result

"""How a family packs a pair of texts, and how many tokens of each text a row keeps. It needs no TensorFlow."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

TRUNCATIONS = ("longest_first", "odd_to_longer", "round_robin", "waterfall", "head_tail", "error")

_HEAD_DIVISOR = 4  # under "head_tail", a quarter of the kept tokens is from the beginning: 128 of 510 in the paper


@dataclass(frozen=True)
class PairFormat:
    """A family's format of a pair of texts, such as `[CLS] a [SEP] b [SEP]`."""

    separators: int  # the number of `[SEP]` between the texts
    second_type_id: int  # the type id of `b [SEP]`
    second_cls: bool = False  # whether a `[CLS]`, of the second type, is before `b`

    @property
    def between(self) -> int:
        """Counts the special tokens between the texts."""
        return self.separators + self.second_cls

    def special_tokens(self, segments: int) -> int:
        """Counts the special tokens in a row of one or two segments."""
        return 2 if segments == 1 else 2 + self.between


BERT_PAIRS = PairFormat(separators=1, second_type_id=1)  # also of DistilBERT, ALBERT and ELECTRA
ROBERTA_PAIRS = PairFormat(separators=2, second_type_id=0)  # also of XLM-RoBERTa


def kept_tokens(lengths: Sequence[Any], room: Any, truncation: str, library: ModuleType) -> tuple[Any, Any]:
    """Computes how many tokens of each text of a pair fit into `room`; see `packing.truncate`.

    Args:
        lengths: of both texts, in tokens: arrays of `library`, `numpy` or `tensorflow`.
        room: the number of tokens of both together.
        truncation: one of `TRUNCATIONS`, except "error".
        library: the module that computes.
    """
    first, second = lengths
    # Each text gets half the room, and what the other leaves of its half.
    half = room - room // 2  # the first half is rounded up
    if truncation == "waterfall":
        half = room
    elif truncation == "odd_to_longer":
        half = library.where(first > second, half, room // 2)
    kept = library.minimum(first, library.maximum(room - second, half))
    return kept, library.minimum(second, room - kept)


def head_of(count: Any) -> Any:
    """Counts the tokens from the beginning of a text of which "head_tail" keeps `count`."""
    return count // _HEAD_DIVISOR

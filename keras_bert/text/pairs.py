"""How a family packs a pair of texts, how long rows are, and what they keep of long texts. It needs no TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from types import ModuleType
from typing import TYPE_CHECKING, Any

from keras_bert.choices import PACKINGS, check_choice
from keras_bert.formats.tokenizers.byte_pairs import BytePairArguments
from keras_bert.formats.tokenizers.wordpiece import WordPieceArguments

if TYPE_CHECKING:
    from keras_bert.formats import Preset

TRUNCATIONS = ("longest_first", "odd_to_longer", "round_robin", "waterfall", "head_tail", "error")

_HEAD_DIVISOR = 4  # under "head_tail", a quarter of the kept tokens is from the beginning: 128 of 510 in the paper


@dataclass(frozen=True)
class PairFormat:
    """A family's format of a pair of texts, such as `[CLS] a [SEP] b [SEP]`."""

    separators: int  # the number of `[SEP]` between the texts
    second_type_id: int  # the type id of `b [SEP]`
    second_cls: bool = False  # whether a `[CLS]`, of the second type, is before `b`
    packing: str = "special"  # one of `PACKINGS`

    def __post_init__(self) -> None:
        check_choice("packing", self.packing, PACKINGS)

    @property
    def between(self) -> int:
        """Counts the special tokens between the texts."""
        return self.separators + self.second_cls

    def special_tokens(self, segments: int) -> int:
        """Counts the special tokens in a row of one or two segments."""
        if self.packing != "special":
            return 0
        return 2 if segments == 1 else 2 + self.between


BERT_PAIRS = PairFormat(WordPieceArguments.separators, WordPieceArguments.second_type_id)
ROBERTA_PAIRS = PairFormat(BytePairArguments.separators, BytePairArguments.second_type_id)


def kept_tokens(lengths: Sequence[Any], room: Any, truncation: str, library: ModuleType) -> list[Any]:
    """Computes how many of `lengths` tokens of one or two texts fit into `room`, by any `truncation` but "error"."""
    if len(lengths) == 1:
        return [library.minimum(lengths[0], room)]
    first, second = lengths
    # Each text gets half the room, and what the other leaves of its half.
    half = room - room // 2  # the first half is rounded up
    if truncation == "waterfall":
        half = room
    elif truncation == "odd_to_longer":
        half = library.where(first > second, half, room // 2)
    kept = library.minimum(first, library.maximum(room - second, half))
    return [kept, library.minimum(second, room - kept)]


def kept_head(kept: Any, length: Any, library: ModuleType) -> Any:
    """Counts the tokens from the beginning of a text of `length` tokens among those that "head_tail" keeps."""
    return library.where(length > kept, kept // _HEAD_DIVISOR, kept)


# -- The lengths of rows, the same for every preprocessor.


def check_rows(
    sequence_length: int | None, truncation: str, pad_to_multiple_of: int, max_sequence_length: int, stride: int | None
) -> None:
    """Raises TypeError or ValueError for a bad argument; see `BertPreprocessor`."""
    check_choice("truncation", truncation, TRUNCATIONS)
    for name, value, may_be_none in (
        ("max_sequence_length", max_sequence_length, False),
        ("sequence_length", sequence_length, True),
        ("pad_to_multiple_of", pad_to_multiple_of, False),
        ("stride", stride, True),
    ):
        if not (value is None and may_be_none) and (not isinstance(value, Integral) or isinstance(value, bool)):
            raise TypeError(f"{name} is {value!r:.60}; expected a whole number{' or None' * may_be_none}")
    if max_sequence_length < 3:
        raise ValueError(f"max_sequence_length is {max_sequence_length}; [CLS] a [SEP] needs at least 3")
    if sequence_length is not None and not 3 <= sequence_length <= max_sequence_length:
        raise ValueError(
            f"sequence_length is {sequence_length}; expected 3 ([CLS] a [SEP]) to {max_sequence_length} "
            "(max_sequence_length, the model's positions), or None for the longest row of each batch"
        )
    if pad_to_multiple_of < 1:
        raise ValueError(f"pad_to_multiple_of is {pad_to_multiple_of}; expected at least 1")
    if stride is not None and stride < 1:
        raise ValueError(f"stride is {stride}; expected at least 1 token")


def room_of(limit: int, special_tokens: int) -> int:
    """Counts the tokens of texts that a row of `limit` tokens can have. Raises ValueError for too few."""
    if limit < special_tokens:
        raise ValueError(
            f"rows of {limit} tokens have no room for a pair, whose special tokens are {special_tokens}; set "
            f"sequence_length to more than {special_tokens}"
        )
    return limit - special_tokens


def row_settings(preset: Preset, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Adds a preset's number of positions, the length that fits, and the truncation of its format to `overrides`."""
    positions = overrides.get("max_sequence_length", preset.config.max_positions)
    settings = {"max_sequence_length": positions, "sequence_length": min(128, positions), **overrides}
    if settings.get("truncation") is None:
        settings["truncation"] = preset.truncation
    return settings

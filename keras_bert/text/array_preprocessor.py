"""Turns texts into the inputs of an encoder on Keras's JAX and PyTorch backends, without TensorFlow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_bert.extras import import_extra
from keras_bert.formats import Preset
from keras_bert.formats.tokenizers import byte_pairs, wordpiece
from keras_bert.formats.tokenizers.tokenizer_files import TokenizerFiles
from keras_bert.formats.tokenizers.tokenizer_json import TOKENS
from keras_bert.text.arguments import list_of_str
from keras_bert.text.pairs import check_rows, kept_head, kept_tokens, room_of, row_settings
from keras_bert.text.vocabulary import read_ids, read_merges, read_tokens

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

_NAMES = ("input_word_ids", "input_mask", "input_type_ids")
# The default arguments of the tokenizers, copied because their classes need TensorFlow.
_WORDPIECE = {
    "lowercase": True,
    "strip_accents": None,
    "split_on_cjk": True,
    "max_chars_per_word": 200,
    **{f"{name}_token": f"[{name.upper()}]" for name in ("unk", "cls", "sep", "pad", "mask")},
    "separators": 1,
    "second_type_id": 1,
    "added_tokens": [],
    "more_special_tokens": [],
}
_BYTE_PAIRS = {
    "add_prefix_space": False,
    **{"unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"},
    **byte_pairs.ROBERTA_ARGUMENTS,
}


class ArrayPreprocessor:
    """The preprocessor on Keras's other backends. It makes the inputs of `BertPreprocessor`, as NumPy arrays.

    Hugging Face's `tokenizers` (the extra `runtimes`) splits the texts: a list of str; or a tuple of two, for pairs; or
    one str. Ordinary text gets the same ids; the guide about runtimes lists the exceptions. For the arguments, the
    results and the errors, see `BertPreprocessor`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        pad_token_id: int,
        sequence_length: int | None = 128,
        pad_to_multiple_of: int = 1,
        max_sequence_length: int = 512,
        truncation: str = "longest_first",
    ) -> None:
        check_rows(sequence_length, truncation, pad_to_multiple_of, max_sequence_length, None)
        self.tokenizer = tokenizer
        self.pad_token_id = pad_token_id
        self.sequence_length = sequence_length
        self.pad_to_multiple_of = pad_to_multiple_of
        self.max_sequence_length = max_sequence_length
        self.truncation = truncation

    @property
    def longest(self) -> int:
        """The most tokens that a row may have, special tokens included."""
        return self.max_sequence_length if self.sequence_length is None else self.sequence_length

    def __call__(self, texts: str | Sequence[str] | tuple[str | Sequence[str], ...]) -> dict[str, np.ndarray]:
        columns = texts if isinstance(texts, tuple) else (texts,)
        single = [column for column in columns if isinstance(column, str)]
        if len(single) == len(columns):
            return {name: values[0] for name, values in self(tuple([text] for text in single)).items()}
        columns = [list_of_str(column) for column in columns]
        if len(columns) > 2 or len({len(column) for column in columns}) > 1:
            raise ValueError(f"got texts in columns of {[len(each) for each in columns]}; expected a pair")
        special = self.tokenizer.encode("", "" if len(columns) == 2 else None)  # only special tokens: [CLS], [SEP], ...
        room = room_of(self.longest, len(special.ids))
        encoded = [self.tokenizer.encode_batch(column, add_special_tokens=False) for column in columns]
        segments = ([each.ids for each in row] for row in zip(*encoded, strict=True))
        rows = [_pack_row(_truncate(row, room, self.truncation), special) for row in segments]
        length = self.sequence_length
        if length is None:
            multiple = self.pad_to_multiple_of
            length = max([3, *(len(ids) for ids, _ in rows)])
            length = min((length + multiple - 1) // multiple * multiple, self.longest)
        inputs = {name: np.zeros((len(rows), length), np.int32) for name in _NAMES}
        inputs["input_word_ids"][:] = self.pad_token_id
        for row, (ids, types) in enumerate(rows):
            for name, values in zip(_NAMES, (ids, [1] * len(ids), types), strict=True):
                inputs[name][row, : len(ids)] = values
        return inputs

    @classmethod
    def from_preset(
        cls, handle: str | Path, special_tokens_in_text: bool = False, **overrides: Any
    ) -> ArrayPreprocessor:
        """Reads a preset's tokenizer; see `BertPreprocessor.from_preset`. Raises ImportError without `tokenizers`."""
        preset = Preset(handle)
        content, pad_token = _read_tokenizer_json(preset.tokenizer_files, special_tokens_in_text)
        tokenizer = import_extra("tokenizers", "tokenizers", "runtimes").Tokenizer.from_str(json.dumps(content))
        tokenizer.encode_special_tokens = not special_tokens_in_text
        tokenizer.no_truncation()
        tokenizer.no_padding()
        preset.config.check_vocabulary(tokenizer.get_vocab_size(), False)
        return cls(tokenizer, tokenizer.token_to_id(pad_token), **row_settings(preset, overrides))


def _truncate(segments: list[list[int]], room: int, truncation: str) -> list[list[int]]:
    """Shortens one or two segments to `room` tokens together; see `packing.truncate`."""
    lengths = [len(each) for each in segments]
    if sum(lengths) <= room:
        return segments
    if truncation == "error":
        raise ValueError(f"a row has {sum(lengths)} tokens, the limit is {room}, and truncation is error")
    shortened = []
    for ids, kept in zip(segments, kept_tokens(lengths, room, truncation, np), strict=True):
        head = int(kept_head(kept, len(ids), np) if truncation == "head_tail" else kept)
        shortened.append([*ids[:head], *ids[len(ids) - (int(kept) - head) :]])
    return shortened


def _pack_row(segments: list[list[int]], special: Encoding) -> tuple[list[int], list[int]]:
    """Puts one or two segments between the special tokens, and returns a row's ids and type ids."""
    first, second = (*segments, [])[:2]
    ids = [special.ids[0], *first, *special.ids[1:-1], *second, special.ids[-1]]
    return ids, [0] * (1 + len(first)) + special.type_ids[1:-1] + [special.type_ids[-1]] * (len(second) + 1)


def _read_tokenizer_json(preset_files: TokenizerFiles, special_tokens_in_text: bool) -> tuple[dict[str, Any], str]:
    """Reads or makes a preset's `tokenizer.json`, and reads its pad token."""
    if preset_files.kind == "Unigram":
        # It needs protobuf, as no other tokenizer does.
        from keras_bert.formats.tokenizers import unigram

        arguments = unigram.read_files(preset_files)
        return unigram.json_for_texts(arguments, special_tokens_in_text)
    if preset_files.kind == "BPE":
        arguments = _BYTE_PAIRS | byte_pairs.read_files(preset_files)
        ids = read_ids(arguments["vocabulary"], {name: arguments[name] for name in TOKENS})
        arguments["vocabulary"] = sorted(ids, key=ids.__getitem__)
        arguments["merges"] = [" ".join(pair) for pair in read_merges(arguments["merges"])]
        content = byte_pairs.tokenizer_json(arguments)
    else:
        arguments = _WORDPIECE | wordpiece.read_files(preset_files)
        names = {name: arguments[name] for name in TOKENS}
        added = [*arguments["added_tokens"], *arguments["more_special_tokens"]]
        arguments["vocabulary"] = read_tokens(arguments["vocabulary"], names, added)
        content = wordpiece.tokenizer_json(arguments)
    return content, arguments["pad_token"]

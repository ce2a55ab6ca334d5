"""Reads and makes google/sentencepiece's models."""

import functools
import math
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from google.protobuf import message

from keras_bert import files
from keras_bert.formats import families
from keras_bert.formats.protocol_buffers import make_classes
from keras_bert.formats.tokenizers.tokenizer_json import TOKENS

# The fields of google/sentencepiece's sentencepiece_model.proto that are used here; protobuf keeps all others.
_MESSAGES = {
    "SentencePiece": "piece:1:string score:2:float type:3:int32=1",
    "TrainerSpec": "model_type:3:int32=1 treat_whitespace_as_suffix:24:bool byte_fallback:35:bool",
    "NormalizerSpec": "name:1:string precompiled_charsmap:2:bytes add_dummy_prefix:3:bool=true "
    "remove_extra_whitespaces:4:bool=true escape_whitespaces:5:bool=true",
    "ModelProto": "pieces:1:SentencePiece* trainer_spec:2:TrainerSpec normalizer_spec:3:NormalizerSpec",
}

# SentencePiece.Type
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = _TYPES = range(1, 7)
UNIGRAM, BPE, WORD, CHAR = range(1, 5)  # TrainerSpec.ModelType


class Piece(Protocol):
    """A piece of a parsed model."""

    piece: str
    score: float
    type: int


class Model(Protocol):
    """A parsed `ModelProto`, with the fields that are read."""

    pieces: Sequence[Piece]
    normalizer_spec: Any
    trainer_spec: Any


# An enumeration would hide unknown numbers, and "proto3" refuse text that is not UTF-8.
ModelProto: Any = make_classes("sentencepiece_model", _MESSAGES, "proto2")["ModelProto"]
_LONGEST = 256  # bytes that a table of characters replaces, or puts in their place; NFKC has 33


def read_model(model: bytes) -> Model:
    """Parses and checks a serialized `ModelProto`: some bad models make TensorFlow Text's operation end the process."""
    try:
        proto = ModelProto.FromString(model)
        pieces = [(each.piece, each.score, each.type) for each in proto.pieces]
    except message.DecodeError as error:
        raise ValueError(f"it cannot be read ({error})") from None
    if not pieces:
        raise ValueError("it has no pieces")
    seen: dict[str, int] = {}
    for number, (text, score, kind) in enumerate(pieces):
        if not isinstance(text, str):  # invalid UTF-8 stays bytes
            raise ValueError(f"piece {number} is {text!r}, which is not UTF-8")
        if not text or "\0" in text:
            raise ValueError(f"piece {number} is {'empty' if not text else f'{text!r}, with a U+0000'}")
        if text in seen:
            raise ValueError(f"piece {number} is {text!r}, like piece {seen[text]}")
        if not math.isfinite(score):
            raise ValueError(f"piece {number}, {text!r}, has the score {score}")
        if kind == BYTE and not re.fullmatch("<0x[0-9A-F]{2}>", text):
            raise ValueError(f"piece {number}, {text!r}, has the type of a byte; expected <0x00> to <0xFF>")
        if kind not in _TYPES:
            raise ValueError(f"piece {number}, {text!r}, has the type {kind}; expected {_TYPES[0]} to {_TYPES[-1]}")
        seen[text] = number
    unknown = sum(kind == UNKNOWN for _, _, kind in pieces)
    if unknown != 1:
        raise ValueError(f"it has {unknown} pieces of the type for unknown text; expected 1")
    if proto.normalizer_spec.precompiled_charsmap:
        _check_charsmap(proto.normalizer_spec.precompiled_charsmap)
    return proto


def _check_charsmap(table: bytes) -> None:
    """Raises ValueError for a table of characters of which TensorFlow Text would read beyond the end, or for ever."""
    # It is the length of a trie, the trie, and the strings that replace its keys, each with a U+0000 at its end. The
    # trie is a double array of uint32 (s-yata/darts-clone): that of a key's byte is at `target(unit) ^ byte`, labelled
    # with the byte, and that of a key's string, with the highest bit set, at `target(unit)`.
    name, size = "its precompiled_charsmap", int.from_bytes(table[:4], "little")
    if not size or size % 1024 or size > len(table) - 4:
        raise ValueError(f"{name} of {len(table):,} bytes has a trie of {size:,}; expected a multiple of 1,024 in it")
    strings = table[4 + size :]
    if not strings.endswith(b"\0"):
        raise ValueError(f"{name} ends in {strings[-1:]!r}; expected the U+0000 of its last string")
    if (longest := max(map(len, strings.split(b"\0")))) > _LONGEST:
        raise ValueError(f"{name} has a string of {longest:,} bytes; at most {_LONGEST} bytes are read")
    units = np.frombuffer(table, "<u4", size // 4, 4).astype(np.int64)
    places, labels, is_key = np.arange(len(units)), units & 255, units < 1 << 31
    is_key[0] = True  # the root
    targets = np.where(is_key, places ^ units >> 10 << (units >> 6 & 8), 0)
    values = np.where(is_key & (units >> 8 & 1 > 0), units[targets % len(units)] & 0x7FFFFFFF, 0)
    for kind, found, count in (("units", targets, len(units)), ("bytes of strings", values, len(strings))):
        if bad := np.flatnonzero(found >= count).tolist():
            raise ValueError(f"{name} points from unit {bad[0]} to {found[bad[0]]:,}, but has {count:,} {kind}")
    reached = places[:1]
    for _ in range(_LONGEST + 1):
        is_target = np.zeros(len(units), bool)
        is_target[targets[reached]] = True
        reached = np.flatnonzero(is_key & (labels > 0) & is_target[places ^ labels])
        if not len(reached):
            return
    raise ValueError(f"{name} replaces texts of more than {_LONGEST} bytes, or its trie goes in a circle")


def unigram_model(pieces: Iterable[tuple[str, float, int]], charsmap: bytes) -> bytes:
    """Serializes texts, scores (rounded to float32) and types of pieces, with SentencePiece's default options."""
    proto = ModelProto(trainer_spec={"model_type": UNIGRAM}, normalizer_spec={"precompiled_charsmap": charsmap})
    for text, score, kind in pieces:
        proto.pieces.add(piece=text, score=score, type=kind)
        proto.trainer_spec.byte_fallback |= kind == BYTE
    return proto.SerializeToString()


def with_padding(model: bytes) -> bytes:
    """Puts spaces around the punctuation of ASCII in what a model's table of characters puts in place of others."""
    proto = ModelProto.FromString(model)
    table: bytes = proto.normalizer_spec.precompiled_charsmap
    size = int.from_bytes(table[:4], "little")
    units, begin, places = np.frombuffer(table, "<u4", size // 4, 4).copy(), 0, np.zeros(len(table), "<u4")
    padded = b""
    for text in table[4 + size : -1].split(b"\0"):
        places[begin : begin + len(text) + 1] = len(padded) + np.arange(len(text) + 1)
        begin += len(text) + 1
        padded += re.sub(" {2,}", " ", PUNCTUATION.sub(r" \g<0> ", text.decode())).encode() + b"\0"
    is_value = units >> 31 == 1
    units[is_value] = places[units[is_value] & 0x7FFFFFFF] | 1 << 31
    proto.normalizer_spec.precompiled_charsmap = table[:4] + units.tobytes() + padded
    return proto.SerializeToString()


PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")  # of ASCII
SPACE = "▁"  # in SentencePiece's tokens
# White space in `str.split`, but not in SentencePiece's own normalization.
ODD_SPACES = r"\x0b\x1c-\x1f"
# Replaces U+0000, where TensorFlow Text's operation would end the text. No vocabulary has either.
NO_NUL = "\ue000"


@functools.cache
def combining_class() -> str:
    """Makes a regular expression's class of the characters with a nonzero canonical combining class."""
    codes = [code for code in range(0x110000) if unicodedata.combining(chr(code))]
    begins = [code for code in codes if not unicodedata.combining(chr(code - 1))]
    ends = [code for code in codes if not unicodedata.combining(chr(code + 1))]
    return "[" + "".join(f"\\x{{{begin:x}}}-\\x{{{end:x}}}" for begin, end in zip(begins, ends, strict=True)) + "]"


def ends_in_comma(token: str) -> bool:
    """Checks whether a token ends in a digit and a comma; ALBERT splits such tokens."""
    return len(token) > 1 and token[-1] == "," and token[-2].isdigit()


# Name of a tokenizer's `family` -> how it uses its SentencePiece model.
FAMILIES = {name: usage for family in families.FAMILIES.values() for name, usage in family.sentencepiece.items()}


def read_bytes(model_file: str | Path | bytes) -> tuple[bytes, str]:
    """Reads the bytes of a model, and names it for messages. Raises FileNotFoundError, or ValueError if it is empty."""
    source = "the model"
    if isinstance(model_file, str | os.PathLike):
        source = str(model_file)
        if not Path(model_file).is_file():
            raise FileNotFoundError(f"no SentencePiece model at {model_file}; expected a spiece.model or the like")
        model_file = files.read_whole(model_file)
    if not model_file:
        raise ValueError(f"{source} is empty")
    return bytes(model_file), source


def vocabulary_of(pieces: Sequence[Piece], family: str, source: str) -> list[str]:
    """Lists the vocabulary of a family's model. Raises ValueError if the model is not of this family."""
    usage, tokens = FAMILIES[family], [each.piece for each in pieces]
    vocabulary = [*usage.first, *tokens[usage.skipped :], *usage.last]
    special_tokens = special_tokens_of(pieces, family)
    for name, token in special_tokens.items():
        if token not in vocabulary:
            raise ValueError(f"{source} has no {token}, the {name} of {family}; pass the family of this model")
    if (unknown := special_tokens["unk_token"]) not in tokens:
        raise ValueError(f"{source} has no {unknown} for unknown text")
    return vocabulary


def special_tokens_of(pieces: Sequence[Piece], family: str) -> dict[str, str]:
    """Names the special tokens of a family's model: argument of a tokenizer -> token."""
    unknown = next(each.piece for each in pieces if each.type == UNKNOWN)
    return FAMILIES[family].special_tokens or dict.fromkeys(TOKENS, unknown)


def tokens_in_no_text(pieces: Sequence[Piece], family: str) -> set[str]:
    """Lists the tokens of a family's model that no text has, beside its special tokens."""
    return {each.piece for each in pieces if each.type in (UNKNOWN, CONTROL, UNUSED)} | {*FAMILIES[family].first}


def read_pieces(model_file: str | Path | bytes, family: str) -> tuple[bytes, Sequence[Piece], list[str]]:
    """Reads a family's model: its bytes, its pieces, and the vocabulary. Raises ValueError for another file."""
    model, source = read_bytes(model_file)
    with files.as_value_error(source, f"{source} is not a SentencePiece model", ValueError):
        pieces = read_model(model).pieces
    return model, pieces, vocabulary_of(pieces, family, source)

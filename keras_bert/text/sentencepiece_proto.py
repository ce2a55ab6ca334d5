"""A serialized SentencePiece model <-> its pieces and its normalization, without the `sentencepiece` package."""

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

# ModelProto.SentencePiece.Type
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
_TYPES = range(1, 7)  # and UNUSED, BYTE


class Piece(NamedTuple):
    """A piece, its score (the natural logarithm of its probability), and one of the types above."""

    text: str
    score: float
    type: int = NORMAL


def pieces_of(model: bytes) -> list[Piece]:
    """The pieces of a serialized `ModelProto` (google/sentencepiece, sentencepiece_model.proto); the index is the id.

    Example:
        >>> pieces_of(unigram_model([Piece("<unk>", 0.0, UNKNOWN), Piece("▁a", -1.5)], b""))
        [Piece(text='<unk>', score=0.0, type=2), Piece(text='▁a', score=-1.5, type=1)]
    """
    found = [dict(_fields(value)) for field, value in _fields(model) if field == 1]
    return [Piece(each[1].decode(), *struct.unpack("<f", each.get(2, bytes(4))), each.get(3, NORMAL)) for each in found]


def checked_pieces_of(model: bytes) -> list[Piece]:
    """The pieces of a serialized model, checked: TensorFlow Text's operation crashes the process at some bad ones.

    Raises:
        ValueError: the bytes are no model, or a piece is empty, repeated, holds a U+0000, or has a score that is no
            number.
    """
    try:
        pieces = pieces_of(model)
    except (IndexError, KeyError, TypeError, AttributeError, ValueError, struct.error) as error:
        raise ValueError(f"it cannot be read ({type(error).__name__}: {error})") from None
    if not pieces:
        raise ValueError("it has no pieces")
    seen: dict[str, int] = {}
    for number, (text, score, kind) in enumerate(pieces):
        if not text or "\0" in text:
            raise ValueError(f"piece {number} is {'empty' if not text else f'{text!r}, with a U+0000'}")
        if text in seen:
            raise ValueError(f"piece {number} is {text!r}, as piece {seen[text]} is")
        if not math.isfinite(score):
            raise ValueError(f"piece {number}, {text!r}, has the score {score}")
        if kind not in _TYPES:
            raise ValueError(f"piece {number}, {text!r}, has the type {kind}; expected {_TYPES[0]} to {_TYPES[-1]}")
        seen[text] = number
    unknown = [number for number, piece in enumerate(pieces) if piece.type == UNKNOWN]
    if len(unknown) != 1:
        raise ValueError(f"it has {len(unknown)} pieces of the type for unknown text; expected 1")
    return pieces


def charsmap_of(model: bytes) -> bytes:
    """The model's normalization table, `precompiled_charsmap`; empty if there is none."""
    normalizer = next((value for field, value in _fields(model) if field == 3), b"")
    return dict(_fields(normalizer)).get(2, b"")


def unigram_model(pieces: Sequence[Piece], charsmap: bytes) -> bytes:
    """A serialized `ModelProto` of type Unigram, with SentencePiece's defaults for white space.

    A space is put before the text, and several spaces become one.
    """
    message = b""
    for text, score, kind in pieces:
        piece = _bytes(1, text.encode()) + b"\x15" + struct.pack("<f", score) + b"\x18" + _varint(kind)
        message += _bytes(1, piece)
    trainer = b"\x18" + _varint(1)  # model_type: UNIGRAM
    return message + _bytes(2, trainer) + _bytes(3, _bytes(2, charsmap))


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a serialized protocol buffer; for messages and strings, the bytes."""
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        kind = key & 7
        if kind == 0:
            value, place = _read_varint(message, place)
        else:
            if kind == 2:
                size, place = _read_varint(message, place)
            else:
                size = {1: 8, 5: 4}[kind]
            value, place = message[place : place + size], place + size
        yield key >> 3, value


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    """The number that begins at `place`, and where it ends."""
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place

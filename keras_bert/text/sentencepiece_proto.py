"""A serialized SentencePiece model <-> its pieces and its normalization, without the `sentencepiece` package."""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

# ModelProto.SentencePiece.Type
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4


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


def charsmap_of(model: bytes) -> bytes:
    """The table of the model's normalization, `precompiled_charsmap`; empty if there is none."""
    normalizer = next((value for field, value in _fields(model) if field == 3), b"")
    return dict(_fields(normalizer)).get(2, b"")


def unigram_model(pieces: Sequence[Piece], charsmap: bytes) -> bytes:
    """A serialized `ModelProto` of type Unigram; white space is as SentencePiece has it by default.

    That is: a space is put before the text, and of several one is left.
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
    """Number and value of each field of a serialized protocol buffer; of messages and strings, the bytes."""
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

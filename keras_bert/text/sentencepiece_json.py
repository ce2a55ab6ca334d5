"""A SentencePiece model -> Hugging Face's `tokenizer.json`, which says what the model alone leaves open."""

import base64
import struct
from collections.abc import Iterator, Sequence
from typing import Any

_SPACE = "▁"


def tokenizer_json(model: bytes, arguments: dict[str, Any], first: Sequence[str], skipped: int) -> dict[str, Any]:
    """The content of a `tokenizer.json` that gives the ids of the model.

    `transformers` reads a bare model too, but takes its user-defined symbols, such as ALBERT's `-` and `.`, for words.

    Args:
        model: a serialized `ModelProto` (google/sentencepiece, sentencepiece_model.proto).
        arguments: of the tokenizer, with the names of the special tokens.
        first, skipped: the vocabulary is `first`, the model's pieces without the first `skipped`, and the mask token,
            if that is not among them.
    """
    pieces = [_piece(value) for field, value in _fields(model) if field == 1]
    normalizer = dict(next((_fields(value) for field, value in _fields(model) if field == 3), ()))
    vocabulary = [(name, 0.0) for name in first] + pieces[skipped:]
    if arguments["mask_token"] not in dict(vocabulary):
        vocabulary.append((arguments["mask_token"], 0.0))
    ids = {piece: index for index, (piece, _) in enumerate(vocabulary)}
    cls, sep = arguments["cls_token"], arguments["sep_token"]
    albert = arguments["family"] == "albert"
    if albert:  # no piece ends in a digit and a comma, if there is another way
        vocabulary = [(piece, score - 100 * _ends_in_comma(piece)) for piece, score in vocabulary]
    steps: list[dict[str, Any]] = []
    if albert and arguments["strip_accents"]:
        steps += [{"type": "NFKD"}, {"type": "StripAccents"}]
    if albert and arguments["lowercase"]:
        steps += [{"type": "Lowercase"}]
    if charsmap := normalizer.get(2):
        steps += [{"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}]
    metaspace = {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": "always", "split": True}
    one = [(cls, 0), ("A", 0), (sep, 0)]
    two = [*one, ("B", 1), (sep, 1)] if albert else [*one, (sep, 0), ("B", 0), (sep, 0)]
    names = dict.fromkeys(arguments[f"{name}_token"] for name in ("cls", "pad", "sep", "unk", "mask"))
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": ids[name],
                "content": name,
                "single_word": False,
                "lstrip": name == arguments["mask_token"],
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for name in sorted(names, key=ids.get)
        ],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": _template(one),
            "pair": _template(two),
            "special_tokens": {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in (cls, sep)},
        },
        "decoder": metaspace,
        "model": {
            "type": "Unigram",
            "unk_id": ids[arguments["unk_token"]],
            "vocab": vocabulary,
            "byte_fallback": False,
        },
    }


def _template(parts: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    return [
        {"Sequence" if name in ("A", "B") else "SpecialToken": {"id": name, "type_id": type_id}}
        for name, type_id in parts
    ]


def _ends_in_comma(piece: str) -> bool:
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def _piece(message: bytes) -> tuple[str, float]:
    """`ModelProto.SentencePiece` -> the piece and its score."""
    values = dict(_fields(message))
    return values[1].decode(), struct.unpack("<f", values.get(2, bytes(4)))[0]


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a serialized protocol buffer; of messages and strings, the bytes."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(message, place)
        else:
            if kind == 2:
                size, place = _varint(message, place)
            else:
                size = {1: 8, 5: 4}[kind]
            value, place = message[place : place + size], place + size
        yield key >> 3, value


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """The number that begins at `place`, seven bits a byte, the lowest first; and where it ends."""
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place

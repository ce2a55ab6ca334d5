"""A SentencePiece model -> Hugging Face's `tokenizer.json`, with settings that the model alone lacks."""

import base64
from collections.abc import Sequence
from typing import Any

from keras_bert.text.sentencepiece_families import FAMILIES
from keras_bert.text.sentencepiece_proto import USER_DEFINED, charsmap_of, pieces_of

_SPACE = "▁"


def tokenizer_json(model: bytes, family: str, lowercase: bool, strip_accents: bool) -> dict[str, Any]:
    """The content of a `tokenizer.json` that gives the same ids as the model.

    `transformers` reads a bare model too, but takes its user-defined symbols, such as ALBERT's `-` and `.`, for words.

    Args:
        model: a serialized `ModelProto` (google/sentencepiece, sentencepiece_model.proto).
        family, lowercase, strip_accents: arguments of the tokenizer.
    """
    layout = FAMILIES[family]
    tokens, pieces = layout.special_tokens, pieces_of(model)
    vocabulary = [(name, 0.0) for name in layout.first]
    vocabulary += [(piece.text, piece.score) for piece in pieces[layout.skipped :]]
    vocabulary += [(name, 0.0) for name in layout.last]
    ids = {piece: index for index, (piece, _) in enumerate(vocabulary)}
    if layout.splits_commas:  # no piece ends in a digit and a comma, if there is another way
        vocabulary = [(piece, score - 100 * _ends_in_comma(piece)) for piece, score in vocabulary]
    steps: list[dict[str, Any]] = []
    if layout.as_transformers:
        steps += [{"type": "Replace", "pattern": {"String": quote}, "content": '"'} for quote in ("``", "''")]
    if strip_accents:
        steps += [{"type": "NFKD"}, {"type": "StripAccents"}]
    if lowercase:
        steps += [{"type": "Lowercase"}]
    if charsmap := charsmap_of(model):
        steps += [{"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}]
    metaspace = {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": "always", "split": True}
    cls, sep, mask = (tokens[f"{name}_token"] for name in ("cls", "sep", "mask"))
    one = [(cls, 0), ("A", 0), (sep, 0)]
    type_id = layout.pair_format.second_type_id
    two = [*one, *[(sep, type_id)] * (layout.pair_format.separators - 1), ("B", type_id), (sep, type_id)]
    symbols = [piece.text for piece in pieces if piece.type == USER_DEFINED] if layout.as_transformers else []
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": ids[name],
                "content": name,
                "single_word": False,
                "lstrip": name == mask,
                "rstrip": False,
                "normalized": False,
                "special": name not in symbols,
            }
            for name in sorted({*tokens.values(), *symbols}, key=ids.get)
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
            "unk_id": ids[tokens["unk_token"]],
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

"""Hugging Face's `tokenizer.json` of type Unigram -> the SentencePiece model that gives the same ids."""

import base64
import binascii
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats import keras_hub
from keras_bert.text.sentencepiece_families import FAMILIES
from keras_bert.text.sentencepiece_json import tokenizer_json
from keras_bert.text.sentencepiece_proto import CONTROL, NORMAL, UNKNOWN, USER_DEFINED, Piece, unigram_model

_SPACE = "▁"
_SPECIAL = {token for layout in FAMILIES.values() for token in layout.special_tokens.values()}


def read_tokenizer_json(path: Path) -> dict[str, Any]:
    """Reads the arguments of `SentencePieceTokenizer` from a `tokenizer.json` alone.

    The model is rebuilt, and its `tokenizer_json` is compared with the file. A difference is a setting that has no
    place in a SentencePiece model, and is refused. Scores are rounded to float32.

    Args:
        path: the file, as transformers 5 saves an `AlbertTokenizer` or `XLMRobertaTokenizer`; or as KerasHub does,
            beside its own model.

    Returns:
        `model_file`, `family`, and, for transformers' files, `lowercase` and `strip_accents`.

    Raises:
        ValueError: it is damaged, or has a setting that cannot be expressed, which the message names.
    """
    content = files.read_json(path)
    if (arguments := keras_hub.tokenizer_arguments(path, content, "Unigram")) is not None:
        return arguments
    try:
        vocabulary = [(str(piece), float(score)) for piece, score in content["model"]["vocab"]]
        added = [_plain_token(token) for token in content["added_tokens"]]
        steps = _steps(content["normalizer"], "normalizers")
        charsmaps = [step["precompiled_charsmap"] for step in steps if step["type"] == "Precompiled"]
        charsmap = b"".join(base64.b64decode(each, validate=True) for each in charsmaps)
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
        raise ValueError(f"{path} is not a tokenizer.json of type Unigram: {error!r:.200}") from None
    if not charsmap:
        raise ValueError(f"{path}: its normalizer has no Precompiled table; white space would be taken otherwise")
    family = _family(path, [piece for piece, _ in vocabulary])
    types = {step["type"] for step in steps}
    arguments = {"family": family, "lowercase": "Lowercase" in types, "strip_accents": "StripAccents" in types}
    hangul = next((piece for piece, _ in vocabulary if re.search("[가-힣]", piece)), None)
    if hangul and "NFKD" in types:
        raise ValueError(
            f"{path}: its normalizer takes syllables of Hangul apart (NFKD), such as those of its piece {hangul!r}, "
            "and SentencePiece would put them together again; with keep_accents=True, it does neither"
        )
    model = _rebuilt(vocabulary, family, {token["content"] for token in added}, charsmap)
    told = tokenizer_json(model, **arguments)
    told["added_tokens"] = [_plain_token(token) for token in told["added_tokens"]]
    found = {**content, "added_tokens": sorted(added, key=lambda token: token["id"])}
    pairs = {
        "normalizer": [_steps(each["normalizer"], "normalizers") for each in (found, told)],
        "pre_tokenizer": [_plain_spaces(_steps(each["pre_tokenizer"], "pretokenizers")) for each in (found, told)],
        **{key: [found.get(key), told[key]] for key in ("post_processor", "added_tokens")},
        "model": [_plain_model(each["model"]) for each in (found, told)],
    }
    for key, (theirs, ours) in pairs.items():
        if theirs != ours:
            theirs, ours = _first_difference(theirs, ours)
            raise ValueError(f"{path}: its {key} has {theirs!r:.300}, where {family} has {ours!r:.300}")
    return {"model_file": model, **arguments}


def _family(path: Path, pieces: Sequence[str]) -> str:
    for piece in pieces:
        if not piece or _SPACE in piece.lstrip(_SPACE):
            raise ValueError(f"{path} has the piece {piece!r}; SentencePiece would use it across words, this file not")
    twice = next((piece for piece in pieces if pieces.count(piece) > 1), None) if len({*pieces}) < len(pieces) else None
    if twice is not None:
        raise ValueError(f"{path} has the piece {twice!r} twice")
    if _SPACE not in pieces:
        raise ValueError(f"{path} has no piece {_SPACE}: unknown words could not be told apart")
    for family in ("albert-transformers", "xlm-roberta"):
        layout = FAMILIES[family]
        ends = [*pieces[: len(layout.first)], *pieces[len(pieces) - len(layout.last) :]]
        if ends == [*layout.first, *layout.last] and {*pieces}.issuperset(layout.special_tokens.values()):
            return family
    raise ValueError(
        f"{path} is of no known family: its vocabulary has the special tokens of neither ALBERT "
        "([CLS], [SEP], [MASK]) nor, at its ends, XLM-RoBERTa (<s>, <pad>, </s>, <unk>; <mask>)"
    )


def _rebuilt(vocabulary: Sequence[tuple[str, float]], family: str, added: set[str], charsmap: bytes) -> bytes:
    layout = FAMILIES[family]
    unknown = layout.special_tokens["unk_token"]
    types = dict.fromkeys(added, USER_DEFINED if layout.as_transformers else NORMAL)
    types |= dict.fromkeys(layout.special_tokens.values(), CONTROL) | {unknown: UNKNOWN}
    own = vocabulary[len(layout.first) : len(vocabulary) - len(layout.last)]
    pieces = [Piece(piece, score, types.get(piece, NORMAL)) for piece, score in own]
    if layout.skipped:
        pieces = [Piece(unknown, 0.0, UNKNOWN), Piece("<s>", 0.0, CONTROL), Piece("</s>", 0.0, CONTROL), *pieces]
    return unigram_model(pieces, charsmap)


def _steps(value: dict[str, Any] | None, key: str) -> list[dict[str, Any]]:
    """The steps of a sequence; the file may also have a single step, or null."""
    if value is None:
        return []
    return list(value[key]) if value["type"] == "Sequence" else [value]


def _plain_spaces(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Metaspace in today's form: older files have `add_prefix_space`."""
    plain = []
    for step in steps:
        if step.get("type") == "Metaspace":
            always = "always" if step.get("add_prefix_space") else "never"
            step = {"prepend_scheme": always, "split": True} | step
            step = {key: value for key, value in step.items() if key not in ("add_prefix_space", "str_rep")}
        plain.append(step)
    return plain


def _plain_token(token: dict[str, Any]) -> dict[str, Any]:
    """The fields that decide which text is a token, without `lstrip`: white space before it is no piece anyway."""
    plain = {key: token[key] for key in ("id", "content", "single_word", "rstrip")}
    return plain | {"normalized": token["normalized"] and token["content"] not in _SPECIAL}


def _plain_model(model: dict[str, Any]) -> dict[str, Any]:
    vocabulary = [(piece, struct.unpack("<f", struct.pack("<f", score))[0]) for piece, score in model["vocab"]]
    return {"byte_fallback": False, **model, "vocab": vocabulary}


def _first_difference(theirs: Any, ours: Any) -> tuple[Any, Any]:
    """The first difference inside two values, for the error message."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        key = next(key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key))
        if key in theirs and key in ours:
            return _first_difference(theirs[key], ours[key])
        return tuple({key: each[key]} if key in each else f"no {key}" for each in (theirs, ours))
    if isinstance(theirs, list) and isinstance(ours, list):
        index = next((i for i, pair in enumerate(zip(theirs, ours, strict=False)) if pair[0] != pair[1]), None)
        index = min(len(theirs), len(ours)) if index is None else index
        return tuple(each[index] if index < len(each) else "nothing more" for each in (theirs, ours))
    return theirs, ours

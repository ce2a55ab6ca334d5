"""`vocab.json`, `merges.txt` and `tokenizer.json` <-> the arguments of `BytePairTokenizer`."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.text import keras_hub_files
from keras_bert.text.tokenizer_files import ALL_IN_ONE, CONFIG, read_config, read_vocabulary_of_json

VOCABULARY, MERGES = "vocab.json", "merges.txt"
FILES = (VOCABULARY, MERGES, CONFIG)

# Our name of an argument -> the one in tokenizer_config.json.
_NAMES = {
    "add_prefix_space": "add_prefix_space",
    "unk_token": "unk_token",
    "cls_token": "cls_token",
    "sep_token": "sep_token",
    "pad_token": "pad_token",
    "mask_token": "mask_token",
}


def read_ids(vocabulary: str | Path | Mapping[str, int] | Sequence[str], needed: Mapping[str, str]) -> dict[str, int]:
    """Piece -> id, checked.

    Args:
        vocabulary: path of a `vocab.json`, or its content, or the list of pieces.
        needed: what a piece is -> the piece, which must be there.

    Raises:
        FileNotFoundError: no such file.
        TypeError, ValueError: no vocabulary, or a damaged one.
    """
    source = "the vocabulary"
    if isinstance(vocabulary, str | os.PathLike):
        source = str(vocabulary)
        if not Path(vocabulary).is_file():
            raise FileNotFoundError(
                f"no vocabulary file at {vocabulary}; expected a vocab.json with the id of each piece"
            )
        vocabulary = files.read_json(Path(vocabulary))
    elif not isinstance(vocabulary, Mapping):
        pieces = list(vocabulary)
        vocabulary = {piece: index for index, piece in enumerate(pieces)}
        if len(vocabulary) < len(pieces):
            twice = next(piece for index, piece in enumerate(pieces) if vocabulary[piece] != index)
            raise ValueError(f"{source} has {twice!r} twice")
    for piece, index in vocabulary.items():
        if not isinstance(piece, str) or not piece or not isinstance(index, int) or isinstance(index, bool):
            raise ValueError(
                f"{source} is damaged: {piece!r:.60} has the id {index!r:.60}; expected a piece and a number"
            )
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise ValueError(
            f"{source} is damaged: the ids of its {len(vocabulary)} pieces are not 0 to {len(vocabulary) - 1}"
        )
    for name, piece in needed.items():
        if piece not in vocabulary:
            advice = f"add it, or pass {name}= with the name that it has there"
            if not name.endswith("_token"):
                advice = f"it stands for {name}, and byte pairs are made of all 256 bytes"
            raise ValueError(f"{source} has no {piece}; {advice}")
    return dict(vocabulary)


def read_merges(merges: str | Path | Sequence[str] | Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """The pairs of a `merges.txt` (UTF-8, a pair a line, with a space between; the first line may be a comment).

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is not UTF-8, or something in it is no pair.
    """
    source = "the merges"
    if isinstance(merges, str | os.PathLike):
        source = str(merges)
        if not Path(merges).is_file():
            raise FileNotFoundError(f"no merges at {merges}; expected a merges.txt with one pair of pieces a line")
        try:
            lines = Path(merges).read_bytes().decode("utf-8-sig").split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{merges} is not UTF-8: {error}") from None
        lines = [line.removesuffix("\r") for line in lines]
        merges = [
            line for number, line in enumerate(lines) if line and not (number == 0 and line.startswith("#version"))
        ]
    pairs = []
    for number, pair in enumerate(merges):
        parts = tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair)
        if len(parts) != 2 or not all(isinstance(part, str) and part for part in parts):
            raise ValueError(f"{source}: merge {number} is {pair!r:.60}; expected two pieces with a space between")
        pairs.append(parts)
    return pairs


def check_merges(merges: Sequence[tuple[str, str]], ids: Mapping[str, int], source: str) -> None:
    """Raises ValueError if a merge's parts or result are no pieces."""
    for number, (left, right) in enumerate(merges):
        for piece in (left, right, left + right):
            if piece not in ids:
                raise ValueError(
                    f"merge {number} makes {left + right!r:.60} of {left!r:.60} and {right!r:.60}, but {source} has no "
                    f"{piece!r:.60}; are the vocabulary and the merges of the same model?"
                )


def read_bytepair_files(directory: Path) -> dict[str, Any]:
    """The arguments of `BytePairTokenizer` that `directory` tells.

    Args:
        directory: has `vocab.json` and `merges.txt`, or else `tokenizer.json`; and perhaps `tokenizer_config.json`.

    Raises:
        FileNotFoundError: no vocabulary.
        ValueError: `tokenizer.json` is of another kind.
    """
    if (directory / VOCABULARY).is_file() and (directory / MERGES).is_file():
        arguments: dict[str, Any] = {"vocabulary": directory / VOCABULARY, "merges": directory / MERGES}
    else:
        arguments = _read_tokenizer_json(files.find(directory, ALL_IN_ONE))
    return arguments | read_config(directory, _NAMES)


def write_bytepair_files(directory: str | Path, arguments: dict[str, Any], overwrite: bool) -> None:
    """Writes `vocab.json`, `merges.txt` and `tokenizer_config.json`; each appears whole or not at all.

    Raises:
        FileExistsError: one is there already, and `overwrite` is false.
    """
    config = {"tokenizer_class": "RobertaTokenizer"} | {theirs: arguments[ours] for ours, theirs in _NAMES.items()}
    # In a text, it takes the space before it.
    config["mask_token"] = {"__type": "AddedToken", "content": config["mask_token"], "lstrip": True, "special": True}
    vocabulary = {piece: index for index, piece in enumerate(arguments["vocabulary"])}
    merges = "".join(f"{line}\n" for line in ("#version: 0.2", *arguments["merges"]))
    files.refuse_to_overwrite(directory, FILES, overwrite)
    texts = {VOCABULARY: files.to_json(vocabulary), MERGES: merges, CONFIG: files.to_json(config)}
    files.write_texts(directory, texts)


def _read_tokenizer_json(path: Path) -> dict[str, Any]:
    content = files.read_json(path)
    if (arguments := keras_hub_files.read(path, content, "BPE")) is not None:
        return arguments
    model, split = content.get("model") or {}, content.get("pre_tokenizer") or {}
    if model.get("type", "BPE") != "BPE" or "merges" not in model:
        raise ValueError(f"{path} holds a {model.get('type')} tokenizer, not byte pairs")
    for what, value, plain in (
        ("normalizes with", (content.get("normalizer") or {}).get("type"), None),
        ("splits text with", split.get("type"), "ByteLevel"),
        ("splits text by another pattern than GPT-2's, use_regex:", split.get("use_regex", True), True),
        ("has dropout", model.get("dropout") or None, None),
        ("has ignore_merges", model.get("ignore_merges") or False, False),
        ("marks continuing pieces with", model.get("continuing_subword_prefix") or "", ""),
        ("marks the ends of words with", model.get("end_of_word_suffix") or "", ""),
    ):
        if value != plain:
            raise ValueError(f"{path} {what} {value!r}, where RoBERTa's has {plain!r}: it would give other ids")
    return {
        "vocabulary": read_vocabulary_of_json(path, content),
        "merges": model["merges"],
        "add_prefix_space": bool(split.get("add_prefix_space")),
    }

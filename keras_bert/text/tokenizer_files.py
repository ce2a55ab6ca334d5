"""Hugging Face's tokenizer files <-> the arguments of `WordPieceTokenizer`."""

import json
import os
from pathlib import Path
from typing import Any

from keras_bert import presets

# Our name of an argument -> the one in tokenizer_config.json.
_NAMES = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "split_on_cjk": "tokenize_chinese_chars",
    "unk_token": "unk_token",
    "cls_token": "cls_token",
    "sep_token": "sep_token",
    "pad_token": "pad_token",
    "mask_token": "mask_token",
}


def read_wordpiece_files(directory: Path) -> dict[str, Any]:
    """The arguments of `WordPieceTokenizer` that `directory` tells.

    Args:
        directory: has `vocab.txt`, or else `tokenizer.json`; and `tokenizer_config.json`, which has the last word, or
            may be missing, as in Google's checkpoints (the defaults then stand).

    Raises:
        FileNotFoundError: no vocabulary.
        ValueError: `tokenizer.json` is of another kind.
    """
    arguments: dict[str, Any] = {}
    if (directory / "vocab.txt").is_file():
        arguments["vocabulary"] = directory / "vocab.txt"
    else:
        arguments |= _read_tokenizer_json(presets.file_in(directory, "vocab.txt", "tokenizer.json"))
    if (directory / "tokenizer_config.json").is_file():
        config = json.loads((directory / "tokenizer_config.json").read_text("utf-8"))
        for ours, theirs in _NAMES.items():
            value = config.get(theirs)
            if value is not None:
                arguments[ours] = value["content"] if isinstance(value, dict) else value
    return arguments


def write_wordpiece_files(directory: str | Path, arguments: dict[str, Any], overwrite: bool) -> None:
    """Writes `vocab.txt` and `tokenizer_config.json`; each appears whole or not at all.

    Raises:
        FileExistsError: one is there already, and `overwrite` is false.
    """
    config = {"tokenizer_class": "BertTokenizer"} | {theirs: arguments[ours] for ours, theirs in _NAMES.items()}
    files = {
        "vocab.txt": "".join(piece + "\n" for piece in arguments["vocabulary"]),
        "tokenizer_config.json": json.dumps(config, indent=2, ensure_ascii=False) + "\n",
    }
    directory = Path(directory)
    for name in files:
        if (directory / name).exists() and not overwrite:
            raise FileExistsError(f"{directory / name} exists; pass overwrite=True to replace it")
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        unfinished = directory / f".{name}.{os.getpid()}"
        unfinished.write_bytes(content.encode())
        os.replace(unfinished, directory / name)


def _read_tokenizer_json(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text("utf-8"))
    kind = content["model"].get("type")
    if kind != "WordPiece":
        raise ValueError(f"{path} holds a {kind} tokenizer, not WordPiece")
    ids = dict(content["model"]["vocab"])
    ids |= {token["content"]: token["id"] for token in content.get("added_tokens", [])}
    vocabulary = sorted(ids, key=ids.get)
    if [ids[piece] for piece in vocabulary] != list(range(len(ids))):
        raise ValueError(f"the ids of the vocabulary in {path} are not 0 to {len(ids) - 1}")
    normalizer = content.get("normalizer") or {}
    if normalizer.get("type") != "BertNormalizer":
        raise ValueError(f"{path} normalizes with {normalizer.get('type')}, not with BertNormalizer")
    return {
        "vocabulary": vocabulary,
        "lowercase": normalizer["lowercase"],
        "strip_accents": normalizer["strip_accents"],
        "split_on_cjk": normalizer["handle_chinese_chars"],
        "unk_token": content["model"]["unk_token"],
    }

"""Hugging Face's tokenizer files: what they have in common, and those of WordPiece <-> its tokenizer's arguments."""

from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.text import keras_hub_files

VOCABULARY = "vocab.txt"
CONFIG = "tokenizer_config.json"
FILES = (VOCABULARY, CONFIG)
ALL_IN_ONE = "tokenizer.json"

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
        directory: has `vocab.txt`, or else `tokenizer.json`, Hugging Face's or KerasHub's; and `tokenizer_config.json`,
            which has the last word, or may be missing, as in Google's checkpoints (the defaults then stand).

    Raises:
        FileNotFoundError: no vocabulary.
        ValueError: `tokenizer.json` is of another kind.
    """
    arguments: dict[str, Any] = {}
    path = files.find(directory, VOCABULARY, ALL_IN_ONE)
    if path.name == VOCABULARY:
        arguments["vocabulary"] = path
    else:
        arguments |= _read_tokenizer_json(path)
    return arguments | read_config(directory, _NAMES)


def read_config(directory: Path, names: dict[str, str]) -> dict[str, Any]:
    """What `tokenizer_config.json` says, if there is one.

    Args:
        directory: where it may be.
        names: our name of an argument -> the one in the file.
    """
    if not (directory / CONFIG).is_file():
        return {}
    config = files.read_json(directory / CONFIG)
    values = {ours: config[theirs] for ours, theirs in names.items() if config.get(theirs) is not None}
    return {name: value["content"] if isinstance(value, dict) else value for name, value in values.items()}


def write_wordpiece_files(directory: str | Path, arguments: dict[str, Any], overwrite: bool) -> None:
    """Writes `vocab.txt` and `tokenizer_config.json`; each appears whole or not at all.

    Raises:
        FileExistsError: one is there already, and `overwrite` is false.
    """
    config = {"tokenizer_class": "BertTokenizer"} | {theirs: arguments[ours] for ours, theirs in _NAMES.items()}
    vocabulary = "".join(piece + "\n" for piece in arguments["vocabulary"])
    files.refuse_to_overwrite(directory, FILES, overwrite)
    files.write_texts(directory, {VOCABULARY: vocabulary, CONFIG: files.to_json(config)})


def _read_tokenizer_json(path: Path) -> dict[str, Any]:
    content = files.read_json(path)
    if (arguments := keras_hub_files.read(path, content, "WordPiece")) is not None:
        return arguments
    kind = content.get("model", {}).get("type")
    if kind != "WordPiece":
        raise ValueError(f"{path} holds a {kind} tokenizer, not WordPiece")
    vocabulary = read_vocabulary_of_json(path, content)
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


def read_vocabulary_of_json(path: Path, content: dict[str, Any]) -> list[str]:
    """The pieces of a `tokenizer.json` whose `content` was read from `path`, added tokens too; the index is the id."""
    ids = dict(content["model"]["vocab"])
    ids |= {token["content"]: token["id"] for token in content.get("added_tokens", [])}
    vocabulary = sorted(ids, key=ids.get)
    if [ids[piece] for piece in vocabulary] != list(range(len(ids))):
        raise ValueError(f"the ids of the vocabulary in {path} are not 0 to {len(ids) - 1}")
    return vocabulary

"""Hugging Face's tokenizer files for WordPiece and BPE <-> the arguments of our tokenizers."""

from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats import keras_hub

VOCABULARY = "vocab.txt"
CONFIG = "tokenizer_config.json"
IDS, MERGES = "vocab.json", "merges.txt"
ALL_IN_ONE = "tokenizer.json"

# Our name of an argument -> the one in tokenizer_config.json.
_TOKENS = {f"{name}_token": f"{name}_token" for name in ("unk", "cls", "sep", "pad", "mask")}
_OF_WORDPIECE = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "split_on_cjk": "tokenize_chinese_chars",
    **_TOKENS,
}
_OF_BYTE_PAIRS = {"add_prefix_space": "add_prefix_space", **_TOKENS}


def read_wordpiece_files(directory: Path) -> dict[str, Any]:
    """The arguments of `WordPieceTokenizer` from the files in `directory`.

    Args:
        directory: has `vocab.txt`, or else Hugging Face's or KerasHub's `tokenizer.json`. If it has
            `tokenizer_config.json`, this takes precedence; Google's checkpoints have none (then the defaults apply).

    Raises:
        FileNotFoundError: no vocabulary.
        ValueError: `tokenizer.json` is of another kind.
    """
    arguments: dict[str, Any] = {}
    path = files.find(directory, VOCABULARY, ALL_IN_ONE)
    if path.name == VOCABULARY:
        arguments["vocabulary"] = path
    else:
        arguments |= _wordpiece(path)
    return arguments | read_tokenizer_config(directory, _OF_WORDPIECE)


def read_tokenizer_config(directory: Path, names: dict[str, str]) -> dict[str, Any]:
    """The values in `tokenizer_config.json`, if there is one.

    Args:
        directory: may have it.
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
        FileExistsError: one of them exists, and `overwrite` is False.
    """
    stated = {theirs: arguments[ours] for ours, theirs in _OF_WORDPIECE.items()}
    config = {"tokenizer_class": "BertTokenizer", **stated}
    vocabulary = "".join(token + "\n" for token in arguments["vocabulary"])
    files.refuse_to_overwrite(directory, (VOCABULARY, CONFIG), overwrite)
    files.write_texts(directory, {VOCABULARY: vocabulary, CONFIG: files.to_json(config)})


def _wordpiece(path: Path) -> dict[str, Any]:
    content = files.read_json(path)
    if (arguments := keras_hub.tokenizer_arguments(path, content, "WordPiece")) is not None:
        return arguments
    kind = content.get("model", {}).get("type")
    if kind != "WordPiece":
        raise ValueError(f"{path} holds a {kind} tokenizer, not WordPiece")
    vocabulary = _tokens_of_json(path, content)
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


def _tokens_of_json(path: Path, content: dict[str, Any]) -> list[str]:
    """The vocabulary in the `content` of a `tokenizer.json` at `path`, with added tokens; the index is the id."""
    ids = dict(content["model"]["vocab"])
    ids |= {token["content"]: token["id"] for token in content.get("added_tokens", [])}
    vocabulary = sorted(ids, key=ids.get)
    if [ids[token] for token in vocabulary] != list(range(len(ids))):
        raise ValueError(f"the ids of the vocabulary in {path} are not 0 to {len(ids) - 1}")
    return vocabulary


def read_bytepair_files(directory: Path) -> dict[str, Any]:
    """The arguments of `BytePairTokenizer` from the files in `directory`.

    Args:
        directory: has `vocab.json` and `merges.txt`, or `tokenizer.json`; and maybe `tokenizer_config.json`.

    Raises:
        FileNotFoundError: no vocabulary.
        ValueError: `tokenizer.json` is of another kind.
    """
    if (directory / IDS).is_file() and (directory / MERGES).is_file():
        arguments: dict[str, Any] = {"vocabulary": directory / IDS, "merges": directory / MERGES}
    else:
        arguments = _byte_pairs(files.find(directory, ALL_IN_ONE))
    return arguments | read_tokenizer_config(directory, _OF_BYTE_PAIRS)


def write_bytepair_files(directory: str | Path, arguments: dict[str, Any], overwrite: bool) -> None:
    """Writes `vocab.json`, `merges.txt` and `tokenizer_config.json`; each appears whole or not at all.

    Raises:
        FileExistsError: one of them exists, and `overwrite` is False.
    """
    stated = {theirs: arguments[ours] for ours, theirs in _OF_BYTE_PAIRS.items()}
    # In a text, the mask token includes the space before it.
    stated["mask_token"] = {"__type": "AddedToken", "content": stated["mask_token"], "lstrip": True, "special": True}
    config = {"tokenizer_class": "RobertaTokenizer", **stated}
    vocabulary = {token: index for index, token in enumerate(arguments["vocabulary"])}
    merges = "".join(f"{line}\n" for line in ("#version: 0.2", *arguments["merges"]))
    files.refuse_to_overwrite(directory, (IDS, MERGES, CONFIG), overwrite)
    texts = {IDS: files.to_json(vocabulary), MERGES: merges, CONFIG: files.to_json(config)}
    files.write_texts(directory, texts)


def _byte_pairs(path: Path) -> dict[str, Any]:
    content = files.read_json(path)
    if (arguments := keras_hub.tokenizer_arguments(path, content, "BPE")) is not None:
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
        ("marks continuing tokens with", model.get("continuing_subword_prefix") or "", ""),
        ("marks the ends of words with", model.get("end_of_word_suffix") or "", ""),
    ):
        if value != plain:
            raise ValueError(f"{path} {what} {value!r}, where RoBERTa's has {plain!r}: it would give other ids")
    return {
        "vocabulary": _tokens_of_json(path, content),
        "merges": model["merges"],
        "add_prefix_space": bool(split.get("add_prefix_space")),
    }

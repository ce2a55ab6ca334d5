"""KerasHub's files, `tokenizer.json` (a serialized layer) and `assets/tokenizer` -> a tokenizer's arguments."""

from pathlib import Path
from typing import Any

ASSETS = Path("assets", "tokenizer")

# Class -> the type that Hugging Face's tokenizer.json would state.
_TYPES = {
    "BertTokenizer": "WordPiece",
    "DistilBertTokenizer": "WordPiece",
    "ElectraTokenizer": "WordPiece",
    "RobertaTokenizer": "BPE",
    "XLMRobertaTokenizer": "Unigram",
}
_ROBERTA_TOKENS = {"<s>", "</s>", "<pad>", "<mask>"}


def type_of(path: Path, content: dict[str, Any]) -> str | None:
    """The type of tokenizer that `content`, read from `path`, is of; None if KerasHub did not write it.

    Raises:
        ValueError: it is of a class whose ids no tokenizer here gives.
    """
    if "class_name" not in content or "model" in content:
        return None
    name = content["class_name"]
    if name == "AlbertTokenizer":
        raise ValueError(
            f"{path} holds KerasHub's AlbertTokenizer, which leaves capitals, accents and commas behind digits to the "
            f"model, as no tokenizer here does; to read it as ALBERT was trained, copy {ASSETS / 'vocabulary.spm'} to "
            "spiece.model beside that file"
        )
    if str(name) not in _TYPES:
        raise ValueError(f"{path} holds a {name} of KerasHub's; supported are {', '.join(_TYPES)}")
    return _TYPES[name]


def read(path: Path, content: dict[str, Any], expected: str) -> dict[str, Any] | None:
    """The arguments of the tokenizer here; None if KerasHub did not write `content`, which was read from `path`.

    Args:
        path: of the `tokenizer.json`.
        content: what it holds.
        expected: "WordPiece", "BPE" or "Unigram".

    Raises:
        ValueError: it is of another type, or has a setting that would give other ids.
    """
    found = type_of(path, content)
    if found is None:
        return None
    if found != expected:
        raise ValueError(f"{path} holds a {content['class_name']} of KerasHub's, whose type is {found}, not {expected}")
    config = content.get("config")
    if not isinstance(config, dict):
        raise ValueError(f"{path}: it has no 'config'")
    return _READERS[found](path, path.parent / ASSETS, config)


def _wordpiece(path: Path, assets: Path, config: dict[str, Any]) -> dict[str, Any]:
    plain = {"split": True, "suffix_indicator": "##", "sequence_length": None, "special_tokens": None}
    _check_plain(path, config, plain)
    return {
        "vocabulary": assets / "vocabulary.txt",
        "lowercase": config.get("lowercase", False),
        "strip_accents": config.get("strip_accents", False),
        "split_on_cjk": config.get("split_on_cjk", True),
        "max_chars_per_word": 100,
        "special_tokens_in_text": config.get("special_tokens_in_strings", False),
        "unk_token": config.get("oov_token", "[UNK]"),
    }


def _byte_pairs(path: Path, assets: Path, config: dict[str, Any]) -> dict[str, Any]:
    _check_plain(path, config, {"sequence_length": None})
    others = sorted(set(config.get("unsplittable_tokens") or ()) - _ROBERTA_TOKENS)
    if others:
        raise ValueError(f"{path} has unsplittable_tokens that are not RoBERTa's: {', '.join(others)}")
    return {
        "vocabulary": assets / "vocabulary.json",
        "merges": assets / "merges.txt",
        "add_prefix_space": config.get("add_prefix_space", False),
    }


def _sentencepiece(path: Path, assets: Path, config: dict[str, Any]) -> dict[str, Any]:
    _check_plain(path, config, {"sequence_length": None, "add_bos": False, "add_eos": False})
    return {"model_file": assets / "vocabulary.spm", "family": "xlm-roberta"}


def _check_plain(path: Path, config: dict[str, Any], plain: dict[str, Any]) -> None:
    for name, value in plain.items():
        if config.get(name, value) != value:
            raise ValueError(f"{path}: {name} is {config[name]!r}, not {value!r}: no tokenizer here gives these ids")


_READERS = {"WordPiece": _wordpiece, "BPE": _byte_pairs, "Unigram": _sentencepiece}

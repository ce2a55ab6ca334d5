"""Reads and writes the files of a SentencePiece tokenizer: its model and `tokenizer.json`."""

import base64
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats.hugging_face_tokenizers import (
    ALL_IN_ONE,
    ANY_CLASS,
    CONFIG,
    TOKENS,
    mask_with_space,
    write_tokenizer,
)
from keras_bert.formats.layout_table import check_plain
from keras_bert.formats.tokenizer_files import TokenizerFiles
from keras_bert.text.sentencepiece_families import FAMILIES
from keras_bert.text.sentencepiece_json import normalizers_of, read_tokenizer_json, tokenizer_json

_SETTINGS = {"tokenizer_class": "tokenizer_class", "lowercase": "do_lower_case", "keep_accents": "keep_accents"}
MODELS = tuple(layout.model for layout in FAMILIES.values() if layout.model)


def read_sentencepiece_files(found: TokenizerFiles) -> dict[str, Any]:
    """Reads the arguments of `SentencePieceTokenizer` from its model, or `tokenizer.json`.

    `tokenizer_config.json` takes precedence, if there is one.

    Raises:
        FileNotFoundError: there is no model.
        ValueError: the class of the tokenizer is unknown, or a setting in `tokenizer.json` is not supported.
    """
    path, config_path = files.find(found.directory, *MODELS, ALL_IN_ONE), found.directory / CONFIG
    by_class = {layout.transformers_class: name for name, layout in reversed(FAMILIES.items()) if layout.model}
    config = found.settings(_SETTINGS)
    named = config.pop("tokenizer_class", "").removesuffix("Fast")
    if named in ("PreTrainedTokenizer", "TokenizersBackend"):
        named = ""
    if named and named not in by_class:
        known = ", ".join(sorted(by_class))
        raise ValueError(f"{config_path} asks for {named}; supported with SentencePiece: {known}")
    if path.name == ALL_IN_ONE:
        arguments = read_tokenizer_json(path, found.whole)
    else:
        family = next(family for family, layout in FAMILIES.items() if layout.model == path.name)
        arguments = {"model_file": path, "family": by_class[named] if named else family}
    layout = FAMILIES[arguments["family"]]
    check_plain(found.settings(TOKENS), layout.special_tokens, config_path)
    if layout.transformers_class == "DebertaV2Tokenizer":
        check_plain({"do_lower_case": config.get("lowercase")}, {"do_lower_case": False}, config_path)
    if layout.transformers_class == "AlbertTokenizer":
        if "keep_accents" in config:
            config["strip_accents"] = not config.pop("keep_accents")
        arguments |= config
        if found.has_whole:
            types = {step["type"] for step in normalizers_of(found.whole_path, found.whole)}
            _check_normalization(found.whole_path, types, {**vars(layout), **arguments})
    return arguments


def _check_normalization(path: Path, types: set[str], arguments: dict[str, Any]) -> None:
    """Raises ValueError if the normalizers in a `tokenizer.json` are not those of the arguments."""
    for name, kind in {"lowercase": "Lowercase", "strip_accents": "StripAccents"}.items():
        if arguments[name] != (kind in types):
            raise ValueError(
                f"{path} has {'a' if kind in types else 'no'} normalizer {kind}, but {CONFIG}, or ALBERT's default, "
                f"has {name}={arguments[name]}; programs differ in which they follow, so make both as the model was "
                "trained"
            )


def write_sentencepiece_files(directory: str | Path, arguments: dict[str, Any], overwrite: bool) -> None:
    """Writes the model, `tokenizer_config.json` and `tokenizer.json`, from a tokenizer's `get_config()`.

    Raises:
        FileExistsError: there are files of a tokenizer, and `overwrite` is False.
    """
    layout = FAMILIES[arguments["family"]]
    config = {
        "tokenizer_class": ANY_CLASS if layout.as_any_class else layout.transformers_class,
        **layout.special_tokens,
        "mask_token": mask_with_space(layout.special_tokens["mask_token"]),
        "model_input_names": layout.model_inputs,
    }
    if layout.transformers_class == "AlbertTokenizer":
        config |= {"do_lower_case": arguments["lowercase"], "keep_accents": not arguments["strip_accents"]}
    written = {CONFIG: files.to_json(config), ALL_IN_ONE: files.to_json(sentencepiece_whole_file(arguments))}
    if layout.model:
        written[layout.model] = base64.b64decode(arguments["model_file"])
    write_tokenizer(directory, written, overwrite)


def sentencepiece_whole_file(arguments: dict[str, Any]) -> dict[str, Any]:
    """The content of a `tokenizer.json`, from a tokenizer's `get_config()`."""
    model = base64.b64decode(arguments["model_file"])
    return tokenizer_json(model, *(arguments[name] for name in ("family", "lowercase", "strip_accents")))

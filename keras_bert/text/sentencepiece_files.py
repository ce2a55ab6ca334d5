"""`spiece.model`, `sentencepiece.bpe.model` and their `tokenizer_config.json` <-> the arguments of the tokenizer."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.text.sentencepiece_json import tokenizer_json
from keras_bert.text.tokenizer_files import ALL_IN_ONE, CONFIG, read_config

# Family -> the name of its model's file, and of its class in transformers.
_MODELS = {"albert": "spiece.model", "xlm-roberta": "sentencepiece.bpe.model"}
_CLASSES = {"albert": "AlbertTokenizer", "xlm-roberta": "XLMRobertaTokenizer"}
MODELS = tuple(_MODELS.values())


def read_model(model_file: str | Path | bytes) -> bytes:
    """The bytes of a SentencePiece model.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is empty.
    """
    source = "the model"
    if isinstance(model_file, str | os.PathLike):
        source = str(model_file)
        if not Path(model_file).is_file():
            raise FileNotFoundError(f"no SentencePiece model at {model_file}; expected a spiece.model or the like")
        model_file = Path(model_file).read_bytes()
    if not model_file:
        raise ValueError(f"{source} is empty")
    return bytes(model_file)


def read_sentencepiece_files(directory: Path) -> dict[str, Any]:
    """The arguments of `SentencePieceTokenizer` that `directory` tells.

    Args:
        directory: has `spiece.model` or `sentencepiece.bpe.model`, and perhaps `tokenizer_config.json`.

    Raises:
        FileNotFoundError: no model.
        ValueError: a class of tokenizer that is not known here.
    """
    path = files.find(directory, *MODELS)
    family = next(family for family, name in _MODELS.items() if name == path.name)
    config = files.read_json(directory / CONFIG) if (directory / CONFIG).is_file() else {}
    named = str(config.get("tokenizer_class") or "").removesuffix("Fast")
    if named not in ("", "PreTrainedTokenizer", "TokenizersBackend"):
        classes = {name: family for family, name in _CLASSES.items()}
        if named not in classes:
            raise ValueError(
                f"{directory / CONFIG} asks for {named}; supported with SentencePiece: {', '.join(classes)}"
            )
        family = classes[named]
    arguments: dict[str, Any] = {"model_file": path, "family": family}
    if family == "albert":
        names = {"lowercase": "do_lower_case", "keep_accents": "keep_accents"}
        said = read_config(directory, names)
        if "keep_accents" in said:
            said["strip_accents"] = not said.pop("keep_accents")
        arguments |= said
    return arguments


def write_sentencepiece_files(
    directory: str | Path, arguments: dict[str, Any], first: Sequence[str], skipped: int, overwrite: bool
) -> None:
    """Writes the model, `tokenizer_config.json` and `tokenizer.json`; each appears whole or not at all.

    Args:
        directory: made if need be.
        arguments: of the tokenizer, with the model's bytes and the names of the special tokens.
        first, skipped: how the model's pieces become the vocabulary, see `tokenizer_json`.
        overwrite: whether to replace these files.

    Raises:
        FileExistsError: one is there already, and `overwrite` is false.
    """
    family = arguments["family"]
    tokens = {name: token for name, token in arguments.items() if name.endswith("_token")}
    # In a text, it takes the space before it.
    mask = {"__type": "AddedToken", "content": tokens["mask_token"], "lstrip": True, "special": True}
    config = {"tokenizer_class": _CLASSES[family], **tokens, "mask_token": mask}
    if family == "albert":
        config |= {"do_lower_case": arguments["lowercase"], "keep_accents": not arguments["strip_accents"]}
    files.refuse_to_overwrite(directory, (_MODELS[family], CONFIG, ALL_IN_ONE), overwrite)
    with files.written_whole(Path(directory) / _MODELS[family]) as unfinished:
        unfinished.write_bytes(arguments["model_file"])
    whole = tokenizer_json(arguments["model_file"], arguments, first, skipped)
    files.write_texts(directory, {CONFIG: files.to_json(config), ALL_IN_ONE: files.to_json(whole)})

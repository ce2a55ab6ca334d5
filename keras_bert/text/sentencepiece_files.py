"""The files of a SentencePiece tokenizer (its model, or `tokenizer.json`) <-> the tokenizer's arguments."""

import os
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats.hugging_face_tokenizers import ALL_IN_ONE, CONFIG, read_tokenizer_config
from keras_bert.text.sentencepiece_families import FAMILIES
from keras_bert.text.sentencepiece_from_json import read_tokenizer_json
from keras_bert.text.sentencepiece_json import tokenizer_json

MODELS = tuple(layout.model for layout in FAMILIES.values() if layout.model)


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
    """Reads the arguments of `SentencePieceTokenizer` from a directory.

    Args:
        directory: has `spiece.model` or `sentencepiece.bpe.model`, or else `tokenizer.json`; and perhaps
            `tokenizer_config.json`.

    Raises:
        FileNotFoundError: no model.
        ValueError: an unknown class of tokenizer, or a `tokenizer.json` with settings that are not supported.
    """
    path = files.find(directory, *MODELS, ALL_IN_ONE)
    by_class = {layout.transformers_class: name for name, layout in reversed(FAMILIES.items()) if layout.model}
    config = files.read_json(directory / CONFIG) if (directory / CONFIG).is_file() else {}
    named = str(config.get("tokenizer_class") or "").removesuffix("Fast")
    if named in ("", "PreTrainedTokenizer", "TokenizersBackend"):
        named = None
    elif named not in by_class:
        known = ", ".join(sorted(by_class))
        raise ValueError(f"{directory / CONFIG} asks for {named}; supported with SentencePiece: {known}")
    if path.name == ALL_IN_ONE:
        arguments = read_tokenizer_json(path)
    else:
        family = next(family for family, layout in FAMILIES.items() if layout.model == path.name)
        arguments = {"model_file": path, "family": by_class[named] if named else family}
    if FAMILIES[arguments["family"]].transformers_class == "AlbertTokenizer":
        said = read_tokenizer_config(directory, {"lowercase": "do_lower_case", "keep_accents": "keep_accents"})
        if "keep_accents" in said:
            said["strip_accents"] = not said.pop("keep_accents")
        arguments |= said
    return arguments


def write_sentencepiece_files(
    directory: str | Path, model: bytes, family: str, lowercase: bool, strip_accents: bool, overwrite: bool
) -> None:
    """Writes the model, `tokenizer_config.json` and `tokenizer.json`; each appears whole or not at all.

    Args:
        directory: created if missing.
        model, family, lowercase, strip_accents: the tokenizer's.
        overwrite: whether to replace these files.

    Raises:
        FileExistsError: one is there already, and `overwrite` is false.
    """
    layout = FAMILIES[family]
    # In a text, the mask takes the space before it.
    mask = {"__type": "AddedToken", "content": layout.special_tokens["mask_token"], "lstrip": True, "special": True}
    config = {
        "tokenizer_class": layout.transformers_class,
        **layout.special_tokens,
        "mask_token": mask,
        "model_input_names": layout.model_inputs,
    }
    if layout.transformers_class == "AlbertTokenizer":
        config |= {"do_lower_case": lowercase, "keep_accents": not strip_accents}
    files.refuse_to_overwrite(directory, (layout.model or MODELS[0], CONFIG, ALL_IN_ONE), overwrite)
    if layout.model:
        with files.written_whole(Path(directory) / layout.model) as unfinished:
            unfinished.write_bytes(model)
    else:  # a model file would be read rather than tokenizer.json
        (Path(directory) / MODELS[0]).unlink(missing_ok=True)
    whole = tokenizer_json(model, family, lowercase, strip_accents)
    files.write_texts(directory, {CONFIG: files.to_json(config), ALL_IN_ONE: files.to_json(whole)})

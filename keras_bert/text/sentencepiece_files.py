"""The files of a SentencePiece tokenizer: its model, and `tokenizer.json` of type Unigram, with the same ids."""

import base64
import itertools
import re
import reprlib
import struct
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats import keras_hub
from keras_bert.formats.hugging_face_tokenizers import (
    ALL_IN_ONE,
    ANY_CLASS,
    CONFIG,
    STEPS,
    TOKENS,
    mask_with_space,
    steps_of,
    template,
    write_tokenizer,
)
from keras_bert.formats.layout_table import check_plain
from keras_bert.formats.tokenizer_files import TokenizerFiles
from keras_bert.text.sentencepiece_model import (
    BYTE,
    CONTROL,
    FAMILIES,
    NORMAL,
    SPACE,
    UNKNOWN,
    USER_DEFINED,
    ends_in_comma,
    read_model,
    unigram_model,
)

_SPECIAL = {token for layout in FAMILIES.values() for token in layout.special_tokens.values()}
_UNUSED = {token for layout in FAMILIES.values() for token in layout.first} - _SPECIAL  # some files have them as added
_SHAPE = {
    "model": {"vocab": [[str, float]]},
    "added_tokens": [{"id": int, "content": str, "single_word": bool, "rstrip": bool, "normalized": bool}],
    "normalizer": (STEPS, None),
    "pre_tokenizer": (STEPS, None),
}


def tokenizer_json(model: bytes, family: str, lowercase: bool, strip_accents: bool) -> dict[str, Any]:
    """The content of a `tokenizer.json` that gives the same ids as a model (a serialized `ModelProto`).

    `transformers` also reads models, but treats their user-defined symbols, such as ALBERT's `-` and `.`, as words.
    """
    layout = FAMILIES[family]
    tokens, proto = layout.special_tokens, read_model(model)
    vocabulary = [(name, -100.0 if name in layout.hidden else 0.0) for name in layout.first]
    vocabulary += [(each.piece, each.score) for each in proto.pieces[layout.skipped :]]
    vocabulary += [(name, 0.0) for name in layout.last]
    ids = {token: index for index, (token, _) in enumerate(vocabulary)}
    if layout.splits_commas:  # avoids tokens that end in a digit and a comma
        vocabulary = [(token, score - 100 * ends_in_comma(token)) for token, score in vocabulary]
    steps: list[dict[str, Any]] = []
    if layout.as_transformers:
        steps += [{"type": "Replace", "pattern": {"String": quote}, "content": '"'} for quote in ("``", "''")]
    if strip_accents:
        steps += [{"type": "NFKD"}, {"type": "StripAccents"}]
    if lowercase:
        steps += [{"type": "Lowercase"}]
    if charsmap := proto.normalizer_spec.precompiled_charsmap:
        steps += [{"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}]
    metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
    cls, sep, mask = (tokens[f"{name}_token"] for name in ("cls", "sep", "mask"))
    symbols = [each.piece for each in proto.pieces if each.type == USER_DEFINED] if layout.as_transformers else []
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
        "post_processor": template(
            (cls, ids[cls]), (sep, ids[sep]), layout.pair_format.separators, layout.pair_format.second_type_id
        ),
        "decoder": metaspace,
        "model": {
            "type": "Unigram",
            "unk_id": ids[tokens["unk_token"]],
            "vocab": vocabulary,
            "byte_fallback": any(each.type == BYTE for each in proto.pieces),
        },
    }


def read_tokenizer_json(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Reads the arguments of `SentencePieceTokenizer` from the content of a `tokenizer.json` alone.

    Transformers 5 saves it for an `AlbertTokenizer` or `XLMRobertaTokenizer`; KerasHub saves it beside its own model.
    The model is rebuilt, and its `tokenizer_json` compared with the file: settings that a SentencePiece model cannot
    have are refused. Scores are rounded to float32.

    Raises:
        ValueError: it is damaged, or the setting that the message names is not supported.
    """
    if (arguments := keras_hub.tokenizer_arguments(path, content, "Unigram")) is not None:
        return arguments
    files.check_json(content, _SHAPE, path)
    steps = normalizers_of(path, content)
    vocabulary = [token for token, _ in content["model"]["vocab"]]
    family = _family_of(path, vocabulary)
    types = {step["type"] for step in steps}
    arguments = {"family": family, "lowercase": "Lowercase" in types, "strip_accents": "StripAccents" in types}
    hangul = next((token for token in vocabulary if re.search("[가-힣]", token)), None)
    if hangul and "NFKD" in types:
        raise ValueError(
            f"{path}: its normalizer decomposes Hangul syllables (NFKD), such as those of its token {hangul!r}, but "
            "SentencePiece composes them again; save the tokenizer with keep_accents=True"
        )
    charsmaps = [step.get("precompiled_charsmap") for step in steps if step["type"] == "Precompiled"]
    if not any(charsmaps):
        raise ValueError(f"{path}: its normalizer has no Precompiled table, so the ids of white space would differ")
    try:
        model = _rebuilt(content, family, base64.b64decode(charsmaps[0], validate=True))
        theirs, ours = (_compared(each) for each in (content, tokenizer_json(model, **arguments)))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if theirs != ours:
        place, theirs, ours = _first_difference(theirs, ours)
        theirs, ours = reprlib.repr(theirs), reprlib.repr(ours)
        raise ValueError(f"{path}: its {place} is {theirs}, where {family} has {ours}: ids would differ")
    return {"model_file": model, **arguments}


def normalizers_of(path: Path, content: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of the normalizer in the content of a `tokenizer.json`. Raises ValueError if it is damaged."""
    files.check_json(content, {"normalizer": (STEPS, None)}, path)
    return steps_of(content.get("normalizer"), "normalizers")


def _family_of(path: Path, vocabulary: Sequence[str]) -> str:
    for token, times in Counter(vocabulary).items():
        if not token or SPACE in token.lstrip(SPACE):
            raise ValueError(f"{path} has the token {token!r}; only SentencePiece would find it across words")
        if times > 1:
            raise ValueError(f"{path} has the token {token!r} twice")
    if SPACE not in vocabulary:
        raise ValueError(f"{path} has no token {SPACE}: unknown words could not be separated")
    for family in ("albert-transformers", "xlm-roberta", "camembert"):
        layout = FAMILIES[family]
        ends = [*vocabulary[: len(layout.first)], *vocabulary[len(vocabulary) - len(layout.last) :]]
        if ends == [*layout.first, *layout.last] and {*vocabulary}.issuperset(layout.special_tokens.values()):
            return family
    raise ValueError(
        f"{path} is of no known family: its vocabulary has the special tokens of neither ALBERT "
        "([CLS], [SEP], [MASK]) nor, at its ends, XLM-RoBERTa (<s>, <pad>, </s>, <unk>; <mask>) or CamemBERT "
        "(<s>NOTUSED, <pad>, </s>NOTUSED, <unk>, <unk>NOTUSED; <mask>)"
    )


def _rebuilt(content: dict[str, Any], family: str, charsmap: bytes) -> bytes:
    layout = FAMILIES[family]
    unknown = layout.special_tokens["unk_token"]
    added = [token["content"] for token in content["added_tokens"]]
    types = dict.fromkeys(added, USER_DEFINED if layout.as_transformers else NORMAL)
    types |= dict.fromkeys(layout.special_tokens.values(), CONTROL) | {unknown: UNKNOWN}
    vocabulary = content["model"]["vocab"]
    own = vocabulary[len(layout.first) : len(vocabulary) - len(layout.last)]
    pieces = [(token, score, types.get(token, NORMAL)) for token, score in own]
    skipped = [(unknown, 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)][: layout.skipped]
    pieces = [*skipped, *pieces]
    return unigram_model(pieces, charsmap)


def _compared(content: dict[str, Any]) -> dict[str, Any]:
    """The values that determine the ids, spelled as transformers 5 does."""
    added = sorted(content["added_tokens"], key=lambda token: token["id"])
    added = [token for token in added if token["content"] not in _UNUSED]
    return {
        "normalizer": steps_of(content.get("normalizer"), "normalizers"),
        "pre_tokenizer": [_plain_spaces(step) for step in steps_of(content.get("pre_tokenizer"), "pretokenizers")],
        "post_processor": content.get("post_processor"),
        "added_tokens": [_plain_token(token) for token in added],
        "model": {
            "byte_fallback": False,
            **content["model"],
            "vocab": [[token, _rounded(score)] for token, score in content["model"]["vocab"]],
        },
    }


def _rounded(score: float) -> float:
    """Rounded to float32."""
    return struct.unpack("<f", struct.pack("<f", score))[0]


def _plain_spaces(step: dict[str, Any]) -> dict[str, Any]:
    """Metaspace in its current form: older files have `add_prefix_space`."""
    if step["type"] != "Metaspace":
        return step
    always = "always" if step.get("add_prefix_space") else "never"
    step = {"prepend_scheme": always, "split": True} | step
    return {key: value for key, value in step.items() if key not in ("add_prefix_space", "str_rep")}


def _plain_token(token: dict[str, Any]) -> dict[str, Any]:
    """The fields that determine which text is a token. `lstrip` is left out: white space before it has no token."""
    plain = {key: token[key] for key in ("id", "content", "single_word", "rstrip")}
    return plain | {"normalized": token["normalized"] and token["content"] not in _SPECIAL}


def _first_difference(theirs: Any, ours: Any, place: str = "") -> tuple[str, Any, Any]:
    """The place and the two values of the first difference."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        pairs = {f".{key}": (theirs.get(key, "missing"), ours.get(key, "missing")) for key in {**theirs, **ours}}
    elif isinstance(theirs, list) and isinstance(ours, list):
        longest = itertools.zip_longest(theirs, ours, fillvalue="missing")
        pairs = {f"[{index}]": pair for index, pair in enumerate(longest)}
    else:
        return place.removeprefix("."), theirs, ours
    key, pair = next((key, pair) for key, pair in pairs.items() if pair[0] != pair[1])
    return _first_difference(*pair, place + key)


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
        # Two families have a file of the same name: `config.json` tells them apart.
        fitting = [family for family, layout in FAMILIES.items() if layout.model == path.name]
        family = found.model_type if found.model_type in fitting else fitting[0]
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

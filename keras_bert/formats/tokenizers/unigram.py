"""Hugging Face's files for SentencePiece: a model, and a `tokenizer.json` of type Unigram or BPE with the same ids."""

import base64
import itertools
import operator
import re
import reprlib
import string
import struct
import warnings
from collections import Counter
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any, cast

from keras_bert import files
from keras_bert.counted import either
from keras_bert.formats.families.row import SentencePieceFamily
from keras_bert.formats.libraries import keras_hub
from keras_bert.formats.row_translator import check_fixed_values
from keras_bert.formats.tokenizers import sentencepiece_model as spm
from keras_bert.formats.tokenizers import tokenizer_json
from keras_bert.formats.tokenizers.sentencepiece_model import FAMILIES, SPACE, Model
from keras_bert.formats.tokenizers.tokenizer_files import TokenizerFiles
from keras_bert.formats.tokenizers.tokenizer_json import ALL_IN_ONE, ANY_CLASS, CONFIG, STEPS, TOKENS, TYPES

_SETTINGS = {"tokenizer_class": "tokenizer_class", "lowercase": "do_lower_case", "keep_accents": "keep_accents"}
_SIGNS = string.punctuation  # in the order of model2vec
_QUOTES = ("``", "''")  # which transformers replaces by " for ALBERT
_SPACE_PATTERNS = ({"Regex": " {2,}"}, {"Regex": r"\s{2,}|[\n\r\t]"})  # replaced as SentencePiece does by itself
_WORDS, _ID = {"type": "WhitespaceSplit"}, operator.itemgetter("id")
_SPECIAL = {token for usage in FAMILIES.values() for token in usage.special_tokens.values()}
_UNUSED_NAMES = {token for usage in FAMILIES.values() for token in usage.first} - _SPECIAL  # "added" in some files
_SHAPE = {
    "model": {"vocab": [[str, float]]},
    "added_tokens": [{"id": int, "content": str, "single_word": bool, "rstrip": bool, "normalized": bool}],
    "normalizer": (STEPS, None),
    "pre_tokenizer": (STEPS, None),
}


def read_files(preset_files: TokenizerFiles) -> dict[str, Any]:
    """Reads `SentencePieceTokenizer`'s arguments. Raises FileNotFoundError; ValueError if files differ."""
    path, config_path = files.find(preset_files.directory, *TYPES, ALL_IN_ONE), preset_files.directory / CONFIG
    if preset_files.packing != "special":  # static vectors
        preset_files.settings({})
        preset_files.check_keys()
        arguments = arguments_of_file(preset_files.tokenizer_json_path, preset_files.tokenizer_json, is_static=True)
        return {**arguments, "packing": preset_files.packing}
    family_by_class = {usage.transformers_class: name for name, usage in reversed(FAMILIES.items()) if usage.model}
    config = preset_files.settings(_SETTINGS)
    class_name = config.pop("tokenizer_class", "").removesuffix("Fast")
    if class_name in ("PreTrainedTokenizer", "TokenizersBackend"):
        class_name = ""
    if class_name and class_name not in family_by_class:
        known = ", ".join(sorted(family_by_class))
        raise ValueError(f"{config_path} asks for {class_name}; supported with SentencePiece: {known}")
    if path.name == ALL_IN_ONE:
        preset_files.check_type("Unigram")
        arguments = arguments_of_file(path, preset_files.tokenizer_json)
    else:
        # XLM-RoBERTa and CamemBERT have models of the same name, so the model type in `config.json` or the first tokens
        # in `tokenizer.json` decide.
        families = [family for family, usage in FAMILIES.items() if usage.model == path.name]
        tokens = (*preset_files.ids.get(ALL_IN_ONE, ()),)
        begun = [family for family in families if tokens[: len(FAMILIES[family].first)] == FAMILIES[family].first]
        family = preset_files.model_type if preset_files.model_type in families else (*begun, *families)[0]
        arguments = {"model_file": path, "family": family_by_class[class_name] if class_name else family}
    usage = FAMILIES[arguments["family"]]
    check_fixed_values(preset_files.settings(TOKENS), usage.special_tokens, config_path)
    if usage.transformers_class == "DebertaV2Tokenizer":
        check_fixed_values({"do_lower_case": config.get("lowercase")}, {"do_lower_case": False}, config_path)
    if usage.transformers_class == "AlbertTokenizer":
        if "keep_accents" in config:
            config["strip_accents"] = not config.pop("keep_accents")
        arguments |= config
    if preset_files.has_tokenizer_json:
        json_path, content = preset_files.tokenizer_json_path, preset_files.tokenizer_json
        if usage.transformers_class == "AlbertTokenizer":
            _check_normalization(json_path, content, {**usage._asdict(), **arguments})
        preset_files.check_keys()
        pad_token = (content.get("padding") or {}).get("pad_token")
        check_fixed_values(
            {"padding": {"pad_token": pad_token}}, {"padding.pad_token": usage.special_tokens["pad_token"]}, json_path
        )
        if path.name != ALL_IN_ONE:
            arguments = _obey_beside(json_path, content, arguments)

    def read_vocabulary() -> list[str]:
        return spm.read_pieces(arguments["model_file"], arguments["family"])[-1]

    special, _ = preset_files.more_special_tokens({**arguments, **usage.special_tokens}, read_vocabulary)
    return {**arguments, "more_special_tokens": special} if special else arguments


def write_files(directory: str | Path, arguments: dict[str, Any], overwrite: bool) -> None:
    """Writes the files of a `get_config()`; warns if no `tokenizer.json` can express it. Raises FileExistsError."""
    usage = FAMILIES[arguments["family"]]
    model, contents, as_any_class = base64.b64decode(arguments["model_file"]), {}, usage.as_any_class
    proto = spm.read_model(model)
    special_tokens = spm.special_tokens_of(proto.pieces, arguments["family"])
    try:
        contents[ALL_IN_ONE] = files.to_json(json_of(arguments))
        as_any_class |= not _has_usual_options(proto)  # their other classes know no options
    except ValueError as error:
        warnings.warn(f"{error}, so none is written, and transformers gives other ids", stacklevel=3)
    config = {
        "tokenizer_class": ANY_CLASS if as_any_class else usage.transformers_class,
        **special_tokens,
        "mask_token": tokenizer_json.mask_with_space(special_tokens["mask_token"]),
        "model_input_names": usage.model_inputs,
    }
    if usage.transformers_class == "AlbertTokenizer":
        config |= {"do_lower_case": arguments["lowercase"], "keep_accents": not arguments["strip_accents"]}
    if arguments["more_special_tokens"]:
        config["additional_special_tokens"] = arguments["more_special_tokens"]
    contents = {CONFIG: files.to_json(config), **contents}
    if usage.model:
        contents[usage.model] = model
    tokenizer_json.write_tokenizer(directory, contents, overwrite)


# -- A model as a `tokenizer.json`.


def json_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Makes the content of a `tokenizer.json`, from a tokenizer's `get_config()`. Raises as `json_of_model`."""
    names = ("family", "lowercase", "strip_accents", "more_special_tokens")
    return json_of_model(base64.b64decode(arguments["model_file"]), *(arguments[name] for name in names))


def json_of_model(
    model: bytes, family: str, lowercase: bool, strip_accents: bool, more_special_tokens: Sequence[str] = ()
) -> dict[str, Any]:
    """Makes a `tokenizer.json` with a serialized model's ids. Raises ValueError for an option that none can have."""
    # `transformers` can also read the model itself, but then treats its user-defined symbols, such as ALBERT's `-` and
    # `.`, as words, and knows few of SentencePiece's options.
    usage, proto = FAMILIES[family], spm.read_model(model)
    tokens, vocabulary = spm.special_tokens_of(proto.pieces, family), _scored(proto, usage)
    ids = {token: index for index, (token, _) in enumerate(vocabulary)}
    steps = _normalizers(proto, usage, lowercase, strip_accents)
    metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
    pre_tokenizer = {"type": "Sequence", "pretokenizers": [_WORDS, metaspace]}
    sub_model = {"type": "Unigram", "unk_id": ids[tokens["unk_token"]], "vocab": vocabulary}
    if usage.pads_punctuation:
        pre_tokenizer = {**metaspace, "split": False}
    elif not _has_usual_options(proto):
        _check_expressible(proto, usage)
        steps, pre_tokenizer = [*steps, *_spaces_of(proto)], None
        if proto.trainer_spec.model_type != spm.UNIGRAM:
            merges = _merges_of(proto) if proto.trainer_spec.model_type == spm.BPE else []
            unknown = {"unk_token": tokens["unk_token"], "fuse_unk": True}
            sub_model = {"type": "BPE", **unknown, "vocab": ids, "merges": merges}
    symbols = {each.piece for each in proto.pieces if each.type == spm.USER_DEFINED} if usage.as_transformers else set()
    ids = {token: index for index, token in enumerate(dict.fromkeys([*ids, *more_special_tokens]))}
    cls, sep = ((tokens[name], ids[tokens[name]]) for name in ("cls_token", "sep_token"))
    special = {*tokens.values(), *more_special_tokens} - symbols
    packing = tokenizer_json.template(cls, sep, usage.separators, usage.second_type_id)
    if not usage.special_tokens:
        special, packing = special | spm.tokens_in_no_text(proto.pieces, family), None
    added = tokenizer_json.added_entries(ids, special, symbols, tokens["mask_token"])
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{**each, "normalized": False} for each in added],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": pre_tokenizer,
        "post_processor": packing,
        "decoder": metaspace,
        "model": {**sub_model, "byte_fallback": any(each.type == spm.BYTE for each in proto.pieces)},
    }


def _scored(proto: Model, usage: SentencePieceFamily) -> list[tuple[str, float]]:
    """Lists a family's tokens with their scores."""
    vocabulary = [(name, -100.0 if name in usage.hidden else 0.0) for name in usage.first]
    most = max((each.score for each in proto.pieces if each.type == spm.NORMAL), default=0.0)
    for each in proto.pieces[usage.skipped :]:
        is_symbol = each.type == spm.USER_DEFINED and usage.transformers_class != "AlbertTokenizer"
        # SentencePiece's own score of a symbol. ALBERT's are in no other piece, so any score is right.
        vocabulary.append((each.piece, len(each.piece.encode()) * most - 0.1 if is_symbol else each.score))
    vocabulary += [(name, 0.0) for name in usage.last]
    if usage.splits_commas:  # avoids tokens that end in a digit and a comma
        return [(token, score - 100 * spm.ends_in_comma(token)) for token, score in vocabulary]
    return vocabulary


def _normalizers(
    proto: Model, usage: SentencePieceFamily, lowercase: bool, strip_accents: bool
) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    if usage.as_transformers:
        steps += [_replace({"String": quote}, '"') for quote in _QUOTES]
    if strip_accents:
        steps += [{"type": "NFKD"}, {"type": "StripAccents"}]
    if lowercase:
        steps += [{"type": "Lowercase"}]
    if charsmap := proto.normalizer_spec.precompiled_charsmap:
        steps += [{"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}]
    if usage.pads_punctuation:
        steps += [_replace({"String": sign}, f" {sign} ") for sign in _SIGNS]
        steps += [_replace(r"\s+", " "), {"type": "Strip", "strip_left": True, "strip_right": True}]
    return steps


# Rules of normalization that make a space of all white space. A model that was read from `tokenizer.json` has no name.
_SPACE_RULES = ("nmt_nfkc", "nmt_nfkc_cf", "")


def _has_usual_options(proto: Model) -> bool:
    """Whether a model has the default options, and no piece that spans words: then words can be split first."""
    spec, trainer = proto.normalizer_spec, proto.trainer_spec
    return (
        trainer.model_type == spm.UNIGRAM
        and bool(spec.precompiled_charsmap)
        and spec.name in _SPACE_RULES
        and spec.add_dummy_prefix
        and spec.remove_extra_whitespaces
        and spec.escape_whitespaces
        and not trainer.treat_whitespace_as_suffix
        and not any(SPACE in each.piece[1:] for each in proto.pieces if each.type == spm.NORMAL)
    )


def _check_expressible(proto: Model, usage: SentencePieceFamily) -> None:
    """Raises ValueError for options that no `tokenizer.json` can express."""
    kind, types = proto.trainer_spec.model_type, {each.type for each in proto.pieces}
    problems = {
        "the type word, which makes one token of several unknown words": kind == spm.WORD,
        f"the unknown type {kind}": kind not in (spm.UNIGRAM, spm.BPE, spm.WORD, spm.CHAR),
        "spaces that are not escaped": not proto.normalizer_spec.escape_whitespaces,
        "pieces that are unused": spm.UNUSED in types,
        "user-defined symbols, and does not split texts by Unigram": spm.USER_DEFINED in types and kind != spm.UNIGRAM,
        "tokens with commas to split, and does not split texts by Unigram": usage.splits_commas and kind != spm.UNIGRAM,
    }
    for problem, is_there in problems.items():
        if is_there:
            raise ValueError(f"the SentencePiece model has {problem}: no {ALL_IN_ONE} gives the same ids")


def _replace(pattern: str | dict[str, str], content: str) -> dict[str, Any]:
    """Makes a normalizer that replaces what a pattern, by default a regular expression, matches."""
    pattern = {"Regex": pattern} if isinstance(pattern, str) else pattern
    return {"type": "Replace", "pattern": pattern, "content": content}


def _spaces_of(proto: Model) -> list[dict[str, Any]]:
    """Makes the normalizers for a model's options about white space, as `Normalizer::Normalize` applies them."""
    spec = proto.normalizer_spec
    steps = [_replace(rf"\A +|[ {SPACE}]+\z", ""), _replace(" {2,}", " ")] if spec.remove_extra_whitespaces else []
    if spec.add_dummy_prefix:
        is_suffix = proto.trainer_spec.treat_whitespace_as_suffix
        steps += [_replace(r"(?<=[\s\S])\z", SPACE) if is_suffix else {"type": "Prepend", "prepend": SPACE}]
    return [*steps, _replace(" ", SPACE)]


def _merges_of(proto: Model) -> list[list[str]]:
    """Lists a byte-pair model's merges, first to last: each way to split a piece in two. Raises ValueError on ties."""
    scores = {each.piece: each.score for each in proto.pieces if each.type == spm.NORMAL}
    merged = sorted((token for token in scores if len(token) > 1), key=scores.__getitem__, reverse=True)
    if len({scores[token] for token in merged}) < len(merged):
        raise ValueError(f"the SentencePiece model has merges of equal scores: no {ALL_IN_ONE} gives the same ids")
    if missing := next((token for token in merged if not scores.keys() >= {*token}), None):
        raise ValueError(
            f"the SentencePiece model has the piece {missing!r} but not all of its characters: no {ALL_IN_ONE} gives "
            "the same ids"
        )
    splits = ([token[:i], token[i:]] for token in merged for i in range(1, len(token)))
    return [pair for pair in splits if scores.keys() >= {*pair}]


def json_for_texts(
    arguments: dict[str, Any], special_tokens_in_text: bool
) -> tuple[dict[str, Any], list[str], dict[str, str], list[str]]:
    """Makes a `tokenizer.json`, from what `read_files` returns, that finds no tokens by their names in texts."""
    # With `special_tokens_in_text`, it finds the special ones. Returns it, the vocabulary, the special tokens by their
    # names, and the other tokens that no text has. Raises as `spm.read_pieces` and `json_of_model`.
    family = arguments["family"]
    usage, more = FAMILIES[family], arguments.get("more_special_tokens", ())
    settings = {name: arguments.get(name, getattr(usage, name)) for name in ("lowercase", "strip_accents")}
    model, pieces, vocabulary = spm.read_pieces(arguments["model_file"], family)
    special_tokens = spm.special_tokens_of(pieces, family)
    content = json_of_model(model, family, **settings, more_special_tokens=more)
    steps = [_replace({"String": "\0"}, spm.NO_NUL), *content["normalizer"]["normalizers"]]
    if settings["strip_accents"] and not usage.as_transformers:  # what transformers leaves out of ALBERT's preparation
        steps.insert(0, _replace(rf"[{spm.ODD_SPACES}\x{{85}}]", " "))
        marks = _replace(spm.combining_class(), "")
        steps = [marks if step["type"] == "StripAccents" else step for step in steps]
    content["normalizer"] = {"type": "Sequence", "normalizers": steps}
    if content["model"]["type"] == "Unigram":  # merges make none of these tokens
        # The model itself makes only these pieces of texts. No text has a space here, so it has no other token.
        of_texts = {each.piece for each in pieces if each.type in (spm.NORMAL, spm.USER_DEFINED, spm.BYTE)}
        special = {*special_tokens.values()}
        of_texts = of_texts | special if special_tokens_in_text else of_texts - special
        names = {token: token if token in of_texts else f" {token}" for token, _ in content["model"]["vocab"]}
        content["model"]["vocab"] = [(names[token], score) for token, score in content["model"]["vocab"]]
        # The model splits words at no other white space, and transformers at any.
        spaces = {"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": False}
        steps = tokenizer_json.pre_tokenizers_of(content)
        is_other = not usage.as_transformers
        steps = [spaces if is_other and step["type"] == "WhitespaceSplit" else step for step in steps]
        if any(each.type == spm.BYTE for each in pieces):  # a text may spell the name of a byte's token
            pattern = {"Regex": "<(?=0x[0-9A-F]{2}>)"}
            steps += [{"type": "Split", "pattern": pattern, "behavior": "MergedWithPrevious", "invert": False}]
        content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    # The others have no name to be found by, but an id.
    named = {*vocabulary} if not special_tokens_in_text else ()
    added = [each for each in content["added_tokens"] if not each["special"] or each["content"] not in named]
    in_no_text = spm.tokens_in_no_text(pieces, family)
    vocabulary += [token for token in dict.fromkeys(more) if token not in vocabulary]
    others = [*more, *(token for token in vocabulary if token in in_no_text)]
    return {**content, "added_tokens": added}, vocabulary, special_tokens, others


# -- A `tokenizer.json`, alone or beside a model, must have the values that `json_of_model` gives it.


def arguments_of_file(path: Path, content: dict[str, Any], is_static: bool = False) -> dict[str, Any]:
    """Reads a `tokenizer.json` alone, rebuilding its model. Raises ValueError for a setting that no model has."""
    if (arguments := keras_hub.tokenizer_arguments(path, content)) is not None:
        return arguments
    files.check_json(content, _SHAPE, path)
    if is_static:
        content = _without_specials(path, content)
    steps = _read_normalizers(path, content)
    vocabulary = [token for token, _ in content["model"]["vocab"]]
    is_padded = is_static and _pads_punctuation(steps)
    family = "model2vec" if is_padded else _find_family(path, vocabulary, is_static)
    content = _without_markers(content, {*vocabulary})
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
    with files.as_value_error(path, f"{path} is damaged", TypeError, ValueError, OverflowError):
        model = _rebuild_model(content, family, base64.b64decode(cast("str", charsmaps[0]), validate=True))
        actual, expected = (_pick_compared(each) for each in (content, json_of_model(model, **arguments)))
    if actual != expected:
        place, found, wanted = _find_first_difference(actual, expected)
        raise ValueError(f"{path}: its {place} is {found}, where {family} has {wanted}: ids would differ")
    return {"model_file": model, **arguments}


def static_arguments(content: dict[str, Any], ids: Sequence[int]) -> dict[str, Any]:
    """Makes the arguments of a tokenizer with only the tokens `ids` of a `tokenizer.json`, for static vectors."""
    # Raises ValueError if the family "unigram" lacks one of its settings.
    model, places = content["model"], {index: place for place, index in enumerate(ids)}
    try:
        if model["type"] != "Unigram":
            raise ValueError(f"the teacher's tokenizer is of type {model['type']}, not Unigram")
        vocabulary = [[*model["vocab"][index]] for index in ids]
        added = [{**each, "id": places[each["id"]]} for each in content["added_tokens"] if each["id"] in places]
        model = {**model, "vocab": vocabulary, "unk_id": places[model["unk_id"]]}
        return arguments_of_file(
            Path("the teacher's tokenizer"), {**content, "model": model, "added_tokens": added}, is_static=True
        )
    except ValueError as error:
        raise ValueError(f"{error}; choose a teacher with another tokenizer") from None


def _obey_beside(path: Path, content: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Raises ValueError unless a `tokenizer.json` gives the ids of the model beside it. Returns the arguments."""
    # ALBERT's file by transformers gives others than Google's code, and is obeyed: it is read as if it were alone.
    # DeBERTa's does too, but is not followed in how it splits text, as `SentencePieceTokenizer` explains.
    files.check_json(content, {**_SHAPE, "model": {"vocab": ([[str, float]], {str: int})}}, path)
    family = arguments["family"]
    usage = FAMILIES[family]
    patterns = [step.get("pattern") for step in _read_normalizers(path, content)]
    # Only transformers replaces quotes, for ALBERT.
    if usage.transformers_class == "AlbertTokenizer" and any({"String": quote} in patterns for quote in _QUOTES):
        return arguments_of_file(path, content)
    model, _, vocabulary = spm.read_pieces(arguments["model_file"], family)
    settings = {name: arguments.get(name, getattr(usage, name)) for name in ("lowercase", "strip_accents")}
    is_usual = _has_usual_options(spm.read_model(model))
    expected = _pick_compared(json_of_model(model, family, **settings))
    actual = _pick_compared(_without_markers(content, {*vocabulary}))
    for each in (actual, expected):
        # White space before and after special tokens has no ids; `more_special_tokens` checks their ids.
        each["added_tokens"] = [token for token in each["added_tokens"] if token["content"] not in _SPECIAL]
        if is_usual:
            others = [step for step in each["normalizer"] if step["type"] != "Strip"]
            each["normalizer"] = [step for step in others if step.get("pattern") not in _SPACE_PATTERNS]
            each["pre_tokenizer"] = [step for step in each["pre_tokenizer"] if step["type"] != "WhitespaceSplit"]
        if usage.transformers_class == "DebertaV2Tokenizer":
            each["normalizer"] = [step for step in each["normalizer"] if step["type"] not in ("Precompiled", "NFC")]
            each["pre_tokenizer"] = [step["type"] for step in each["pre_tokenizer"]]
            known = len(vocabulary) - len(usage.last)  # theirs has [MASK] among the added tokens alone
            each["model"] = {"unk_id": each["model"].get("unk_id"), "vocab": each["model"]["vocab"][:known]}
    if actual != expected:
        place, found, wanted = _find_first_difference(actual, expected)
        raise ValueError(
            f"{path}: its {place} is {found}, but {usage.model} makes it {wanted}: these files contradict each other; "
            "keep the files of the tokenizer that the model was trained with"
        )
    return arguments


def _without_specials(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Spells a `tokenizer.json` of static vectors as `json_of_model` does, in what changes no ids."""
    vocabulary, unknown = content["model"]["vocab"], content["model"].get("unk_id")
    plain = {"single_word": False, "rstrip": False, "normalized": False}  # special tokens are not matched in texts
    added = sorted((each | plain if each.get("special") else each for each in content["added_tokens"]), key=_ID)
    vocabulary = [*vocabulary, *([each["content"], 0.0] for each in added if each["id"] >= len(vocabulary))]
    if unknown not in [each["id"] for each in added if each.get("special")] or unknown >= len(vocabulary):
        raise ValueError(
            f"{path}: its unk_id is {unknown}, which is the id of no special token; set model.unk_id to that of the "
            "unknown token, and list this token among the added_tokens, with special: true"
        )
    steps = _read_normalizers(path, content)
    words = tokenizer_json.pre_tokenizers_of(content)
    spaces = [step for step in steps if step.get("pattern") in _SPACE_PATTERNS and step.get("content") in (" ", SPACE)]
    if _pads_punctuation(steps):  # and then it leaves out white space
        steps = [step for step in steps if step not in spaces or step["content"] != " "]
    else:
        ends = [step for step in steps if step["type"] == "Strip"]
        if words[:1] != [_WORDS] and not (spaces and any(step.get("strip_right", True) for step in ends)):
            raise ValueError(
                f"{path}: neither its normalizer nor its pre_tokenizer leaves out white space that repeats or ends a "
                f"text, as the tokenizer here does; begin its pre_tokenizer with {_WORDS}"
            )
        steps = [step for step in steps if step not in (*spaces, *ends)]
        words = [_WORDS, *(step for step in words if step != _WORDS)]
    return {
        **content,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": words},
        "post_processor": None,
        "model": {**content["model"], "vocab": vocabulary},
    }


def _pads_punctuation(steps: Sequence[dict[str, Any]]) -> bool:
    return any(step.get("pattern") == {"String": _SIGNS[0]} for step in steps)


def _without_markers(content: dict[str, Any], vocabulary: Container[str]) -> dict[str, Any]:
    """Leaves out the special tokens that the model of a `tokenizer.json` lacks; `more_special_tokens` finds them."""
    added = [each for each in content["added_tokens"] if not each.get("special") or each["content"] in vocabulary]
    return {**content, "added_tokens": added}


def _read_normalizers(path: Path, content: dict[str, Any]) -> list[dict[str, Any]]:
    """Lists the steps of the normalizer in a `tokenizer.json`. Raises ValueError if it is damaged."""
    files.check_json(content, {"normalizer": (STEPS, None)}, path)
    return tokenizer_json.normalizers_of(content)


def _check_normalization(path: Path, content: dict[str, Any], arguments: dict[str, object]) -> None:
    """Raises ValueError if the normalizers in a `tokenizer.json` are not those of the arguments."""
    types = {step["type"] for step in _read_normalizers(path, content)}
    for name, kind in {"lowercase": "Lowercase", "strip_accents": "StripAccents"}.items():
        if arguments[name] != (kind in types):
            raise ValueError(
                f"{path} has {'a' if kind in types else 'no'} normalizer {kind}, but {CONFIG}, or ALBERT's default, "
                f"has {name}={arguments[name]}; programs differ in which they follow, so make both as the model was "
                "trained"
            )


def _find_family(path: Path, vocabulary: Sequence[str], is_static: bool) -> str:
    for token, times in Counter(vocabulary).items():
        if not token or SPACE in token.lstrip(SPACE):
            raise ValueError(f"{path} has the token {token!r}, which spans words; only SentencePiece reads it")
        if times > 1:
            raise ValueError(f"{path} has the token {token!r} twice")
    if SPACE not in vocabulary:
        raise ValueError(f"{path} has no token {SPACE}: unknown words could not be separated")
    if is_static:
        return "unigram"
    described = []
    for family, usage in FAMILIES.items():
        if not usage.is_alone:
            continue
        special = usage.special_tokens.values()
        ends = [*vocabulary[: len(usage.first)], *vocabulary[len(vocabulary) - len(usage.last) :]]
        if ends == [*usage.first, *usage.last] and {*vocabulary}.issuperset(special):
            return family
        tokens = ", ".join(special)
        if usage.first:
            tokens = f"begins with {', '.join(usage.first)} and ends with {', '.join(usage.last)}"
        described.append(f"{family} ({tokens})")
    raise ValueError(f"{path} is of no known family: its vocabulary lacks the special tokens of {either(described)}")


def _rebuild_model(content: dict[str, Any], family: str, charsmap: bytes) -> bytes:
    usage, vocabulary = FAMILIES[family], content["model"]["vocab"]
    added = [token["content"] for token in content["added_tokens"]]
    unknown = usage.special_tokens.get("unk_token") or vocabulary[content["model"]["unk_id"]][0]
    types = dict.fromkeys(added, spm.USER_DEFINED if usage.as_transformers else spm.NORMAL)
    types |= dict.fromkeys(usage.special_tokens.values() or added, spm.CONTROL) | {unknown: spm.UNKNOWN}
    if content["model"].get("byte_fallback"):
        types |= {token: spm.BYTE for token, _ in vocabulary if re.fullmatch("<0x[0-9A-F]{2}>", token)}
    model_vocabulary = vocabulary[len(usage.first) : len(vocabulary) - len(usage.last)]
    pieces = [(token, score, types.get(token, spm.NORMAL)) for token, score in model_vocabulary]
    skipped = [(unknown, 0.0, spm.UNKNOWN), ("<s>", 0.0, spm.CONTROL), ("</s>", 0.0, spm.CONTROL)][: usage.skipped]
    return spm.unigram_model([*skipped, *pieces], charsmap)


def _pick_compared(content: dict[str, Any]) -> dict[str, Any]:
    """Picks the values that determine the ids, spelled as transformers 5 does."""
    added = sorted(content["added_tokens"], key=lambda token: token["id"])
    added = [token for token in added if token["content"] not in _UNUSED_NAMES]
    return {
        "normalizer": tokenizer_json.normalizers_of(content),
        "pre_tokenizer": [_update_metaspace(step) for step in tokenizer_json.pre_tokenizers_of(content)],
        "post_processor": content.get("post_processor"),
        "added_tokens": [_pick_token_fields(token) for token in added],
        "model": {"byte_fallback": False, **content["model"], "vocab": _round_scores(content["model"]["vocab"])},
    }


def _round_scores(vocabulary: Any) -> Any:
    """Rounds the scores of a Unigram vocabulary to float32; another vocabulary stays as it is."""
    if isinstance(vocabulary, dict):
        return vocabulary
    return [[token, struct.unpack("<f", struct.pack("<f", score))[0]] for token, score in vocabulary]


def _update_metaspace(step: dict[str, object]) -> dict[str, object]:
    """Writes Metaspace in its current form: older files have `add_prefix_space`."""
    if step["type"] != "Metaspace":
        return step
    always = "always" if step.get("add_prefix_space") else "never"
    step = {"prepend_scheme": always, "split": True} | step
    return {key: value for key, value in step.items() if key not in ("add_prefix_space", "str_rep")}


def _pick_token_fields(token: dict[str, object]) -> dict[str, object]:
    """Picks the fields that determine which text is a token. Not `lstrip`, as white space before it has no token."""
    plain = {key: token[key] for key in ("id", "content", "single_word", "rstrip")}
    return plain | {"normalized": token["normalized"] and token["content"] not in _SPECIAL}


def _find_first_difference(actual: object, expected: object, place: str = "") -> tuple[str, str, str]:
    """Finds the first difference of two JSON values: its place, such as `model.vocab[3]`, and both values there."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        keys = {**actual, **expected}
        pairs = {f".{key}": (actual.get(key, "missing"), expected.get(key, "missing")) for key in keys}
    elif isinstance(actual, list) and isinstance(expected, list):
        longest = itertools.zip_longest(actual, expected, fillvalue="missing")
        pairs = {f"[{index}]": pair for index, pair in enumerate(longest)}
    else:
        return place.removeprefix("."), reprlib.repr(actual), reprlib.repr(expected)
    key, pair = next((key, pair) for key, pair in pairs.items() if pair[0] != pair[1])
    return _find_first_difference(*pair, place + key)

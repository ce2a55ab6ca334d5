"""Hugging Face's tokenizer files for WordPiece."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats.families import FAMILIES
from keras_bert.formats.tokenizers import tokenizer_json
from keras_bert.formats.tokenizers.tokenizer_files import TokenizerFiles
from keras_bert.formats.tokenizers.tokenizer_json import ALL_IN_ONE, ANY_CLASS, CONFIG, TOKENS, VOCABULARY


@dataclass(frozen=True)
class WordPieceArguments:
    """The arguments of `WordPieceTokenizer`, which explains them, and their defaults."""

    vocabulary: str | Path | Sequence[str]
    lowercase: bool = True
    strip_accents: bool | None = None
    split_on_cjk: bool = True
    max_chars_per_word: int = 200
    special_tokens_in_text: bool = False
    unk_token: str = "[UNK]"
    cls_token: str = "[CLS]"
    sep_token: str = "[SEP]"
    pad_token: str = "[PAD]"
    mask_token: str = "[MASK]"
    separators: int = 1
    second_type_id: int = 1
    added_tokens: Sequence[str] = ()
    more_special_tokens: Sequence[str] = ()
    packing: str = "special"


# Argument of WordPieceTokenizer -> key in tokenizer_config.json.
_NAMES = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "split_on_cjk": "tokenize_chinese_chars",
    "max_chars_per_word": "max_input_chars_per_word",
    **TOKENS,
}

# Classes of transformers -> the values of arguments that follow from the class alone.
_CLASSES = {each.tokenizer_class: each.wordpiece for each in FAMILIES.values() if each.wordpiece}
# What these classes do by default.
_OF_CLASSES = {"lowercase": True, "strip_accents": None, "split_on_cjk": True, "max_chars_per_word": 100}
_NORMALIZER_SHAPE = {"clean_text": bool, "handle_chinese_chars": bool, "strip_accents": (bool, None), "lowercase": bool}


def read_files(tokenizer_files: TokenizerFiles) -> dict[str, Any]:
    """Reads the arguments of `WordPieceTokenizer`. A `tokenizer.json` is obeyed, also beside a `vocab.txt`."""
    path = tokenizer_files.choose_file(VOCABULARY)
    arguments: dict[str, Any] = {}
    if path.name == ALL_IN_ONE or tokenizer_files.has_tokenizer_json:
        arguments = tokenizer_files.arguments("WordPiece", _arguments_of_file)
    config = tokenizer_files.settings(
        _NAMES | {"tokenizer_class": "tokenizer_class"}, arguments.get("added_tokens", ())
    )
    tokenizer_class = config.pop("tokenizer_class", "").removesuffix("Fast")
    if tokenizer_files.has_tokenizer_json:
        if arguments["max_chars_per_word"] == _OF_CLASSES["max_chars_per_word"]:
            config.pop("max_chars_per_word", None)  # an older key of this package; transformers does not read it
        _check_class(tokenizer_files, arguments, config)
    elif not arguments:
        arguments = dict(_CLASSES.get(tokenizer_class, {}))
    if path.name == VOCABULARY:
        arguments["vocabulary"] = path
    if tokenizer_files.has_one_type:
        config["second_type_id"] = 0
    return tokenizer_files.with_special_tokens(arguments | config)


def _check_class(tokenizer_files: TokenizerFiles, arguments: dict[str, Any], config: dict[str, Any]) -> None:
    """Raises ValueError if a `tokenizer.json` differs from its configuration, which is all that some classes follow."""
    name = tokenizer_files.rebuilt_class or ""
    of_class = _CLASSES.get(name, {})
    origin, advice = CONFIG, "programs differ in which they follow, so make both as the model was trained"
    expected = config
    if of_class:
        origin, expected = f"{CONFIG} or, by default, transformers' {name}", {**_OF_CLASSES, **config}
    if _resolve(arguments | expected) != _resolve(expected | arguments):
        raise ValueError(
            f"{tokenizer_files.directory}: {origin} says {_describe(expected)}, but {ALL_IN_ONE} says "
            f"{_describe(arguments)}; {advice}"
        )
    has_types = name == "BertTokenizer" and not tokenizer_files.has_one_type  # MPNet has none
    for key in ("separators", "second_type_id")[: 1 + has_types]:
        if of_class and arguments[key] != of_class[key]:
            raise ValueError(
                f"{tokenizer_files.tokenizer_json_path}: its post_processor packs pairs with {key}={arguments[key]}, "
                f"but transformers' {name} with {of_class[key]}; {advice} (tokenizer_class {ANY_CLASS!r} follows the "
                "post_processor)"
            )


def _resolve(arguments: dict[str, Any]) -> list[object]:
    """Resolves defaults: lower case, no accents, Chinese characters as words; and the longest word."""
    lowercase, accents = arguments.get("lowercase", True), arguments.get("strip_accents")
    split_on_cjk, length = arguments.get("split_on_cjk", True), arguments.get("max_chars_per_word")
    return [lowercase, lowercase if accents is None else accents, split_on_cjk, length]


def _describe(arguments: dict[str, object]) -> str:
    return ", ".join(f"{_NAMES[key]} {arguments.get(key)}" for key in _OF_CLASSES)


def write_files(directory: str | Path, arguments: dict[str, Any], overwrite: bool) -> None:
    """Writes `vocab.txt`, or `tokenizer.json` if no class of transformers does the same, and settings."""
    entries = {key: arguments[argument] for argument, key in _NAMES.items()}
    pairs, special = ("separators", "second_type_id"), arguments["more_special_tokens"]
    classes = (name for name, values in _CLASSES.items() if all(arguments[key] == values[key] for key in pairs))
    needs_json = (
        arguments["packing"] != "special"
        or arguments["added_tokens"]
        or any(len(token.split()) != 1 for token in special)
    )
    name = ANY_CLASS if needs_json else next(classes, ANY_CLASS)
    config = {"tokenizer_class": name, **entries, **({"additional_special_tokens": special} if special else {})}
    if name == ANY_CLASS:
        texts = {ALL_IN_ONE: files.to_json(json_of(arguments))}
    else:
        texts = {VOCABULARY: "".join(token + "\n" for token in arguments["vocabulary"])}
    tokenizer_json.write_tokenizer(directory, {**texts, CONFIG: files.to_json(config)}, overwrite)


def _arguments_of_file(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    model = content["model"]
    normalizers = tokenizer_json.normalizers_of(content)
    tokenizer_json.refuse(path, ("normalizes with", tokenizer_json.types_of(normalizers), "BertNormalizer"))
    (normalizer,) = normalizers
    files.check_json(normalizer, _NORMALIZER_SHAPE, f"{path}: its normalizer")
    tokenizer_json.refuse(
        path,
        ("keeps control characters, clean_text:", normalizer["clean_text"], True),
        ("splits text with", tokenizer_json.types_of(tokenizer_json.pre_tokenizers_of(content)), "BertPreTokenizer"),
        ("marks continuing tokens with", model.get("continuing_subword_prefix", "##"), "##"),
    )
    arguments = tokenizer_json.arguments_of_file(path, content)
    second_cls = arguments.pop("second_cls", False)
    tokenizer_json.refuse(path, ("repeats the first token in pairs, second_cls:", second_cls, False))
    max_chars = model.get("max_input_chars_per_word")
    return {
        **arguments,
        # transformers 5 writes U+2028, a token of BERT's Chinese vocabulary, as "". It is white space, so no text has
        # this token; a placeholder keeps the ids.
        "vocabulary": [token or f"[empty-{index}]" for index, token in enumerate(arguments["vocabulary"])],
        "lowercase": normalizer["lowercase"],
        "strip_accents": normalizer.get("strip_accents"),
        "split_on_cjk": normalizer["handle_chinese_chars"],
        "max_chars_per_word": 100 if max_chars is None else max_chars,
        **({"unk_token": model["unk_token"]} if model.get("unk_token") else {}),
    }


def json_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Makes the content of a `tokenizer.json` from a tokenizer's `get_config()`."""
    vocabulary = arguments["vocabulary"]
    words = vocabulary[: tokenizer_json.words_before(vocabulary, arguments["more_special_tokens"])]
    return tokenizer_json.content_of(
        arguments,
        normalizer={
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": arguments["split_on_cjk"],
            "strip_accents": arguments["strip_accents"],
            "lowercase": arguments["lowercase"],
        },
        pre_tokenizer={"type": "BertPreTokenizer"},
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
        model={
            "type": "WordPiece",
            "unk_token": arguments["unk_token"],
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": arguments["max_chars_per_word"],
            "vocab": {token: index for index, token in enumerate(words)},
        },
    )

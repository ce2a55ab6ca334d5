"""Reads and writes Hugging Face's tokenizer files for WordPiece and byte pairs."""

import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats import keras_hub
from keras_bert.formats.layout_table import check_plain

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
    "max_chars_per_word": "max_input_chars_per_word",
    **_TOKENS,
}
_OF_BYTE_PAIRS = {"add_prefix_space": "add_prefix_space", **_TOKENS}

_SWITCHES = ("do_lower_case", "keep_accents", "strip_accents", "tokenize_chinese_chars", "add_prefix_space")
_CONFIG_SHAPE = {
    **dict.fromkeys(_TOKENS.values(), (str, {"content": str}, None)),
    **dict.fromkeys((*_SWITCHES, "do_basic_tokenize"), (bool, None)),
    **dict.fromkeys(("tokenizer_class", "word_tokenizer_type", "subword_tokenizer_type"), (str, None)),
    "max_input_chars_per_word": (int, None),
    "never_split": ([str], None),
    "added_tokens_decoder": ({str: {"content": str, "special": (bool, None)}}, None),
}
# The only supported values of settings that would give other ids.
_PLAIN_CONFIG = {
    "do_basic_tokenize": True,
    "never_split": [],
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
}
_TEMPLATE = ([{str: {"id": str, "type_id": int}}], None)
_JSON_SHAPE = {
    "model": {
        "type": (str, None),
        "vocab": {str: int},
        "unk_token": (str, None),
        "max_input_chars_per_word": (int, None),
        "merges": (list, None),
    },
    "added_tokens": ([{"id": int, "content": str, "special": bool}], None),
    "normalizer": ({"type": str}, None),
    "pre_tokenizer": ({"type": str, "add_prefix_space": (bool, None)}, None),
    "post_processor": (
        {
            "type": str,
            "cls": ([str, int], None),
            "sep": ([str, int], None),
            "single": _TEMPLATE,
            "pair": _TEMPLATE,
            "special_tokens": ({str: {"ids": [int]}}, None),
        },
        None,
    ),
}
_NORMALIZER_SHAPE = {"clean_text": bool, "handle_chinese_chars": bool, "strip_accents": (bool, None), "lowercase": bool}


def read_wordpiece_files(directory: Path) -> dict[str, Any]:
    """The arguments of `WordPieceTokenizer` from `vocab.txt`, or Hugging Face's or KerasHub's `tokenizer.json`.

    `tokenizer_config.json` takes precedence. Google's checkpoints have none; then the defaults apply.

    Raises:
        FileNotFoundError: no vocabulary.
        ValueError: a file is damaged, of another kind, or has a setting that would give other ids.
    """
    path = files.find(directory, VOCABULARY, ALL_IN_ONE)
    arguments = {"vocabulary": path} if path.name == VOCABULARY else _read_json(path, "WordPiece", _wordpiece)
    return arguments | read_tokenizer_config(directory, _OF_WORDPIECE)


def read_tokenizer_config(directory: Path, names: Mapping[str, str]) -> dict[str, Any]:
    """The values in `tokenizer_config.json`, if there is one. `names`: our name of an argument -> the file's.

    Raises:
        ValueError: the file is damaged, or has a setting that would give other ids.
    """
    path = directory / CONFIG
    if not path.is_file():
        return {}
    config = files.read_json(path, _CONFIG_SHAPE)
    _refuse_added_tokens(path, (config.get("added_tokens_decoder") or {}).values())
    check_plain(config, _PLAIN_CONFIG, path)
    values = {ours: config[theirs] for ours, theirs in names.items() if config.get(theirs) is not None}
    return {name: value["content"] if isinstance(value, dict) else value for name, value in values.items()}


def mask_with_space(token: str) -> dict[str, Any]:
    """A mask token that includes the space before it, for `tokenizer_config.json`."""
    return {"__type": "AddedToken", "content": token, "lstrip": True, "special": True}


def tokenizer_type(path: Path, content: dict[str, Any]) -> str | None:
    """The type of the tokenizer in the `content` of a `tokenizer.json`, Hugging Face's or KerasHub's."""
    if (kind := keras_hub.tokenizer_type(path, content)) is not None:
        return kind
    files.check_json(content, {"model": {"type": (str, None)}}, path)
    return content["model"].get("type") or ("BPE" if "merges" in content["model"] else None)


def _read_json(path: Path, kind: str, arguments_of: Callable[[Path, dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """The arguments of a tokenizer of this kind from a `tokenizer.json`; `arguments_of` reads Hugging Face's."""
    content = files.read_json(path)
    if (arguments := keras_hub.tokenizer_arguments(path, content, kind)) is not None:
        return arguments
    found = tokenizer_type(path, content)
    if found not in (kind, None):
        raise ValueError(f"{path} holds a {found} tokenizer, not {kind}")
    files.check_json(content, _JSON_SHAPE, path)
    return arguments_of(path, content)


def write_wordpiece_files(directory: str | Path, arguments: dict[str, Any], overwrite: bool) -> None:
    """Writes `vocab.txt` and `tokenizer_config.json`. Raises FileExistsError if one exists, unless `overwrite`."""
    stated = {theirs: arguments[ours] for ours, theirs in _OF_WORDPIECE.items()}
    config = {"tokenizer_class": "BertTokenizer", **stated}
    vocabulary = "".join(token + "\n" for token in arguments["vocabulary"])
    files.refuse_to_overwrite(directory, (VOCABULARY, CONFIG), overwrite)
    files.write_texts(directory, {VOCABULARY: vocabulary, CONFIG: files.to_json(config)})


def _wordpiece(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    model = content["model"]
    normalizer = content.get("normalizer") or {}
    _refuse(path, ("normalizes with", normalizer.get("type"), "BertNormalizer"))
    files.check_json(normalizer, _NORMALIZER_SHAPE, f"{path}: its normalizer")
    _refuse(
        path,
        ("keeps control characters, clean_text:", normalizer["clean_text"], True),
        ("splits text with", (content.get("pre_tokenizer") or {}).get("type"), "BertPreTokenizer"),
        ("marks continuing tokens with", model.get("continuing_subword_prefix", "##"), "##"),
    )
    vocabulary = _tokens_of_json(path, content)
    # transformers 5 writes U+2028, a token of BERT's Chinese vocabulary, as "": no text has such a token.
    vocabulary = [token or f"[empty-{index}]" for index, token in enumerate(vocabulary)]
    longest = model.get("max_input_chars_per_word")
    return {
        "vocabulary": vocabulary,
        "lowercase": normalizer["lowercase"],
        "strip_accents": normalizer.get("strip_accents"),
        "split_on_cjk": normalizer["handle_chinese_chars"],
        "max_chars_per_word": 100 if longest is None else longest,
        "unk_token": model.get("unk_token") or "[UNK]",
        **_framing_tokens(path, content, vocabulary, "BertProcessing", separators=1, second_type_id=1),
    }


def read_bytepair_files(directory: Path) -> dict[str, Any]:
    """The arguments of `BytePairTokenizer` from `vocab.json` and `merges.txt`, or `tokenizer.json`.

    `tokenizer_config.json` takes precedence, if there is one. Raises as `read_wordpiece_files`.
    """
    if (directory / IDS).is_file() and (directory / MERGES).is_file():
        arguments: dict[str, Any] = {"vocabulary": directory / IDS, "merges": directory / MERGES}
    else:
        arguments = _read_json(files.find(directory, ALL_IN_ONE), "BPE", _byte_pairs)
    return arguments | read_tokenizer_config(directory, _OF_BYTE_PAIRS)


def write_bytepair_files(directory: str | Path, arguments: dict[str, Any], overwrite: bool) -> None:
    """Writes `vocab.json`, `merges.txt` and `tokenizer_config.json`. Raises FileExistsError as above."""
    stated = {theirs: arguments[ours] for ours, theirs in _OF_BYTE_PAIRS.items()}
    stated["mask_token"] = mask_with_space(stated["mask_token"])
    config = {"tokenizer_class": "RobertaTokenizer", **stated}
    vocabulary = {token: index for index, token in enumerate(arguments["vocabulary"])}
    merges = "".join(f"{line}\n" for line in ("#version: 0.2", *arguments["merges"]))
    files.refuse_to_overwrite(directory, (IDS, MERGES, CONFIG), overwrite)
    texts = {IDS: files.to_json(vocabulary), MERGES: merges, CONFIG: files.to_json(config)}
    files.write_texts(directory, texts)


def _byte_pairs(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    files.check_json(content, {"model": {"merges": list}}, path)
    model = content["model"]
    split = content.get("pre_tokenizer") or {}
    _refuse(
        path,
        ("normalizes with", (content.get("normalizer") or {}).get("type"), None),
        ("splits text with", split.get("type"), "ByteLevel"),
        ("splits text by another pattern than GPT-2's, use_regex:", split.get("use_regex", True), True),
        ("has dropout", model.get("dropout") or None, None),
        ("has ignore_merges", model.get("ignore_merges") or False, False),
        ("marks continuing tokens with", model.get("continuing_subword_prefix") or "", ""),
        ("marks the ends of words with", model.get("end_of_word_suffix") or "", ""),
    )
    vocabulary = _tokens_of_json(path, content)
    return {
        "vocabulary": vocabulary,
        "merges": model["merges"],
        "add_prefix_space": bool(split.get("add_prefix_space")),
        **_framing_tokens(path, content, vocabulary, "RobertaProcessing", separators=2, second_type_id=0),
    }


def _refuse(path: Path, *settings: tuple[str, Any, Any]) -> None:
    """Raises ValueError if a setting (what the file does, its value, the supported value) is not supported."""
    for does, value, plain in settings:
        if value != plain:
            value, plain = reprlib.repr(value), reprlib.repr(plain)
            raise ValueError(f"{path} {does} {value}, where the tokenizer here has {plain}: ids would differ")


def _refuse_added_tokens(path: Path, tokens: Any) -> None:
    for token in tokens:
        if not token.get("special"):
            raise ValueError(
                f"{path} has the added token {token['content']!r:.60}; tokens that are not special but found anywhere "
                "in texts are not supported"
            )


def _tokens_of_json(path: Path, content: dict[str, Any]) -> list[str]:
    """The vocabulary in the `content` of a `tokenizer.json` at `path`, with added tokens; the index is the id."""
    added = content.get("added_tokens") or []
    _refuse_added_tokens(path, added)
    ids = content["model"]["vocab"] | {token["content"]: token["id"] for token in added}
    vocabulary = sorted(ids, key=ids.get)
    if [ids[token] for token in vocabulary] != list(range(len(ids))):
        raise ValueError(f"the ids of the vocabulary in {path} are not 0 to {len(ids) - 1}")
    return vocabulary


def template(cls: tuple[str, int], sep: tuple[str, int], separators: int, second_type_id: int) -> dict[str, Any]:
    """The `post_processor` of a `tokenizer.json`, `[CLS] a [SEP]`, and for a pair `[CLS] a [SEP] b [SEP]`.

    Args:
        cls, sep: each token and its id.
        separators: their number between the two texts of a pair.
        second_type_id: the type of the second text.
    """

    def parts(*names: tuple[str, int]) -> list[dict[str, Any]]:
        return [
            {"Sequence" if name in ("A", "B") else "SpecialToken": {"id": name, "type_id": type_id}}
            for name, type_id in names
        ]

    one = [(cls[0], 0), ("A", 0), (sep[0], 0)]
    type_id = second_type_id
    return {
        "type": "TemplateProcessing",
        "single": parts(*one),
        "pair": parts(*one, *[(sep[0], type_id)] * (separators - 1), ("B", type_id), (sep[0], type_id)),
        "special_tokens": {name: {"id": name, "ids": [index], "tokens": [name]} for name, index in (cls, sep)},
    }


def _framing_tokens(
    path: Path, content: dict[str, Any], vocabulary: list[str], name: str, separators: int, second_type_id: int
) -> dict[str, str]:
    """`cls_token` and `sep_token`, if `tokenizer.json` packs texts as the post-processor of type `name` does.

    `separators` and `second_type_id` are as for `template`.
    """
    found = content.get("post_processor") or {}
    if found.get("type") == name and found.get("cls") and found.get("sep"):
        cls, sep = found["cls"], found["sep"]
        expected = found
    else:
        single = [key for part in found.get("single") or [] for key in part.values()]
        ids = found.get("special_tokens") or {}
        first, last = (single[0]["id"], single[-1]["id"]) if single else ("", "")
        cls, sep = ((token, next(iter(ids.get(token, {}).get("ids", ())), None)) for token in (first, last))
        expected = template(cls, sep, separators, second_type_id)
    packs = all(found.get(key) == expected[key] for key in ("type", "single", "pair") if key in expected)
    if not packs or any(i not in range(len(vocabulary)) or vocabulary[i] != token for token, i in (cls, sep)):
        raise ValueError(
            f"{path}: its post_processor is {reprlib.repr(content.get('post_processor'))}, which does not pack texts "
            f"as {name} does: ids would differ"
        )
    return {"cls_token": cls[0], "sep_token": sep[0]}

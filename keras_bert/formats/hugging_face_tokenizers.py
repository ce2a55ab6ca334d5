"""Hugging Face's tokenizer files: what they share, and reading and writing those for WordPiece."""

import itertools
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats import keras_hub
from keras_bert.formats.layout_table import check_plain

VOCABULARY = "vocab.txt"
CONFIG = "tokenizer_config.json"
IDS, MERGES = "vocab.json", "merges.txt"
ALL_IN_ONE = "tokenizer.json"
_ADDED, _SPECIAL = "added_tokens.json", "special_tokens_map.json"

# Our name of an argument -> the one in tokenizer_config.json.
TOKENS = {f"{name}_token": f"{name}_token" for name in ("unk", "cls", "sep", "pad", "mask")}
_OF_WORDPIECE = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "split_on_cjk": "tokenize_chinese_chars",
    "max_chars_per_word": "max_input_chars_per_word",
    **TOKENS,
}

_SWITCHES = ("do_lower_case", "keep_accents", "strip_accents", "tokenize_chinese_chars", "add_prefix_space")
_CONFIG_SHAPE = {
    **dict.fromkeys(TOKENS.values(), (str, {"content": str}, None)),
    **dict.fromkeys((*_SWITCHES, "do_basic_tokenize"), (bool, None)),
    **dict.fromkeys(("tokenizer_class", "word_tokenizer_type", "subword_tokenizer_type"), (str, None)),
    "max_input_chars_per_word": (int, None),
    "never_split": ([str], None),
    "added_tokens_decoder": ({str: {"content": str, "special": (bool, None)}}, None),
}
ANY_CLASS = "PreTrainedTokenizerFast"  # of transformers: it does what tokenizer.json says
# Classes of transformers for WordPiece -> the values of arguments that only the class tells.
_WORDPIECE_CLASSES = {
    "BertTokenizer": {"separators": 1, "second_type_id": 1},
    "MPNetTokenizer": {"separators": 2, "second_type_id": 0, "max_chars_per_word": 100},
}
# The only supported values of settings that would give other ids.
_PLAIN_CONFIG = {
    "do_basic_tokenize": True,
    "never_split": [],
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
    "split_by_punct": False,
    "sp_model_kwargs": {},
}
_TEMPLATE = ([{str: {"id": str, "type_id": int}}], None)
# A step, or a sequence of steps.
_STEP = {"type": str, "add_prefix_space": (bool, None)}
STEPS = {**_STEP, "normalizers": ([_STEP], None), "pretokenizers": ([_STEP], None)}
# How an added token is found in texts.
_FLAGS = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), (bool, None))
_JSON_SHAPE = {
    "model": {
        "type": (str, None),
        "vocab": {str: int},
        "unk_token": (str, None),
        "max_input_chars_per_word": (int, None),
        "merges": (list, None),
    },
    "added_tokens": ([{"id": int, "content": str, "special": bool, **_FLAGS}], None),
    "normalizer": (STEPS, None),
    "pre_tokenizer": (STEPS, None),
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
    "padding": ({"pad_token": (str, None)}, None),
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
    config = read_tokenizer_config(directory, _OF_WORDPIECE | {"tokenizer_class": "tokenizer_class"})
    stated = config.pop("tokenizer_class", "").removesuffix("Fast")
    arguments: dict[str, Any] = {"vocabulary": path, **_WORDPIECE_CLASSES.get(stated, {})}
    if path.name != VOCABULARY:
        arguments = read_tokenizer_file(path, "WordPiece", _wordpiece)
    return arguments | config


def read_tokenizer_config(
    directory: Path, names: Mapping[str, str], added_tokens: Collection[str] = ()
) -> dict[str, Any]:
    """The values in `tokenizer_config.json`, if there is one.

    Args:
        directory: of the file.
        names: our name of an argument -> the file's.
        added_tokens: those that other files have told.

    Raises:
        ValueError: the file is damaged, or has a setting that would give other ids.
    """
    path = directory / CONFIG
    config = files.read_json(path, _CONFIG_SHAPE) if path.is_file() else {}
    added = config.get("added_tokens_decoder")
    if added is None and (directory / _ADDED).is_file():
        path = directory / _ADDED
        added = _added_before_decoders(directory, config)
    added = (added or {}).values()
    refuse_added_tokens(path, [token for token in added if token["content"] not in added_tokens])
    path = directory / CONFIG
    check_plain(config, _PLAIN_CONFIG, path)
    values = {ours: config[theirs] for ours, theirs in names.items() if config.get(theirs) is not None}
    return {name: value["content"] if isinstance(value, dict) else value for name, value in values.items()}


def _added_before_decoders(directory: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The `added_tokens_decoder` of a directory that older versions of transformers wrote: in two files beside it."""
    names = files.read_json(directory / _SPECIAL) if (directory / _SPECIAL).is_file() else {}
    stated = [*names.values(), *(config.get(name) for name in TOKENS.values())]
    flat = itertools.chain(*(value if isinstance(value, list) else [value] for value in stated))
    special = [value.get("content") if isinstance(value, dict) else value for value in flat]
    added = files.read_json(directory / _ADDED, {str: int})
    return {str(index): {"content": token, "special": token in special} for token, index in added.items()}


def mask_with_space(token: str) -> dict[str, Any]:
    """A mask token that includes the space before it, for `tokenizer_config.json`."""
    return {"__type": "AddedToken", "content": token, "lstrip": True, "special": True}


def tokenizer_type(path: Path, content: dict[str, Any]) -> str | None:
    """The type of the tokenizer in the `content` of a `tokenizer.json`, Hugging Face's or KerasHub's."""
    if (kind := keras_hub.tokenizer_type(path, content)) is not None:
        return kind
    files.check_json(content, {"model": {"type": (str, None)}}, path)
    return content["model"].get("type") or ("BPE" if "merges" in content["model"] else None)


def read_tokenizer_file(
    path: Path, kind: str, arguments_of: Callable[[Path, dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
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
    """Writes `vocab.txt` and `tokenizer_config.json`, from a tokenizer's `get_config()`.

    If no class of transformers packs pairs in this way, `tokenizer.json` takes the place of `vocab.txt`.

    Raises:
        FileExistsError: one of the files exists, and `overwrite` is False.
    """
    stated = {theirs: arguments[ours] for ours, theirs in _OF_WORDPIECE.items()}
    pairs = ("separators", "second_type_id")
    classes = (
        name for name, values in _WORDPIECE_CLASSES.items() if all(arguments[key] == values[key] for key in pairs)
    )
    name = next(classes, ANY_CLASS)
    config = {"tokenizer_class": name, **stated}
    if name == ANY_CLASS:
        write_whole_file(directory, _wordpiece_file(arguments), config, VOCABULARY, overwrite)
        return
    vocabulary = "".join(token + "\n" for token in arguments["vocabulary"])
    files.refuse_to_overwrite(directory, (VOCABULARY, CONFIG), overwrite)
    files.write_texts(directory, {VOCABULARY: vocabulary, CONFIG: files.to_json(config)})


def write_whole_file(
    directory: str | Path, content: dict[str, Any], config: dict[str, Any], replaced: str, overwrite: bool
) -> None:
    """Writes `tokenizer.json` and `tokenizer_config.json`; the file `replaced`, which would take precedence, goes."""
    files.refuse_to_overwrite(directory, (ALL_IN_ONE, CONFIG, replaced), overwrite)
    (Path(directory) / replaced).unlink(missing_ok=True)
    files.write_texts(directory, {CONFIG: files.to_json(config), ALL_IN_ONE: files.to_json(content)})


def added_token(token: str, index: int, special: bool = True, lstrip: bool = False) -> dict[str, Any]:
    """An entry of `added_tokens` in a `tokenizer.json`; `lstrip`: whether it includes the white space before it."""
    flags = {"single_word": False, "lstrip": lstrip, "rstrip": False, "normalized": not special, "special": special}
    return {"id": index, "content": token, **flags}


def _wordpiece_file(arguments: dict[str, Any]) -> dict[str, Any]:
    ids = {token: index for index, token in enumerate(arguments["vocabulary"])}
    cls, sep = ((arguments[name], ids[arguments[name]]) for name in ("cls_token", "sep_token"))
    special = sorted({arguments[name] for name in TOKENS}, key=ids.get)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added_token(token, ids[token]) for token in special],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": arguments["split_on_cjk"],
            "strip_accents": arguments["strip_accents"],
            "lowercase": arguments["lowercase"],
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": template(cls, sep, arguments["separators"], arguments["second_type_id"]),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": arguments["unk_token"],
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": arguments["max_chars_per_word"],
            "vocab": ids,
        },
    }


def _wordpiece(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    model = content["model"]
    normalizers = steps_of(content.get("normalizer"), "normalizers")
    refuse(path, ("normalizes with", types_of(normalizers), "BertNormalizer"))
    (normalizer,) = normalizers
    files.check_json(normalizer, _NORMALIZER_SHAPE, f"{path}: its normalizer")
    refuse(
        path,
        ("keeps control characters, clean_text:", normalizer["clean_text"], True),
        ("splits text with", types_of(steps_of(content.get("pre_tokenizer"), "pretokenizers")), "BertPreTokenizer"),
        ("marks continuing tokens with", model.get("continuing_subword_prefix", "##"), "##"),
    )
    refuse_added_tokens(path, content.get("added_tokens") or [])
    vocabulary = tokens_of_file(path, content)
    # transformers 5 writes U+2028, a token of BERT's Chinese vocabulary, as "": no text has such a token.
    vocabulary = [token or f"[empty-{index}]" for index, token in enumerate(vocabulary)]
    longest = model.get("max_input_chars_per_word")
    return {
        "vocabulary": vocabulary,
        "lowercase": normalizer["lowercase"],
        "strip_accents": normalizer.get("strip_accents"),
        "split_on_cjk": normalizer["handle_chinese_chars"],
        "max_chars_per_word": 100 if longest is None else longest,
        **special_tokens_of_file(content),
        **({"unk_token": model["unk_token"]} if model.get("unk_token") else {}),
        **packing_of_file(path, content, vocabulary),
    }


def refuse(path: Path, *settings: tuple[str, Any, Any]) -> None:
    """Raises ValueError if a setting (what the file does, its value, the supported value) is not supported."""
    for does, value, plain in settings:
        if value != plain:
            value, plain = reprlib.repr(value), reprlib.repr(plain)
            raise ValueError(f"{path} {does} {value}, where the tokenizer here has {plain}: ids would differ")


def steps_of(value: dict[str, Any] | None, key: str) -> list[dict[str, Any]]:
    """The steps of a sequence, which is under `key`; the file may also have a single step, or null."""
    if value is None:
        return []
    return value.get(key) or [] if value["type"] == "Sequence" else [value]


def types_of(steps: Iterable[dict[str, Any]]) -> str | None:
    """The types of some steps, for messages; None if there are none."""
    return ", ".join(step["type"] for step in steps) or None


def refuse_added_tokens(path: Path, tokens: Iterable[dict[str, Any]]) -> None:
    """Raises ValueError if a token, as in `added_tokens`, is not special."""
    for token in tokens:
        if not token.get("special"):
            raise ValueError(
                f"{path} has the added token {token['content']!r:.60}; tokens that are not special but found anywhere "
                "in texts are not supported"
            )


def tokens_of_file(path: Path, content: dict[str, Any]) -> list[str]:
    """The vocabulary in the `content` of a `tokenizer.json` at `path`, with added tokens; the index is the id."""
    added = content.get("added_tokens") or []
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
        "pair": parts(*one, *[(sep[0], 0)] * (separators - 1), ("B", type_id), (sep[0], type_id)),
        "special_tokens": {name: {"id": name, "ids": [index], "tokens": [name]} for name, index in (cls, sep)},
    }


# Types of post-processors -> the number of separators between the texts of a pair, and the type of the second text.
_PROCESSORS = {"BertProcessing": (1, 1), "RobertaProcessing": (2, 0)}


def packing_of_file(path: Path, content: dict[str, Any], vocabulary: list[str]) -> dict[str, Any]:
    """How the `post_processor` of a `tokenizer.json` packs texts: `cls_token`, `sep_token` and the values of a format.

    Raises:
        ValueError: it packs them in another way than `template`.
    """
    found = content.get("post_processor") or {}
    if found.get("type") in _PROCESSORS and found.get("cls") and found.get("sep"):
        cls, sep = found["cls"], found["sep"]
        pairs = [_PROCESSORS[found["type"]]]
    else:
        single = [key for part in found.get("single") or [] for key in part.values()]
        ids = found.get("special_tokens") or {}
        first, last = (single[0]["id"], single[-1]["id"]) if single else ("", "")
        cls, sep = ((token, next(iter(ids.get(token, {}).get("ids", ())), None)) for token in (first, last))
        known = {pair: template(cls, sep, *pair) for pair in itertools.product((1, 2), (0, 1))}
        pairs = [
            pair
            for pair, packs in known.items()
            if all(found.get(key) == packs[key] for key in ("type", "single", "pair"))
        ]
    if not pairs or any(i not in range(len(vocabulary)) or vocabulary[i] != token for token, i in (cls, sep)):
        raise ValueError(
            f"{path}: its post_processor is {reprlib.repr(content.get('post_processor'))}, which packs texts neither "
            "as [CLS] a [SEP] b [SEP] nor as <s> a </s></s> b </s>: ids would differ"
        )
    return {"cls_token": cls[0], "sep_token": sep[0], "separators": pairs[0][0], "second_type_id": pairs[0][1]}


def special_tokens_of_file(content: dict[str, Any]) -> dict[str, str]:
    """`unk_token`, `pad_token` and `mask_token` as far as the `content` of a `tokenizer.json` tells them."""
    special = {token["content"] for token in content.get("added_tokens") or [] if token["special"]}
    stated = {"unk": content["model"].get("unk_token"), "pad": (content.get("padding") or {}).get("pad_token")}
    names = {name: (stated.get(name), f"<{name}>", f"[{name.upper()}]") for name in ("unk", "pad", "mask")}
    found = {name: [each for each in spellings if each in special] for name, spellings in names.items()}
    return {f"{name}_token": spellings[0] for name, spellings in found.items() if spellings}
